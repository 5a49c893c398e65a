// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
)

// withoutRace are unit tests that run without the race detector, by the path of their package.
// Other tests of the package, which stay with the detector, run the same code, less often or on
// less data. It makes these up to 20 times as long, and has nothing more to find.
var withoutRace = map[string][]string{
	modulePath + "/internal/completion": {
		"TestCandidatesFinish", // TestComplete
	},
	modulePath + "/internal/debuginfo": {
		"TestDamaged",            // TestBomb and TestCut read damaged files
		"TestInlinedIntoKernel",  // TestInlined finds the same in a program
		"TestKernelEqualsOracle", // TestModuleEqualsOracle and TestProgramEqualsOracle
		"TestSparse",             // measures memory; TestClaimedSize
	},
}

const modulePath = "github.com/ksnoop/ksnoop"

// A unitRun is one command `go test`.
type unitRun struct {
	flags, packages []string
}

// unitRuns are the runs that all unit tests of the packages take, as rows that run side by side.
func unitRuns(packages []string) [][]unitRun {
	race := []string{"-race", "-skip"}
	// These have the longest tests: they begin at once, and take turns with each other.
	var apart []unitRun
	for _, p := range slices.Sorted(maps.Keys(withoutRace)) {
		if !slices.Contains(packages, p) {
			continue
		}
		names := strings.Join(withoutRace[p], "|")
		apart = append(apart,
			unitRun{slices.Concat(race, []string{"^(TestLive.*|" + names + ")$"}), []string{p}},
			unitRun{[]string{"-run", "^(" + names + ")$"}, []string{p}})
	}
	others := slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return withoutRace[p] != nil })
	rows := [][]unitRun{apart}
	if len(others) > 0 {
		rows = append(rows, []unitRun{{slices.Concat(race, []string{"^TestLive"}), others}})
	}
	return rows
}
