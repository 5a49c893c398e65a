// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const testRows = `    x_test.go:1: kernels: {"Kernel":"6.12.1","Arch":"amd64","Method":"fentry","View":"calls","Why":""}
    x_test.go:1: kernels: {"Kernel":"6.12.1","Arch":"amd64","Method":"fentry","View":"lbr","Why":"no branches"}
    x_test.go:1: kernels: {"Kernel":"7.3","Arch":"arm64","Method":"fentry","View":"calls","Why":""}
    x_test.go:1: kernels: {"Kernel":"7.3","Arch":"arm64","Method":"fentry","View":"lbr","Why":"no branches"}
    x_test.go:1: kernels: of no row
    x_test.go:1: kernels: {broken
    x_test.go:1: kernels: {"Kernel":"6.2","Arch":"amd64","Method":"multi","View":"calls","Why":"not supported"}
`

func TestTable(t *testing.T) {
	var rs rows
	for line := range strings.Lines(testRows) {
		rs.take(line)
	}
	file := filepath.Join(t.TempDir(), "kernels.md")
	want := func(table string) string {
		return "# Kernels\n\n" + tableBegin + table + tableEnd + "\nThe end.\n"
	}
	if err := os.WriteFile(file, []byte(want("old")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := rs.update(file, true); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const table = `
| kernel | architecture | method | calls | lbr |
|---|---|---|---|---|
| 6.2 | amd64 | multi | no (1) | not tried |
| 6.12.1 | amd64 | fentry | passed | no (2) |
| 7.3 | arm64 | fentry | passed | no (2) |

1. not supported
2. no branches

`
	if string(got) != want(table) {
		t.Errorf("got\n%s\nwant\n%s", got, want(table))
	}
	// What was not tried again stays, with its reasons.
	again := rows{{"6.12.1", "amd64", "fentry", "calls", "not here"}, {"6.12.1", "amd64", "fentry", "lbr", ""}}
	if err := again.update(file, false); err != nil {
		t.Fatal(err)
	}
	if got, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	const second = `
| kernel | architecture | method | calls | lbr |
|---|---|---|---|---|
| 6.2 | amd64 | multi | no (1) | not tried |
| 6.12.1 | amd64 | fentry | no (2) | passed |
| 7.3 | arm64 | fentry | passed | no (3) |

1. not supported
2. not here
3. no branches

`
	if string(got) != want(second) {
		t.Errorf("got\n%s\nwant\n%s", got, want(second))
	}
	if err := (rows)(nil).update(file, true); err == nil {
		t.Error("no rows were written")
	}
	if err := os.WriteFile(file, []byte("no marks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := rs.update(file, true); err == nil || !strings.Contains(err.Error(), "has no lines") {
		t.Errorf("without the marks: %v", err)
	}
}
