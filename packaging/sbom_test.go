// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestBill: a bill meets CycloneDX's schema, is the same of the same binary, and names what the go command
// wrote into the binary.
func TestBill(t *testing.T) {
	b := build{arch: "arm64", version: "0.1.0", program: []byte("program"), info: &debug.BuildInfo{GoVersion: "go1.26.8",
		Main: debug.Module{Path: "github.com/ksnoop/ksnoop", Version: "v0.1.0"},
		Deps: []*debug.Module{{Path: "example.org/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/new", Version: "v1.2.3", Sum: "h1:abc="}}}}}
	src := source{commit: "0123456789abcdef", time: time.Unix(1764000000, 0).UTC()}
	bill, err := billOf(src, b)
	if err != nil {
		t.Fatal(err)
	}
	holdBill(t, bill)
	for _, want := range []string{`"pkg:golang/example.org/new@v1.2.3?type=module"`, `"h1:abc="`, `"pkg:golang/std@1.26.8?type=module"`, `"0123456789abcdef"`, `"2025-11-24T16:00:00Z"`} {
		if !strings.Contains(string(bill), want) {
			t.Errorf("the bill lacks %s", want)
		}
	}
	if again, err := billOf(src, b); err != nil || !bytes.Equal(bill, again) {
		t.Errorf("another bill of the same binary: %v", err)
	}
	src.time = time.Time{}.Add(-time.Hour * 24 * 400) // before the year 1: no time that the schema takes
	if bill, err = billOf(src, b); err != nil || billFault(t, bill) == nil {
		t.Errorf("the schema takes a bill of a wrong time: %v", err)
	}
}

func holdBill(t *testing.T, bill []byte) {
	t.Helper()
	if err := billFault(t, bill); err != nil {
		t.Errorf("the bill does not meet the schema: %v", err)
	}
}

// billFault holds a bill to the schema that the module of CycloneDX's types comes with.
func billFault(t *testing.T, bill []byte) error {
	t.Helper()
	dir, err := output(t.Context(), ".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range []string{"bom-1.6.schema.json", "spdx.schema.json", "jsf-0.82.schema.json"} {
		text, err := os.ReadFile(filepath.Join(dir, "schema", name))
		if name == "jsf-0.82.schema.json" { // of signatures, which there are none of; it lies there by another name
			text, err = os.ReadFile(filepath.Join(dir, "schema", "jsf-0.82.schemax.json"))
		}
		if err != nil {
			t.Fatal(err)
		}
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = c.AddResource("http://cyclonedx.org/schema/"+name, schema)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(bill, &doc); err != nil {
		t.Fatal(err)
	}
	return schema.Validate(doc)
}
