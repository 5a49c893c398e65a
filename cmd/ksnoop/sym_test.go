// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// symProgram compiles a program; its sources are in dir.
func symProgram(t *testing.T, flags ...string) (file, dir string) {
	t.Helper()
	for _, tool := range []string{"gcc", "addr2line"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	dir, err := filepath.Abs("../../testdata/program")
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("gcc", append([]string{"-O2", "-g", "one.c", "two.c", "three.c", "-o", file}, flags...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return file, dir
}

func sym(t *testing.T, input string, args ...string) string {
	t.Helper()
	c := newSymCommand()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetIn(strings.NewReader(input))
	c.SetArgs(args)
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// elfSymbols reads the symbol table of a file.
func elfSymbols(t *testing.T, file string) []elf.Symbol {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	return symbols
}

// TestSymIsAddr2line compares all addresses of some functions with GNU
// addr2line, in each of the formats.
func TestSymIsAddr2line(t *testing.T) {
	file, _ := symProgram(t)
	var input strings.Builder
	for _, s := range elfSymbols(t, file) {
		switch s.Name {
		case "one", "two", "three", "main":
			for a := s.Value; a < s.Value+s.Size; a++ {
				fmt.Fprintf(&input, "0x%x\n", a)
			}
		}
	}
	for _, options := range []string{"-fi", "-afi", "-pfi", "-apfis", "-sfi"} {
		cmd := exec.Command("addr2line", options, "-e", file)
		cmd.Stdin = strings.NewReader(input.String())
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		// addr2line prints discriminators, which tell parts of a line apart.
		var want strings.Builder
		for line := range strings.Lines(string(out)) {
			line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " (discriminator")
			want.WriteString(line + "\n")
		}
		if got := sym(t, input.String(), options, "-e", file); got != want.String() {
			t.Errorf("%s differs: %s", options, firstDifference(got, want.String()))
		}
	}
}

// TestSymOfStripped compares what is left of a stripped program.
func TestSymOfStripped(t *testing.T) {
	file, _ := symProgram(t, "-rdynamic", "-s")
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-fe", file}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			args = append(args, fmt.Sprintf("%#x", s.Value), fmt.Sprintf("%#x", s.Value+s.Size-1))
		}
	}
	want, err := exec.Command("addr2line", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := sym(t, "", args...); got != string(want) || !strings.Contains(got, "three\n??:?\n") {
		t.Errorf("%s differs: %s", args, firstDifference(got, string(want)))
	}
}

// TestSymInstalled: debug info that is installed for the build ID of a stripped program tells what that of the program did.
func TestSymInstalled(t *testing.T) {
	file, _ := symProgram(t, "-Wl,--build-id")
	id := regexp.MustCompile(`Build ID: (\w+)`).FindStringSubmatch(command(t, "readelf", "-n", file))
	if id == nil {
		t.Fatal("no build ID")
	}
	cache := t.TempDir()
	t.Setenv("DEBUGINFOD_CACHE_PATH", cache)
	installed := filepath.Join(cache, id[1], "debuginfo")
	if err := os.Mkdir(filepath.Dir(installed), 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"-fie", file}
	for _, s := range elfSymbols(t, file) {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
			args = append(args, fmt.Sprintf("%#x", s.Value), fmt.Sprintf("%#x", s.Value+s.Size/2))
		}
	}
	want := regexp.MustCompile(` \(discriminator \d+\)`).ReplaceAllString(command(t, "addr2line", args...), "")
	command(t, "objcopy", "--only-keep-debug", file, installed)
	command(t, "strip", file)
	other, _ := symProgram(t, "-Wl,--build-id=0x1234")
	for _, tt := range []struct {
		installed, text string
		there           bool
	}{
		{installed, " has no debug info; " + installed + " has it\n", true},
		{other, " has no debug info; " + installed + ": it is of another build\n", false},
		{os.DevNull, "", false}, // as for an ID that no server knows
	} {
		data, err := os.ReadFile(tt.installed)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(installed, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c := newSymCommand()
		var out, stderr bytes.Buffer
		c.SetOut(&out)
		c.SetErr(&stderr)
		c.SetArgs(args)
		if err := c.Execute(); err != nil {
			t.Fatal(err)
		}
		got := regexp.MustCompile(`(?m)^(\w+)\.\w+$`).ReplaceAllString(out.String(), "$1") // the symbol's names of what gcc has made of them
		if (got == want) != tt.there || !strings.HasSuffix(stderr.String(), tt.text) || (stderr.String() == "") != (tt.text == "") {
			t.Errorf("%s is installed: %s%s", tt.installed, &stderr, firstDifference(got, want))
		}
	}
}

// command returns what a command prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: got %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// TestSymArguments has few addresses, many at once and what is no address: all
// forms give the same answers.
func TestSymArguments(t *testing.T) {
	file, _ := symProgram(t)
	one := sym(t, "", "-s", "-e", file, "three+0x10")
	if !strings.HasPrefix(one, "three\nthree.c:") && !strings.Contains(one, "\nthree\nthree.c:") {
		t.Fatalf("three+0x10 is in %q", one)
	}
	if got := sym(t, strings.Repeat("three+0x10\n", 100), "-s", "-e", file); got != strings.Repeat(one, 100) {
		t.Errorf("a hundred times: %s", firstDifference(got, strings.Repeat(one, 100)))
	}
	if got := sym(t, "", "-s", "-e", file, "three+0x10/0x200"); got != one {
		t.Errorf("with a size: %q, want %q", got, one)
	}
	const none = "??\n??:?\n"
	for _, text := range []string{"0", "ffffffffffffffff"} {
		if got := sym(t, "", "-e", file, text); got != none {
			t.Errorf("%s: %q", text, got)
		}
	}
	for _, text := range []string{"no_such_function", "three+x"} {
		stdout, stderr, status := ran("sym", "-e", file, text)
		if want := fmt.Sprintf("ksnoop: %q is neither an address nor a symbol, with or without an offset\n", text); stdout != none || stderr != want || status != exitUsage {
			t.Errorf("%s: %q, status %d, %q", text, stdout, status, stderr)
		}
		if got := sym(t, text+"\n", "-e", file); got != none { // as addr2line does
			t.Errorf("%s from the standard input: %q", text, got)
		}
	}
	if got := sym(t, "", "-s", "-e", file, "--column", "-p", "main"); !regexp.MustCompile(`^main at one\.c:\d+:\d+\n$`).MatchString(got) {
		t.Errorf("main: %q", got)
	}
}

// TestSymStreams has an address answered while the input is still open.
func TestSymStreams(t *testing.T) {
	file, _ := symProgram(t)
	in, feed := io.Pipe()
	answers, out := io.Pipe()
	c := newSymCommand()
	c.SetIn(in)
	c.SetOut(out)
	c.SetArgs([]string{"-ps", "-e", file})
	done := make(chan error)
	go func() { done <- c.Execute() }()
	buffer := make([]byte, 1000)
	for range 3 {
		if _, err := io.WriteString(feed, "main\n"); err != nil {
			t.Fatal(err)
		}
		n, err := answers.Read(buffer)
		if err != nil || !strings.HasPrefix(string(buffer[:n]), "main at one.c:") {
			t.Fatalf("answer %q, %v", buffer[:n], err)
		}
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestSymFaults(t *testing.T) {
	for file, want := range map[string]string{
		"sym_test.go":   "it does not begin like an ELF file",
		"no/such/file":  "no such file",
		"/proc/version": "a file that the kernel makes",
		"/dev/null":     "no regular file",
	} {
		c := newSymCommand()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs([]string{"-e", file, "0"})
		c.SetOut(io.Discard)
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

// TestSymOfSplit takes the .dwo files of a program away: functions and lines are
// still told, and a note says what is missing.
func TestSymOfSplit(t *testing.T) {
	file, _ := symProgram(t, "-gsplit-dwarf")
	halves, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*.dwo"))
	if err != nil || len(halves) != 3 {
		t.Skipf("%v, %v", halves, err)
	}
	for _, missing := range []bool{false, true} {
		c := newSymCommand()
		var out, stderr bytes.Buffer
		c.SetOut(&out)
		c.SetErr(&stderr)
		c.SetArgs([]string{"-pse", file, "three", "one"})
		if err := c.Execute(); err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^three at three\.c:\d+\n(.*\n)*one at one\.c:\d+\n$`).Match(out.Bytes()) {
			t.Errorf("missing %v: %s", missing, &out)
		}
		want := ""
		if missing {
			want = "ksnoop: inlined functions are missing: " + halves[1] + ": no such file or directory (and 1 more)\n"
		}
		if hint := stderr.String(); hint != want {
			t.Errorf("%s, want %s", hint, want)
		}
		for _, half := range halves {
			_ = os.Remove(half)
		}
	}
}

// TestSymLongLine: what comes before a line without an end is answered. 511 bytes
// are the longest symbol, KSYM_NAME_LEN of linux/kallsyms.h less a NUL.
func TestSymLongLine(t *testing.T) {
	file, _ := symProgram(t)
	for _, c := range []struct {
		input io.Reader
		lines int
		want  string
	}{
		{strings.NewReader("main\n" + strings.Repeat("x", 511) + "\nmain"), 3, ""},
		{io.MultiReader(strings.NewReader("main\n"), zeros{}), 1, "line 2 is longer than 65536 bytes"},
	} {
		var out bytes.Buffer
		cmd := newSymCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{"-p", "-e", file})
		cmd.SetIn(c.input)
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		err := cmd.Execute()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if n := strings.Count(out.String(), "\n"); n != c.lines || !strings.HasPrefix(out.String(), "main at ") {
			t.Errorf("%d answers, want %d:\n%s", n, c.lines, out.String())
		}
	}
}

// zeros never end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
