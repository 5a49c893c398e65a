// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// compiled compiles a proto file.
func compiled(t testing.TB, file string) protoreflect.FileDescriptor {
	t.Helper()
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(file)}}}
	files, err := c.Compile(context.Background(), filepath.Base(file))
	if err != nil {
		t.Fatal(err)
	}
	return files[0]
}

// published names the published file.
const published = "KSNOOP_PERFETTO_PROTO"

// TestPublished: the messages that traces are read back with in these tests are those that
// Perfetto publishes.
func TestPublished(t *testing.T) {
	file := os.Getenv(published)
	if file == "" {
		t.Skip(published + " does not name a perfetto_trace.proto of Perfetto's sources, which have 680 kB of them")
	}
	want := compiled(t, file)
	n := compareMessages(t, compiled(t, "testdata/trace.proto").Messages(), want.Messages())
	if n < 50 {
		t.Errorf("only %d fields compared", n)
	}
}

// compareMessages compares the fields of messages with those of the same names.
func compareMessages(t *testing.T, got, want protoreflect.MessageDescriptors) (n int) {
	for i := range got.Len() {
		m := got.Get(i)
		w := want.ByName(m.Name())
		if w == nil {
			t.Errorf("%s is not published", m.FullName())
			continue
		}
		n += compareMessages(t, m.Messages(), w.Messages())
		for j := range m.Fields().Len() {
			n++
			f := m.Fields().Get(j)
			p := w.Fields().ByName(f.Name())
			if p == nil || p.Number() != f.Number() || p.Kind() != f.Kind() || p.Cardinality() != f.Cardinality() {
				t.Errorf("%s: published is %v", f.FullName(), p)
				continue
			}
			if f.Enum() != nil {
				compareEnum(t, f.Enum(), p.Enum())
			}
		}
	}
	return n
}

func compareEnum(t *testing.T, got, want protoreflect.EnumDescriptor) {
	for i := range got.Values().Len() {
		v := got.Values().Get(i)
		if p := want.Values().ByName(v.Name()); p == nil || p.Number() != v.Number() {
			t.Errorf("%s: published is %v", v.FullName(), p)
		}
	}
}
