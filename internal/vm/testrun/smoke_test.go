// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A renamed test must not fall out of the smoke run in silence.
func TestSmokeTestsExist(t *testing.T) {
	var have []string
	name := regexp.MustCompile(`(?m)^func (TestLive\w+)\(`)
	root := os.DirFS("../../..")
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_live_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, file)
		for _, m := range name.FindAllSubmatch(text, -1) {
			have = append(have, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(smokePattern())
	for _, test := range smoke {
		if !slices.Contains(have, test) || !pattern.MatchString(test) {
			t.Errorf("there is no live test %s", test)
		}
	}
	if pattern.MatchString("TestLiveStack" + "Parameters") {
		t.Error("the pattern matches the beginning of a name")
	}
}
