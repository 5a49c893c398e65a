// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrintedDocs: the commands of these documents print what stands there. With -update it is
// what they print.
func TestPrintedDocs(t *testing.T) {
	for name, commands := range map[string]int{"formats.md": 5, "summaries.md": 5} {
		t.Run(name, func(t *testing.T) { checkPrinted(t, name, commands) })
	}
}

func checkPrinted(t *testing.T, name string, want int) {
	t.Helper()
	file, err := filepath.Abs("../../docs/" + name)
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
		text := strings.TrimRight(printed.String(), "\n")
		if text != "" { // without the empty lines at its end
			text += "\n"
		}
		old := 0
		for line := range strings.Lines(rest) {
			if !strings.HasPrefix(line, "    ") {
				break
			}
			old += len(line)
		}
		if rest[:old] != text && !*update {
			t.Errorf("%s prints\n%s\nand docs/%s has\n%s", command, text, name, rest[:old])
		}
		if more {
			blocks[i] = command + "\n" + text + rest[old:]
		}
	}
	if commands != want {
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
	args := strings.Fields(strings.ReplaceAll(command, "'", ""))
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
		"--format folded --weight bytes": "none of calls, time, errors and off-cpu", "--format folded --weight off-cpu": "--weight off-cpu is about sessions", "--format jpeg": "perfetto, pprof, folded"} {
		if _, stderr, status := ran(append([]string{"replay", "../../testdata/calls.ks"}, strings.Fields(args)...)...); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
	_, stderr, status := ran("replay", "../../testdata/sessions.ks", "--format", "folded", "--weight", "off-cpu")
	if want := "no off-CPU times were recorded: they are with --summary or --weight off-cpu, and --print, beside --record"; status != exitUsage || !strings.Contains(stderr, want) {
		t.Errorf("sessions without: status %d, %s", status, stderr)
	}
}

// TestBinaryBesideCommand: what a command prints would be in the middle of it.
func TestBinaryBesideCommand(t *testing.T) {
	for _, format := range []string{"perfetto", "pprof"} {
		_, stderr, status := ran("trace", "--format", format, "vfs_read", "--", "true")
		if want := "--format " + format + " does not go with a command"; status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("status %d, %s", status, stderr)
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
