// SPDX-License-Identifier: Apache-2.0

package gospan

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The modules of OpenTelemetry, as far as a program must have them to be taken for one. The program says itself where
// it has what.
var sources = map[string]string{
	"go.mod": "module x\ngo 1.25\nrequire (\n\tgo.opentelemetry.io/otel v0.0.0\n\tgo.opentelemetry.io/otel/sdk v0.0.0\n)\n" +
		"replace go.opentelemetry.io/otel => ./otel\nreplace go.opentelemetry.io/otel/sdk => ./sdk\n",
	"otel/go.mod":         "module go.opentelemetry.io/otel\ngo 1.25\n",
	"otel/trace/trace.go": "package trace\ntype SpanContext struct { flags byte; traceID [16]byte; spanID [8]byte }\ntype Span interface { End() }\n",
	"sdk/go.mod":          "module go.opentelemetry.io/otel/sdk\ngo 1.25\nrequire go.opentelemetry.io/otel v0.0.0\n",
	"sdk/trace/span.go": `package trace
import (
	"fmt"
	"go.opentelemetry.io/otel/trace"
	"time"
	"unsafe"
)
type recordingSpan struct {
	name string
	endTime, other, startTime time.Time
	spanContext trace.SpanContext
}
func (s *recordingSpan) End() { s.endTime = time.Now() }
func New(name string) trace.Span { return &recordingSpan{name: name, startTime: time.Now()} }
func Tell(s trace.Span) {
	var of recordingSpan
	in := unsafe.Offsetof(of.spanContext)
	fmt.Println(*(*uintptr)(unsafe.Pointer(&s)), unsafe.Offsetof(of.startTime), unsafe.Offsetof(of.endTime), in + 1, in + 17)
}
`,
	"main.go": `package main
import (
	"go.opentelemetry.io/otel/sdk/trace"
	"os"
)
func main() {
	s := trace.New(os.Args[0])
	defer s.End()
	trace.Tell(s)
}
`,
	"plain/main.go": "package main\nimport \"os\"\nfunc main() { println(os.Getpid()) }\n",
}

// TestRead: what is read of a program is what it has when it runs.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range sources {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ pkg, flags, want string }{
		{".", "-buildmode=exe", ""},
		{".", "-ldflags=-compressdwarf=false", ""},
		{".", "-ldflags=-s", "it has no symbols"},
		{".", "-ldflags=-w", "it has no debug info"},
		{"./plain", "-ldflags=-w", ErrNoSDK.Error()},
		{"./plain", "-ldflags=-s", ErrNoSDK.Error()},
	} {
		out := filepath.Join(dir, "program")
		cmd := exec.Command("go", "build", "-o", out, c.flags, c.pkg)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		raw, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Read(t.Context(), bytes.NewReader(raw))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrNoSDK) != (c.pkg != ".") {
				t.Errorf("%s %s: %v, want %s", c.pkg, c.flags, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s %s: %v", c.pkg, c.flags, err)
		}
		said, err := exec.Command(out).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintln(l.Table, l.Began, l.Ended, l.Trace, l.Span); got != string(said) || l.TLS != -8 {
			t.Errorf("%s: %s, and the goroutine at %d; the program says %s", c.flags, got, l.TLS, said)
		}
		if _, err := Read(t.Context(), bytes.NewReader(raw[:len(raw)/2])); err == nil {
			t.Error("half a file is taken")
		}
		if c.flags == "-ldflags=-compressdwarf=false" {
			readDamaged(t, raw)
		}
	}
	if _, err := Read(t.Context(), strings.NewReader("#!/bin/sh\n")); !errors.Is(err, ErrNoSDK) {
		t.Errorf("a script: %v", err)
	}
}

// readDamaged reads a program that is damaged in many ways: that ends, and without a fault. The time limit of go test
// says how soon.
func readDamaged(t *testing.T, good []byte) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	parts := []*elf.Section{f.Section(".debug_info"), f.Section(".debug_abbrev"), f.Section(".symtab"), f.Section(".strtab")}
	for i := range 200 {
		bad := bytes.Clone(good)
		for range 1 + random.IntN(100) {
			at := random.Uint64N(1 << 10) // headers
			if part := parts[i%len(parts)]; i%5 != 0 {
				at = part.Offset + random.Uint64N(part.Size)
			}
			bad[at] = byte(random.Uint32())
		}
		if _, err := Read(t.Context(), bytes.NewReader(bad)); err != nil {
			refused++
		}
	}
	if refused < 20 || refused == 200 {
		t.Errorf("of 200 damaged programs %d are refused", refused)
	}
}
