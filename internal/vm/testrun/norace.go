// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
)

// withoutRace are long unit tests that run without the race detector, by the path of their package. It makes them up to 80
// times as long. What they run is sequential, or one of the tests that are named with each, which
// stay with the detector, runs what is not: the detector has nothing more to find in them.
var withoutRace = map[string]map[string][]string{
	modulePath + "/btfprint": {
		"TestCorruptBTF": {"TestEndlessTypes", "TestHostileNames", "TestConcurrent"},
		"TestLibbpf":     {"TestZeroElision"},
		"TestPahole":     {"TestPrototypesCompile", "TestDeclaratorsCompile"},
	},
	modulePath + "/cmd/ksnoop": {
		"TestBadInput":           {"TestBadSpec"},
		"TestHostileCommandLine": {"TestMessagesAreText"},
		"TestHostileForms":       {"TestHostileRecording"},
		"TestPages":              {"TestReplay", "TestPrint"},
		"TestPathPairs":          {"TestPairs", "TestDiff"}, // ways are decoded by packages that are sequential
		"TestPrintEndless":       {"TestPrintFaults", "TestPrint"},
		"TestTwoRuns":            {"TestPairs", "TestDiff"},
	},
	modulePath + "/expr": {
		"TestAgreesWithC": {"TestTraps", "TestCheckTerms", "TestWideBitfield", "TestUntypedArguments"},
	},
	modulePath + "/internal/debuginfo": {
		"TestDamaged":             {"TestBomb", "TestCut"},
		"TestInlinedEqualsOracle": {"TestInlined", "TestProgramEqualsOracle"},
		"TestInlinedIntoKernel":   {"TestInlined"},
		"TestKernelEqualsOracle":  {"TestProgramEqualsOracle"},
		"TestModuleEqualsOracle":  {"TestProgramEqualsOracle"},
		"TestSplit":               {"TestSplitMissing", "TestProgramEqualsOracle"},
		"TestSparse":              {"TestClaimedSize"}, // it measures memory
	},
	modulePath + "/internal/plan": {
		"TestManyNames": {"TestSpared", "TestIdleDeny", "TestManyUnknown"},
	},
	modulePath + "/internal/process": {
		"TestRecordedParts": {"TestFollowed", "TestRecorderLimits"},
	},
	modulePath + "/internal/record": {
		"TestHookCost": {"TestRefused"},
		"TestPlanCost": {"TestRefused"},
		"TestSize":     {"TestSessionSize", "TestModules"},
	},
	modulePath + "/internal/why": {
		"TestWritten": {"TestNotWritten", "TestAddMessage"},
	},
}

// sequential are the packages that start no goroutine and guard nothing against another one, as
// TestSequential sees: the race detector has nothing to find in their tests. Where others
// use them from several goroutines, the tests of those run with the detector.
var sequential = []string{
	modulePath + "/codegen",
	modulePath + "/internal/agentconfig",
	modulePath + "/internal/calls",
	modulePath + "/internal/code",
	modulePath + "/internal/completion",
	modulePath + "/internal/completion/shell",
	modulePath + "/internal/container",
	modulePath + "/internal/debuginfo/find",
	modulePath + "/internal/decide",
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
	modulePath + "/internal/longdouble",
	modulePath + "/internal/output",
	modulePath + "/internal/overview",
	modulePath + "/internal/perfetto",
	modulePath + "/internal/plural",
	modulePath + "/internal/pprof",
	modulePath + "/internal/progs",
	modulePath + "/internal/prometheus",
	modulePath + "/internal/ptregs",
	modulePath + "/internal/qualifier",
	modulePath + "/internal/requery",
	modulePath + "/internal/samples",
	modulePath + "/internal/seccomp",
	modulePath + "/internal/session",
	modulePath + "/internal/suggest",
	modulePath + "/internal/summary",
	modulePath + "/internal/symbols",
	modulePath + "/internal/symname",
	modulePath + "/internal/threadctx",
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

// longest is a package whose tests boot guests. It begins first: otherwise a CPU would be idle while it ends, which
// takes 15 minutes with all kernels.
const longest = modulePath + "/internal/vm"

// unitRuns are the runs that all unit tests of the packages take, in the order in which they begin.
func unitRuns(packages []string) []unitRun {
	race := []string{"-race", "-skip"}
	var alone, others []string
	for _, p := range packages {
		switch {
		case withoutRace[p] != nil:
		case slices.Contains(sequential, p):
			alone = append(alone, p)
		case p == longest:
			others = slices.Insert(others, 0, p)
		default:
			others = append(others, p)
		}
	}
	var runs []unitRun
	if len(others) > 0 {
		runs = append(runs, unitRun{slices.Concat(race, []string{"^TestLive"}), others})
	}
	for _, p := range slices.Sorted(maps.Keys(withoutRace)) {
		if !slices.Contains(packages, p) {
			continue
		}
		names := strings.Join(slices.Sorted(maps.Keys(withoutRace[p])), "|")
		runs = append(runs,
			unitRun{slices.Concat(race, []string{"^(TestLive.*|" + names + ")$"}), []string{p}},
			unitRun{[]string{"-run", "^(" + names + ")$"}, []string{p}})
	}
	if len(alone) > 0 {
		runs = append(runs, unitRun{[]string{"-skip", "^TestLive"}, alone})
	}
	return runs
}
