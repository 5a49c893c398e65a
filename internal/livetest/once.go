// SPDX-License-Identifier: Apache-2.0

package livetest

// Once are live tests of what ksnoop does with records and with its user: with formats, recordings, files, signals, other
// programs. Most of what they look at is the same whichever kernel sent the records, so `make test` runs each, as a whole, on
// one of the kernels that have all tests, in turn. `make test-all` runs them on every kernel.
var Once = [...]string{
	"TestLiveAgent",
	"TestLiveAskAgain",
	"TestLiveAskSessions",
	"TestLiveColour",
	"TestLiveCommandGoesOn",
	"TestLiveCompletion",
	"TestLiveContainers",
	"TestLiveExpect",
	"TestLiveFlight",
	"TestLiveFlightEarly",
	"TestLiveFlightSessions",
	"TestLiveFlightSignal",
	"TestLiveFormats",
	"TestLiveGeneratedCode",
	"TestLiveHeartbeat",
	"TestLiveJSON",
	"TestLiveJSONInterrupted",
	"TestLiveMerge",
	"TestLiveMetrics",
	"TestLiveOTLP",
	"TestLivePathReplay",
	"TestLivePeerStructs",
	"TestLivePipe",
	"TestLiveRecordKilled",
	"TestLiveRecordOnly",
	"TestLiveRedact",
	"TestLiveRedraw",
	"TestLiveReplay",
	"TestLiveReplayFollow",
	"TestLiveRotate",
	"TestLiveSessionReplay",
	"TestLiveStatus",
	"TestLiveSummary",
	"TestLiveSuspended",
	"TestLiveTargetReplay",
	"TestLiveWhyRecord",
}
