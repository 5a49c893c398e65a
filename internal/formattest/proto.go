// SPDX-License-Identifier: Apache-2.0

package formattest

import (
	"context"
	_ "embed" // of the proto
	"strings"
	"sync"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

//go:embed trace.proto
var traceProto string

// traceMessages are compiled once.
var traceMessages = sync.OnceValues(func() (protoreflect.MessageDescriptors, error) { return CompileProto(traceProto) })

// CompileProto compiles the text of a proto file.
func CompileProto(text string) (protoreflect.MessageDescriptors, error) {
	const name = "trace.proto"
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{name: text})}}
	files, err := c.Compile(context.Background(), name)
	if err != nil {
		return nil, err
	}
	return files[0].Messages(), nil
}

// TraceMessages returns the messages of Perfetto's traces that ksnoop writes.
func TraceMessages(t testing.TB) protoreflect.MessageDescriptors {
	t.Helper()
	m, err := traceMessages()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ReadTrace reads a trace of Perfetto. It must have published fields only.
func ReadTrace(t testing.TB, raw []byte) protoreflect.Message {
	t.Helper()
	trace := dynamicpb.NewMessage(TraceMessages(t).ByName("Trace"))
	if err := proto.Unmarshal(raw, trace); err != nil {
		t.Fatal(err)
	}
	noUnknown(t, trace)
	return trace
}

// noUnknown finds fields that are not published.
func noUnknown(t testing.TB, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Errorf("%s has unknown fields: %x", m.Descriptor().FullName(), m.GetUnknown())
	}
	messagesOf(m, func(of protoreflect.Message) { noUnknown(t, of) })
}

// messagesOf calls f for the messages that are fields of a message.
func messagesOf(m protoreflect.Message, f func(protoreflect.Message)) {
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Message() == nil:
		case d.IsList():
			for i := range v.List().Len() {
				f(v.List().Get(i).Message())
			}
		default:
			f(v.Message())
		}
		return true
	})
}

// Texts returns all strings of a message, and the bytes that traces have for strings, a line
// for each. A newline in one becomes another control character, so that Unsafe finds it.
func Texts(m protoreflect.Message) string {
	var out strings.Builder
	appendTexts(&out, m)
	return out.String()
}

func appendTexts(out *strings.Builder, m protoreflect.Message) {
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if d.IsList() {
			return true
		}
		text := ""
		switch d.Kind() {
		case protoreflect.StringKind:
			text = v.String()
		case protoreflect.BytesKind:
			text = string(v.Bytes())
		default:
			return true
		}
		out.WriteString(strings.ReplaceAll(text, "\n", "\x0b"))
		out.WriteByte('\n')
		return true
	})
	messagesOf(m, func(of protoreflect.Message) { appendTexts(out, of) })
}
