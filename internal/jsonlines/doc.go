// SPDX-License-Identifier: Apache-2.0

// Package jsonlines prints the events of a run as JSON, one object on each line: a header, then
// events in the order of the stream, and an end. schema.json describes every line, and
// docs/json.md how to read them.
//
// The form of a value depends on its C type alone, so that all values of an expression fit in
// one column of a table. What many events have in common is written once: functions in the
// header, stacks before the first event that has them. Kernel memory and names of processes
// are untrusted: everything goes through terminal.AppendJSON, and no control character is
// written as it is.
package jsonlines

import _ "embed" // of the schema

//go:embed schema.json
var schema string

// Schema returns the JSON Schema of all lines.
func Schema() string { return schema }
