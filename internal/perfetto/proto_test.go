// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"os"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ksnoop/ksnoop/internal/formattest"
)

// published names the published file.
const published = "KSNOOP_PERFETTO_PROTO"

// TestPublished: the messages that traces are read back with in these tests are those that
// Perfetto publishes.
func TestPublished(t *testing.T) {
	file := os.Getenv(published)
	if file == "" {
		t.Skip(published + " does not name a perfetto_trace.proto of Perfetto's sources, which have 680 kB of them")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := formattest.CompileProto(string(text))
	if err != nil {
		t.Fatal(err)
	}
	n := compareMessages(t, formattest.TraceMessages(t), want)
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
