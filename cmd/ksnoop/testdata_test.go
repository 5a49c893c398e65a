// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSharedTestdata: the README of testdata has every file there, and for each
// data file the packages whose tests read it, which are several.
func TestSharedTestdata(t *testing.T) {
	readme, err := os.ReadFile("../../testdata/README.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	names := func(cell string) (names []string) {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			names = append(names, m[1])
		}
		return names
	}
	described := []string{"README.md"}
	for line := range strings.Lines(string(readme)) {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| `") || len(cells) != 5 {
			continue
		}
		files, packages := names(cells[1]), names(cells[2])
		described = append(described, files...)
		if script := strings.HasSuffix(files[0], ".sh"); script != (len(packages) == 0) || len(packages) == 1 {
			t.Errorf("%s: used by %q; what one package uses is in its own testdata", files[0], packages)
		}
		// The part that the names of a row have in common is what tests name them by.
		stem := "testdata/" + regexp.MustCompile(`^\w+-?`).FindString(files[0])
		for _, pkg := range packages {
			if !testsMention(t, pkg, stem) {
				t.Errorf("no test of %s has %s", pkg, stem)
			}
		}
	}
	var there []string
	err = filepath.WalkDir("../../testdata", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			there = append(there, strings.TrimPrefix(file, "../../testdata/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(described)
	slices.Sort(there)
	if !slices.Equal(there, described) {
		t.Errorf("testdata has\n%q\nits README\n%q", there, described)
	}
}

// testsMention reports whether some test of a package has a text in it.
func testsMention(t *testing.T, pkg, text string) bool {
	t.Helper()
	files, err := filepath.Glob("../../" + pkg + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(source), "../"+text)
	})
}
