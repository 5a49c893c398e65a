// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"os"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// published has the descriptors that ksnoop's unit tests read requests with.
const published = "../internal/otlp/testdata/otlp.binpb"

var update = flag.Bool("update", false, "write "+published)

// TestPublished: the descriptors are those that OpenTelemetry publishes.
func TestPublished(t *testing.T) {
	set := &descriptorpb.FileDescriptorSet{}
	known := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if known[f.Path()] {
			return
		}
		known[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(coltrace.File_opentelemetry_proto_collector_trace_v1_trace_service_proto)
	add(collogs.File_opentelemetry_proto_collector_logs_v1_logs_service_proto)
	add(colmetrics.File_opentelemetry_proto_collector_metrics_v1_metrics_service_proto)
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(published, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(published); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what is published: %v; -update writes it", published, err)
	}
}
