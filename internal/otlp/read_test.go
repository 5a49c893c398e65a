// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// published reads the descriptors that OpenTelemetry publishes. The module fleet has made the file,
// and holds it to theirs.
func published(t testing.TB) *protoregistry.Files {
	t.Helper()
	raw, err := os.ReadFile("testdata/otlp.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A reader reads frames by the published descriptors.
type reader struct {
	t         testing.TB
	files     *protoregistry.Files
	resources map[uint64]string
}

// read returns a line for each frame: its resource without what all have, and its message.
func read(t testing.TB, stream []byte) (lines []string) {
	t.Helper()
	r := reader{t, published(t), map[uint64]string{}}
	for len(stream) > 0 {
		f, rest, err := Next(stream)
		if err != nil {
			t.Fatal(err)
		}
		stream = rest
		switch f.Kind {
		case Forget:
			clear(r.resources)
		case Resource:
			text := r.message("opentelemetry.proto.resource.v1.Resource", f.Body)
			r.resources[f.Resource] = strings.TrimPrefix(text, `{attributes=[service.name="ksnoop" host.arch="amd64" os.type="linux"`)
		case Span:
			lines = append(lines, r.line("span", &f, "trace.v1.Span"))
		case LogRecord:
			lines = append(lines, r.line("log", &f, "logs.v1.LogRecord"))
		case Metric:
			lines = append(lines, r.line("metric", &f, "metrics.v1.Metric"))
		}
	}
	return lines
}

func (r *reader) line(what string, f *Frame, name string) string {
	resource, ok := r.resources[f.Resource]
	if !ok {
		r.t.Errorf("a %s of resource %#x, which was not described", what, f.Resource)
	}
	return what + strings.TrimSuffix(resource, "]}") + " " + r.message("opentelemetry.proto."+name, f.Body)
}

// message reads a message, all of whose fields must be published.
func (r *reader) message(name string, body []byte) string {
	r.t.Helper()
	d, err := r.files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		r.t.Fatal(err)
	}
	m := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
	if err := proto.Unmarshal(body, m); err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	return r.text(m)
}

func (r *reader) text(m protoreflect.Message) string {
	if u := m.GetUnknown(); len(u) > 0 {
		n, _, _ := protowire.ConsumeTag(u)
		r.t.Errorf("%s has no field %d", m.Descriptor().FullName(), n)
	}
	switch m.Descriptor().Name() {
	case "KeyValue":
		return m.Get(m.Descriptor().Fields().ByName("key")).String() + "=" + r.text(m.Get(m.Descriptor().Fields().ByName("value")).Message())
	case "AnyValue":
		f := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
		return r.value(f, m.Get(f))
	}
	var fields []protoreflect.FieldDescriptor
	m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, f)
		return true
	})
	sort.Slice(fields, func(i, j int) bool { return fields[i].Number() < fields[j].Number() })
	var parts []string
	for _, f := range fields {
		v := m.Get(f)
		if !f.IsList() {
			parts = append(parts, string(f.Name())+"="+r.value(f, v))
			continue
		}
		var list []string
		for i := range v.List().Len() {
			list = append(list, r.value(f, v.List().Get(i)))
		}
		parts = append(parts, string(f.Name())+"=["+strings.Join(list, " ")+"]")
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func (r *reader) value(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return r.text(v.Message())
	case protoreflect.EnumKind:
		return string(f.Enum().Values().ByNumber(v.Enum()).Name())
	case protoreflect.StringKind:
		return fmt.Sprintf("%q", v.String())
	case protoreflect.BytesKind:
		return fmt.Sprintf("%x", v.Bytes())
	}
	return fmt.Sprint(v.Interface())
}
