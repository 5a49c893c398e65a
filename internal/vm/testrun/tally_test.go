// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	tests := []struct {
		name, where, in string
		counts          string
		failures        []string
		shown, hidden   []string
	}{
		{
			name: "passes are counted and their output is not shown",
			in: `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"pass","Package":"p","Elapsed":1.5}`,
			counts: "2 passed, 0 failed, 0 skipped",
			shown:  []string{"pass  p 2 passed, 0 failed, 0 skipped (1.5s)"},
			hidden: []string{"chatter", "RUN"},
		},
		{
			name:  "a failing test's output is shown, with the kernel",
			where: "6.1",
			in: `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}`,
			counts:   "0 passed, 1 failed, 0 skipped",
			failures: []string{"p.TestA [6.1]"},
			shown:    []string{"FAIL  p.TestA [6.1]\n    a_test.go:1: wrong\n"},
			hidden:   []string{"=== RUN"},
		},
		{
			name:  "what a soak test has tried is shown, although it passes",
			where: "6.1",
			in: `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: chatter\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:2: soak: killed: 3 times\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`,
			counts: "1 passed, 0 failed, 0 skipped",
			shown:  []string{"soak: 6.1: killed: 3 times\n"},
			hidden: []string{"chatter"},
		},
		{
			name: "a skipped test says why",
			in: `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: no such thing\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`,
			counts: "0 passed, 0 failed, 1 skipped",
			shown:  []string{"skip  p.TestA\n    a_test.go:1: no such thing\n"},
		},
		{
			name:   "a package without tests is neither",
			in:     `{"Action":"skip","Package":"p"}`,
			counts: "0 passed, 0 failed, 0 skipped",
			hidden: []string{"p"},
		},
		{
			name: "a package that fails without a test is one failure",
			in: `{"Action":"output","Package":"p","Output":"panic: boom\n"}
{"Action":"fail","Package":"p"}`,
			counts:   "0 passed, 1 failed, 0 skipped",
			failures: []string{"p"},
			shown:    []string{"FAIL  p\npanic: boom\n"},
		},
		{
			name: "what the compiler says is shown",
			in: `{"ImportPath":"p [p.test]","Action":"build-output","Output":"a.go:1: undefined: x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			counts:   "0 passed, 1 failed, 0 skipped",
			failures: []string{"p"},
			shown:    []string{"a.go:1: undefined: x\n"},
		},
		{
			name: "a stream that breaks off is a failure",
			in: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/sub"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"guest ran out of time\n"}`,
			counts:   "0 passed, 1 failed, 0 skipped",
			failures: []string{"p"},
			shown:    []string{"FAIL  p\nunfinished: TestA\nunfinished: TestA/sub\nguest ran out of time\nended without a result"},
		},
		{
			name:   "a line that is not JSON is shown",
			in:     "go: no such tool\n",
			counts: "0 passed, 0 failed, 0 skipped",
			shown:  []string{"go: no such tool"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			c := &tally{w: &out}
			if err := c.read(strings.NewReader(tt.in), tt.where); err != nil {
				t.Fatal(err)
			}
			if got := c.String(); got != tt.counts {
				t.Errorf("counts %q, want %q", got, tt.counts)
			}
			if !slices.Equal(c.failures, tt.failures) {
				t.Errorf("failures %q, want %q", c.failures, tt.failures)
			}
			for _, s := range tt.shown {
				if !strings.Contains(out.String(), s) {
					t.Errorf("output lacks %q:\n%s", s, &out)
				}
			}
			for _, s := range tt.hidden {
				if strings.Contains(out.String(), s) {
					t.Errorf("output has %q:\n%s", s, &out)
				}
			}
		})
	}
}
