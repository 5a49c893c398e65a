// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
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

// TestGuestTimes: a live test takes what its guest has used of the CPUs meanwhile, its parts together,
// whatever the guest's clock says.
func TestGuestTimes(t *testing.T) {
	used := 10 * time.Second
	one := &tally{w: io.Discard, cpu: func() time.Duration { used += 2 * time.Second; return used }}
	in := `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/part"}
{"Action":"pass","Package":"p","Test":"TestA/part","Elapsed":99}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":120}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestB"}
`
	if err := one.read(strings.NewReader(in), "6.1"); err != nil {
		t.Fatal(err)
	}
	const want = `slowest:
    2.0s p.TestA [6.1]
    2.0s p.TestB [6.1]
    4.0s in all [6.1]
`
	if got := one.times.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
