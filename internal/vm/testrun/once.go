// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// once are live tests of what ksnoop does with records and with its user: with formats, recordings, files, signals, other
// programs. Whichever kernel has sent the records makes no difference to most of what they look at, so that `make test` runs
// each on one of the kernels that have all tests, in turn. `make test-all` runs them on every kernel.
var once = [...]string{
	"TestLiveAgent",
	"TestLiveAskAgain",
	"TestLiveAskSessions",
	"TestLiveChange",
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
	"TestLiveHeartbeat",
	"TestLiveJSON",
	"TestLiveJSONInterrupted",
	"TestLiveJoin",
	"TestLiveListed",
	"TestLiveMaxCPU",
	"TestLiveMerge",
	"TestLiveMetrics",
	"TestLiveOTLP",
	"TestLivePIDNamespace",
	"TestLivePIDNamespaceCommand",
	"TestLivePIDNamespaceWhy",
	"TestLivePathReplay",
	"TestLivePeerStructs",
	"TestLivePeers",
	"TestLivePipe",
	"TestLivePresetMisses",
	"TestLivePresets",
	"TestLiveReaderGone",
	"TestLiveRecordKilled",
	"TestLiveRecordOnly",
	"TestLiveRedact",
	"TestLiveRedraw",
	"TestLiveReplay",
	"TestLiveReplayFollow",
	"TestLiveRotate",
	"TestLiveSessionReplay",
	"TestLiveStatus",
	"TestLiveSuspended",
	"TestLiveTargetReplay",
	"TestLiveWhyProcess",
	"TestLiveWhyRecord",
	"TestLiveWhySmall",
}

// A share says which of the guests with all tests this is, from 0 on, and of how many. The zero share is that of a guest that
// has nothing to share.
type share struct{ mine, of int }

// String is what livetest.ShareEnv is.
func (s share) String() string { return fmt.Sprintf("%d/%d", s.mine, s.of) }

// others are the tests that another guest runs.
func (s share) others() (names []string) {
	if s.of < 2 {
		return nil
	}
	for i, name := range slices.Sorted(slices.Values(once[:])) {
		if i%s.of != s.mine {
			names = append(names, name)
		}
	}
	return names
}
