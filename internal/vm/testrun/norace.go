// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
)

// withoutRace are unit tests that run without the race detector, by the path of their package.
// Other tests of the package, which stay with the detector, run the same code, less often or on
// less data. It makes these up to 80 times as long, and has nothing more to find.
var withoutRace = map[string][]string{
	modulePath + "/btfprint": {
		"TestCorruptBTF", // TestEndlessTypes and TestHostileNames; TestConcurrent is what the detector is for
		"TestLibbpf",     // TestZeroElision
		"TestPahole",     // TestPrototypesCompile and TestDeclaratorsCompile
	},
	modulePath + "/cmd/ksnoop": {
		"TestBadInput",           // TestBadSpec
		"TestHostileCommandLine", // TestMessagesAreText
		"TestHostileForms",       // TestHostileRecording
		"TestPages",              // TestReplay and TestPrint
		"TestPathPairs",          // TestPairs
		"TestPrintEndless",       // TestListEndless and TestPrint
		"TestTwoRuns",            // TestPairs
	},
	modulePath + "/expr": {
		"TestAgreesWithC", // TestCheckTerms; expressions are evaluated by one goroutine
	},
	modulePath + "/internal/debuginfo": {
		"TestDamaged",            // TestBomb and TestCut read damaged files
		"TestInlinedIntoKernel",  // TestInlined finds the same in a program
		"TestKernelEqualsOracle", // TestModuleEqualsOracle and TestProgramEqualsOracle
		"TestSparse",             // measures memory; TestClaimedSize
	},
	modulePath + "/internal/plan": {
		"TestManyNames", // TestManyUnknown
	},
	modulePath + "/internal/process": {
		"TestRecordedParts", // TestFollowed and TestRecorderLimits
	},
	modulePath + "/internal/record": {
		"TestHookCost", // TestRefused
		"TestPlanCost", // TestRefused
		"TestSize",     // TestSessionSize
	},
}

// sequential are the packages that start no goroutine and guard nothing against another one, as
// TestSequential sees: the race detector has nothing to find in their tests. Where others
// use them from several goroutines, the tests of those run with the detector.
var sequential = []string{
	modulePath + "/codegen",
	modulePath + "/internal/calls",
	modulePath + "/internal/code",
	modulePath + "/internal/completion",
	modulePath + "/internal/completion/shell",
	modulePath + "/internal/debuginfo/find",
	modulePath + "/internal/diff",
	modulePath + "/internal/dw",
	modulePath + "/internal/elfhead",
	modulePath + "/internal/errno",
	modulePath + "/internal/event",
	modulePath + "/internal/exprfuzz",
	modulePath + "/internal/folded",
	modulePath + "/internal/glob",
	modulePath + "/internal/gospan",
	modulePath + "/internal/jsonlines",
	modulePath + "/internal/output",
	modulePath + "/internal/overview",
	modulePath + "/internal/pages",
	modulePath + "/internal/perfetto",
	modulePath + "/internal/pprof",
	modulePath + "/internal/prometheus",
	modulePath + "/internal/ptregs",
	modulePath + "/internal/qualifier",
	modulePath + "/internal/report",
	modulePath + "/internal/requery",
	modulePath + "/internal/samples",
	modulePath + "/internal/session",
	modulePath + "/internal/suggest",
	modulePath + "/internal/summary",
	modulePath + "/internal/symbols",
	modulePath + "/internal/symname",
	modulePath + "/internal/uapi",
	modulePath + "/internal/unwind",
	modulePath + "/internal/userfunc",
	modulePath + "/layout",
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
	var alone, others []string
	for _, p := range packages {
		switch {
		case withoutRace[p] != nil:
		case slices.Contains(sequential, p):
			alone = append(alone, p)
		default:
			others = append(others, p)
		}
	}
	if len(alone) > 0 {
		apart = append(apart, unitRun{[]string{"-skip", "^TestLive"}, alone})
	}
	var rows [][]unitRun
	if len(apart) > 0 {
		rows = append(rows, apart)
	}
	if len(others) > 0 {
		rows = append(rows, []unitRun{{slices.Concat(race, []string{"^TestLive"}), others}})
	}
	return rows
}
