// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestUnitRuns: each package is tested with the race detector, and each of the tests that run
// without it exists and runs once.
func TestUnitRuns(t *testing.T) {
	packages := []string{modulePath + "/internal/completion", modulePath + "/internal/debuginfo", modulePath + "/internal/record"}
	var raced []string
	matched := map[string]int{}
	for _, row := range unitRuns(packages) {
		for _, r := range row {
			if pattern := regexp.MustCompile(r.flags[len(r.flags)-1]); r.flags[0] == "-race" {
				raced = append(raced, r.packages...)
				if !pattern.MatchString("TestLiveVoid") {
					t.Errorf("%q runs live tests", r)
				}
				if slices.Contains(r.packages, modulePath+"/internal/record") && pattern.MatchString("TestDamaged") {
					t.Errorf("%q leaves out the test of another package", r)
				}
				if pattern.MatchString("TestDamagedToo") {
					t.Errorf("%q leaves out by the beginning of a name", r)
				}
			} else {
				for p, tests := range withoutRace {
					for _, name := range tests {
						if slices.Contains(r.packages, p) && pattern.MatchString(name) {
							matched[p+"."+name]++
						}
					}
				}
			}
		}
	}
	if slices.Sort(raced); !slices.Equal(raced, packages) {
		t.Errorf("with the detector: %q", raced)
	}
	for p, tests := range withoutRace {
		files, err := filepath.Glob(filepath.Join("../../..", strings.TrimPrefix(p, modulePath), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, b...)
		}
		for _, name := range tests {
			if !strings.Contains(string(text), "\nfunc "+name+"(") || matched[p+"."+name] != 1 {
				t.Errorf("%s has no test %s, or it runs %d times", p, name, matched[p+"."+name])
			}
		}
	}
	if rows := unitRuns([]string{modulePath + "/expr"}); len(slices.Concat(rows...)) != 1 {
		t.Errorf("runs of one package: %q", rows)
	}
}
