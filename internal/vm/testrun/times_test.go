// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestTimes: the longest first and no more than are asked for, of tests without their parts,
// with the kernel.
func TestTimes(t *testing.T) {
	var all tally
	for _, where := range []string{"", "6.1"} {
		in := `{"Action":"pass","Package":"p","Test":"TestA/part","Elapsed":99}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":12.4}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":30}
{"Action":"fail","Package":"p","Elapsed":130}
`
		one := &tally{w: io.Discard}
		if err := one.read(strings.NewReader(in), where); err != nil {
			t.Fatal(err)
		}
		all.add(one)
	}
	const want = `slowest:
   30.0s p.TestB
   30.0s p.TestB [6.1]
   12.4s p.TestA
   12.4s p.TestA [6.1]
   42.4s in all [6.1]
   42.4s in all [unit tests]
`
	if got := all.times.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	var many times
	for i := range 2 * slowest {
		many = append(many, timed{fmt.Sprint("p.T", i), "6.1", float64(i)})
	}
	if got := many.String(); strings.Count(got, "p.T") != slowest || strings.Contains(got, fmt.Sprintf("p.T%d\n", slowest-1)) {
		t.Errorf("got\n%s", got)
	}
	if got := (times)(nil).String(); got != "" {
		t.Errorf("without tests: %q", got)
	}
}
