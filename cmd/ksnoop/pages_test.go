// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/pages"
)

// documented reads the project's pages.
func documented(t *testing.T) []*pages.Page {
	t.Helper()
	all, err := pages.Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPages: the commands of the documentation that run anywhere print what stands there. With -update it is
// what they print. Those that need a guest are run by internal/pages.
func TestPages(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "ksnoop")); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), asProgram+"=1", "PATH="+bin+":"+os.Getenv("PATH"))
	commands := 0
	for _, p := range documented(t) {
		dir := t.TempDir()
		if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("../../testdata")); err != nil {
			t.Fatal(err)
		}
		var results []pages.Result
		err := p.Run(false, pages.In(t.Context(), dir, env, livetest.Patience(pages.Patience)), func(r pages.Result) {
			commands++
			results = append(results, r)
			if diff := r.Differs(); diff != "" && !*update {
				t.Errorf("%s:%d: %s\n%s", p.Name, r.Block.Line, r.Command.Text, diff)
			}
		})
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if *update {
			if err := os.WriteFile(filepath.Join("../..", p.Name), []byte(p.Updated(results)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if commands < 10 {
		t.Errorf("%d commands", commands)
	}
}

// TestPagesUnderstood: so are the options and SPECs of all commands of the documentation, wherever they run.
func TestPagesUnderstood(t *testing.T) {
	for _, p := range documented(t) {
		for _, b := range p.Blocks {
			for _, c := range b.Commands {
				line := strings.TrimPrefix(strings.TrimPrefix(c.Text, "sudo "), "./")
				if strings.Contains(line, "<TAB>") {
					continue // unfinished: TestShells types such lines
				}
				if strings.HasPrefix(line, "ksnoop ") && !strings.ContainsAny(line, "[|;…") {
					t.Run(p.Name, func(t *testing.T) { understood(t, line) })
				}
			}
		}
	}
}
