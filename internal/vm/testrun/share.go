// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os/exec"
	"regexp"
	"slices"
)

// A share says which of the guests with all features this is, from 0 on, and of how many. They share the tests, and the
// repeats of each test. Guests with one test of each feature have a share of the repeats only. The zero share is that of a
// guest that has nothing to share.
type share struct {
	mine, of int
	turn     int // decides which guest has which tests, and which repeats
}

// String is what livetest.ShareEnv is. The repeats change guests every s.of turns.
func (s share) String() string { return fmt.Sprintf("%d/%d", (s.mine+s.turn/s.of)%s.of, s.of) }

// others are the tests that another guest runs.
func (s share) others(tests []string) (names []string) {
	if s.of < 2 {
		return nil
	}
	for _, name := range tests {
		// livetest.Mine takes another sum of the name, so which repeats the guest has does not follow from this.
		sum := int(crc32.ChecksumIEEE([]byte(name)) >> 16)
		if (sum+s.turn)%s.of != s.mine && !slices.Contains(onEach[:], name) {
			names = append(names, name)
		}
	}
	return names
}

// A half is 1 or 2 where two guests of one kernel have half of its tests each, and 0 where one has all.
type half int

// others are the tests that the other guest of the kernel runs.
func (h half) others(tests []string) (names []string) {
	for _, name := range tests {
		if h != 0 && half(1+crc32.ChecksumIEEE([]byte(name))%2) != h {
			names = append(names, name)
		}
	}
	return names
}

// onEach are tests that are not shared.
var onEach = [...]string{
	"TestLiveKernels",     // every method and view
	"TestLiveMethods",     // each has the ways of attaching that are shared
	"TestLiveEngineCalls", // skips the newest kernel
	"TestLiveTour",        // skips all but 6.12
}

// currentTurn is drawn from the commit's name, so that a commit has the same tests each time it is tried, also in a clone without history.
func currentTurn(ctx context.Context) (int, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return 0, err
	}
	return int(crc32.ChecksumIEEE(bytes.TrimSpace(out)) >> 16), nil
}

var liveTestDecl = regexp.MustCompile(`(?m)^func (TestLive\w+)\(`)

// liveTestsIn are the live tests of a file, in its order.
func liveTestsIn(text []byte) (names []string) {
	for _, m := range liveTestDecl.FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	return names
}
