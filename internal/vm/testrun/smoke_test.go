// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"regexp"
	"testing"
)

// A renamed test must not fall out of a list in silence, and none must come in with its name.
func TestSmokeTestsExist(t *testing.T) {
	have := liveTestNames(t)
	pattern := regexp.MustCompile(smokePattern())
	for _, test := range smoke {
		if have[test] != 1 || !pattern.MatchString(test) {
			t.Errorf("there are %d live tests %s", have[test], test)
		}
	}
	for _, test := range onEach {
		if have[test] != 1 {
			t.Errorf("there are %d live tests %s", have[test], test)
		}
	}
	if pattern.MatchString("TestLiveStack" + "Parameters") {
		t.Error("the pattern matches the beginning of a name")
	}
}

// liveTestNames are the live tests, and how many there are of each name.
func liveTestNames(t *testing.T) map[string]int {
	t.Helper()
	have := map[string]int{}
	root := os.DirFS("../../..")
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !isLive(file) {
			return err
		}
		text, err := fs.ReadFile(root, file)
		for _, name := range liveTestsIn(text) {
			have[name]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return have
}
