// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFormatsDoc: the commands of docs/formats.md print what stands there. With -update it
// is what they print.
func TestFormatsDoc(t *testing.T) {
	file, err := filepath.Abs("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("../../testdata")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	const prompt = "\n    $ "
	blocks := strings.Split(string(doc), prompt)
	commands := 0
	for i, block := range blocks {
		command, rest, more := strings.Cut(block, "\n")
		out, ok := documented(t, command)
		if !ok {
			continue
		}
		commands++
		var printed strings.Builder
		for line := range strings.Lines(out) {
			printed.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
		}
		old := 0
		for line := range strings.Lines(rest) {
			if !strings.HasPrefix(line, "    ") {
				break
			}
			old += len(line)
		}
		if rest[:old] != printed.String() && !*update {
			t.Errorf("%s prints\n%s\nand docs/formats.md has\n%s", command, printed.String(), rest[:old])
		}
		if more {
			blocks[i] = command + "\n" + printed.String() + rest[old:]
		}
	}
	if commands != 5 {
		t.Errorf("%d commands", commands)
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(blocks, prompt)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// documented runs a command of the documentation; ok is false if it cannot be run anywhere.
func documented(t *testing.T, command string) (out string, ok bool) {
	args := strings.Fields(command)
	switch {
	case strings.HasPrefix(command, "ksnoop replay "):
		stdout, stderr, status := ran(args[1:]...)
		if status != 0 || stderr != "" {
			t.Errorf("%s: status %d, %s", command, status, stderr)
		}
		return stdout, true
	case strings.HasPrefix(command, "go tool pprof "):
		text, err := exec.Command("go", args[1:]...).Output()
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		return string(text), true
	}
	return "", false
}

// TestWeight: the option of one format is none of others.
func TestWeight(t *testing.T) {
	for args, want := range map[string]string{"--weight time": "--weight goes with --format folded", "--format pprof --weight time": "--weight goes with --format folded",
		"--format folded --weight bytes": "none of calls, time and errors", "--format jpeg": "perfetto, pprof, folded"} {
		if _, stderr, status := ran(append([]string{"replay", "../../testdata/calls.ks"}, strings.Fields(args)...)...); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}

// TestFormatsHostile: with the names of a hostile recording no format has a control byte, and
// each name stays where it belongs.
func TestFormatsHostile(t *testing.T) {
	for _, sessions := range []bool{false, true} {
		functions := map[string]int{}
		compareNames(t, 0, func(name string) string { // 0: the semicolon of the name has become a colon
			out := both("replay", "--format", "folded", hostileRecording(t, name, sessions))
			functions[name] = strings.Count(out, ";")
			return out
		})
		if functions[evil] != functions[harmless] || functions[evil] == 0 {
			t.Errorf("%v separators", functions)
		}
		for _, format := range []string{"perfetto", "pprof"} {
			stdout, stderr, status := ran("replay", "--format", format, hostileRecording(t, evil, sessions))
			if status != 0 || strings.Contains(stdout, "\x1b]") || strings.Contains(stdout, "\u202e") || len(stdout) < 200 {
				t.Errorf("%s, status %d: %s, %d bytes", format, status, stderr, len(stdout))
			}
		}
	}
}
