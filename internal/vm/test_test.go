// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTestArgs(t *testing.T) {
	in := []string{"-test.testlogfile=/tmp/log", "-test.paniconexit0", "--test.gocoverdir=/x", "-test.run=a=b", "-test.outputdir=/y", "-update"}
	want := []string{"-test.paniconexit0", "-test.run=a=b", "-update"}
	if got := TestArgs(in); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if in[0] != "-test.testlogfile=/tmp/log" {
		t.Error("the caller's slice was changed")
	}
}

func TestTestEnv(t *testing.T) {
	in := []string{"HOME=/x", "CI=1", "CIX=1", "KSNOOP_SOAK=1", "GODEBUG=a=1", "GOCACHE=/x", "PATH=/x", "GOMAXPROCS=3"}
	want := []string{"CI=1", "KSNOOP_SOAK=1", "GODEBUG=a=1", "GOMAXPROCS=3"}
	if got := TestEnv(in); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNewTest(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"testdata", "a/b/testdata", "a/c"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(root, "b.test")
	for _, file := range []string{filepath.Join(root, "go.mod"), program} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		pkg, dir string
		guest    []string
	}{
		{"a/b", "/src/a/b", []string{"/src/a/b/b.test", "/src/a/b/testdata", "/src/testdata"}},
		{"a/c", "/src/a/c", []string{"/src/a/c/b.test", "/src/testdata"}},
		{"", "/src", []string{"/src/b.test", "/src/testdata"}},
	}
	for _, tt := range tests {
		got, err := NewTest(program, filepath.Join(root, tt.pkg))
		if err != nil {
			t.Fatal(err)
		}
		var guest []string
		for _, f := range got.Files {
			guest = append(guest, f.Guest)
		}
		if got.Dir != tt.dir || got.Program != tt.guest[0] || !slices.Equal(guest, tt.guest) {
			t.Errorf("%q: %s in %s with %q, want %q in %s", tt.pkg, got.Program, got.Dir, guest, tt.guest, tt.dir)
		}
	}
	if _, err := NewTest(program, filepath.Dir(root)); err == nil || !strings.Contains(err.Error(), "go.mod") {
		t.Errorf("outside of a module: %v", err)
	}
}

func TestQemuArgs(t *testing.T) {
	args := func(g Guest) string { return strings.Join(g.qemuArgs(), " ") }
	tests := []struct {
		name      string
		guest     Guest
		has, lack []string
	}{
		{"default", Guest{}, []string{"-m 2048", "-smp 2", "panic=-1"}, []string{"icount", "nokaslr"}},
		{"sized", Guest{Memory: 512, CPUs: 4, Append: []string{"a=b", "c"}}, []string{"-m 512", "-smp 4", " a=b c"}, nil},
		{"instruction clock", Guest{CPUs: 4, ICount: true}, []string{"-icount shift=0,sleep=off", "-smp 1 ", "nokaslr"}, []string{"thread=multi"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := args(tt.guest)
			for _, s := range tt.has {
				if !strings.Contains(got, s) {
					t.Errorf("arguments lack %q: %s", s, got)
				}
			}
			for _, s := range tt.lack {
				if strings.Contains(got, s) {
					t.Errorf("arguments have %q: %s", s, got)
				}
			}
		})
	}
}

func TestConsoleKeepsTheEnd(t *testing.T) {
	var c console
	line := strings.Repeat("x", 999) + "\n"
	for range 1000 {
		if _, err := c.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Write([]byte("the end\r\n")); err != nil {
		t.Fatal(err)
	}
	got := c.String()
	if !strings.HasSuffix(got, "\nthe end\n") || len(got) < consoleTail || len(got) > 3*consoleTail {
		t.Errorf("kept %d bytes, ending in %q", len(got), got[max(0, len(got)-20):])
	}
}

func TestStatus(t *testing.T) {
	tests := []struct {
		s    Status
		code int
		text string
	}{
		{Status{}, 0, "exit status 0"},
		{Status{Code: 42}, 42, "exit status 42"},
		{Status{Signal: 9}, 137, "signal: killed"},
	}
	for _, tt := range tests {
		if tt.s.ExitCode() != tt.code || tt.s.String() != tt.text {
			t.Errorf("%#v: %d, %q", tt.s, tt.s.ExitCode(), tt.s)
		}
	}
}
