// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/pages"
)

// tour is what every `make test` runs: the first things that a newcomer types.
var tour = []string{"README.md", "docs/tour.md"}

// TestLiveTour: the commands of the tour print what stands below them.
func TestLiveTour(t *testing.T) {
	for _, p := range documented(t) {
		if slices.Contains(tour, p.Name) {
			t.Run(p.Name, func(t *testing.T) { checkPage(t, p) })
		}
	}
}

// TestLivePages: so do those of all other pages, and what lists say to trace can be traced.
func TestLivePages(t *testing.T) {
	if os.Getenv("KSNOOP_TOOLS") == "" {
		t.Skip("KSNOOP_TOOLS is not set: make test-all runs the commands of all pages, which takes minutes")
	}
	for _, p := range documented(t) {
		t.Run(p.Name, func(t *testing.T) {
			if !slices.Contains(tour, p.Name) {
				checkPage(t, p)
			}
			checkLists(t, p)
		})
	}
}

// documented reads the pages, if they are about this kernel.
func documented(t *testing.T) []*pages.Page {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	if release := unix.ByteSliceToString(u.Release[:]); !strings.HasPrefix(release, pages.Kernel+".") {
		t.Skipf("the pages are about %s, not %s", pages.Kernel, release)
	}
	all, err := pages.Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d pages are in the guest", len(all))
	}
	return all
}

func checkPage(t *testing.T, p *pages.Page) {
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(testdata, filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	err = p.Run(true, pages.In(t.Context(), dir, os.Environ(), livetest.Patience(pages.Patience)), func(r pages.Result) {
		if diff := r.Differs(); diff != "" {
			t.Errorf("%s:%d: %s\n%s\n`make docs` writes what it prints", p.Name, r.Block.Line, r.Command.Text, diff)
		}
	})
	if err != nil {
		t.Errorf("%s: %v", p.Name, err)
	}
}

// checkLists: what a list says to trace can be traced on this kernel.
func checkLists(t *testing.T, p *pages.Page) {
	for _, b := range p.Blocks {
		if !b.List || b.NotRun != "" {
			continue
		}
		for _, c := range b.Commands {
			command := c.DryRun()
			if command == "" {
				continue
			}
			status := ""
			printed, err := pages.In(t.Context(), t.TempDir(), os.Environ(), livetest.Patience(pages.Patience))(command + `; echo "status $?"`)
			if i := strings.LastIndex(printed, "status "); i >= 0 {
				status = strings.TrimSpace(printed[i:])
			}
			if err != nil || status != "status 0" {
				t.Errorf("%s:%d: %s: %v\n%s", p.Name, b.Line, command, err, printed)
			}
		}
	}
}
