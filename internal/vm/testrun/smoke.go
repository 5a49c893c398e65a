// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// smoke is one live test of each feature: what runs on a kernel where not all does.
// Of a test that takes each way of attaching, one way: see livetest.Smoke.
var smoke = [...]string{
	"TestLiveKernels",          // every method and view
	"TestLiveMethods",          // what the kernel has
	"TestLiveSearchSymbols",    // what names are looked up by
	"TestLiveStress",           // many sessions at once
	"TestLiveFacts",            // doctor
	"TestLiveProbe",            // what the kernel can do
	"TestLiveFilterIDs",        // filters of the engine
	"TestLiveMatch",            // selectors
	"TestLiveReturn",           // predicates on results, typed
	"TestLiveMember",           // values behind pointers
	"TestLiveStrings",          // strings of kernel and user space
	"TestLiveStack",            // kernel stacks
	"TestLiveUserStack",        // user stacks and their symbols
	"TestLiveSessionUserStack", // the same in sessions
	"TestLiveGlob",             // many functions
	"TestLiveModule",           // functions and types of modules
	"TestLiveSyscall",          // system calls
	"TestLiveTracepoint",       // tracepoints
	"TestLiveRawTracepoint",    // raw tracepoints
	"TestLiveInstruction",      // probes inside functions
	"TestLiveInject",           // probes in sessions
	"TestLiveUserReturn",       // functions of the process
	"TestLivePrograms",         // functions of BPF programs
	"TestLiveAggregations",     // what the kernel adds up
	"TestLiveOffCPU",           // time asleep in sessions
	"TestLiveSessionValues",    // sessions with values
	"TestLiveLonger",           // sessions by duration
	"TestLiveBranches",         // branch records
	"TestLivePath",             // ways through functions
	"TestLivePointer",          // where arm64 must not be probed
	"TestLiveTagged",           // what is no address of the kernel on arm64
	"TestLiveReplay",           // recordings
	"TestLiveFilters",          // filters by process
	"TestLiveStashNested",      // what is kept from entry to return
	"TestLiveTruncated",        // accounting of losses
	"TestLiveVerifier",         // any expression loads
}

// smokePattern matches the smoke tests, and their subtests.
func smokePattern() string { return "^(" + strings.Join(smoke[:], "|") + ")$" }
