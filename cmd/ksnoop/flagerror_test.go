// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagErrors: nobody needs to know Go to understand what is wrong with an option.
func TestFlagErrors(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"--in-flight 1e6 vfs_read", `--in-flight "1e6": write a whole number in digits, as 1000`},
		{"--in-flight 99999999999999999999 vfs_read", `--in-flight "99999999999999999999": that number is too large`},
		{"-p abc vfs_read", `-p "abc": write a number, as 1234, or several with commas between them`},
		{"-p -1 vfs_read", `-p "-1": write a number, as 1234, or several with commas between them`},
		{"-t 99999999999999999999 vfs_read", `-t "99999999999999999999": that number is too large`},
		{"-e vfs_read --sessions 1e3", `--sessions "1e3": write a whole number in digits, as 1000`},
		{"-e vfs_read -C bpf.sessions-size=1e3", `-C "bpf.sessions-size=1e3": `},
		{"--for 5 vfs_read", `--for "5": write a time with its unit, such as 10ms, 1.5s or 5m`},
		{"--for 99999999h vfs_read", `--for "99999999h": that time is too long`},
		{"--for -5s vfs_read", "--for -5s: it cannot be negative\n"},
		{"--latency -1ms vfs_read", "--latency -1ms: it cannot be negative\n"},
		{"-V trace", "there is no option -V; for the version write ksnoop --version\n"},
		{"replay --version", "there is no option --version; for the version write ksnoop --version\n"},
		{"--preset 5", `--preset "5": there are bpf, perf, `},
		{"--ustack=dwarf,5 vfs_read", `--ustack "dwarf,5": a copy of a stack has 512 to 60K bytes, a multiple of 8`},
		{"--attach= vfs_read", "--attach is given an empty word"},
		{"--explain --dry-run vfs_read", "--explain and --dry-run exclude each other"},
		{"help trace replay", `help is about one command or page, and "replay" is another word`},
		{"help formats x", `help is about one command or page, and "x" is another word`},
		{"replay vfs_read(count) " + recordedCalls, "there is no file vfs_read(count); a FILE stands before SPECs"},
		{"--hung 5 -e vfs_read", `--hung "5": write a time with its unit`},
		{"--follow=maybe vfs_read", `--follow "maybe": write true or false, or leave the value out`},
		{"-S=maybe -e vfs_read", `-S "maybe": "maybe" is neither y nor n`},
		{"-e vfs_read --lrb", "there is no option --lrb; did you mean --lbr?"},
		{"-e vfs_read --no-stacks", "there is no option --no-stacks; did you mean --no-stack?"},
		{"-e vfs_read --xyzzyxyzzy", "there is no option --xyzzyxyzzy\n"},
		{"-e vfs_read --since +2s", "there is no option --since; it is an option of ksnoop replay\n"},
		{"replay --redact x FILE", "there is no option --redact; it is an option of ksnoop trace\n"},
		{"replay -s none FILE", "there is no option -s; it is an option of ksnoop trace\n"},
		{"replay -q FILE", "there is no option -q\n"},
		{"info -t 1 x", "there is no option -t; it is an option of ksnoop trace\n"},
		{"vfs_read ls -l", "there is no option -l; if ls is the command to run, it stands behind --\n"},
		{"trace vfs_read(count) /bin/cat --since +2s", "there is no option --since; if /bin/cat is the command to run, it stands behind --; it is an option of ksnoop replay\n"},
		{"replay ls -q", "there is no option -q\n"},
		{"why mount -t tmpfs", "the command stands behind --: ksnoop why -- mount -t tmpfs\n"},
		{"why cat -n /nope", "the command stands behind --: ksnoop why -- cat -n /nope\n"},
		{"why --once --syscall sleep sleep --foo 1", "the command stands behind --: ksnoop why -- sleep --foo 1\n"},
		{"why sort -s --once --format x", "the command stands behind --: ksnoop why -- sort -s --once --format x\n"},
		{"why mount /dev/x", "the command stands behind --: ksnoop why -- mount /dev/x\n"},
		{"why vfs_read -- cat", `why takes no SPEC: "vfs_read"; the command stands behind --` + "\n"},
		{"why -p 1 cat -n", "there is no option -n; it is an option of ksnoop trace\n"},
		{"why -x ENOENT -- true", "there is no option -x; why selects errors by --errno\n"},
		{"why --errno ENOEN -- true", "--errno ENOEN: it is no error (did you mean ENOENT?): write EINVAL, or a number from 1 to 4095\n"},
		{"-e vfs_read -x ENOEN", `-x ENOEN: "ENOEN" is no error (did you mean ENOENT?): write EINVAL, a number from 1 to 4095, or NULL` + "\n"},
		{"-e vfs_read -X any", "-X any: -X takes single errors; -S also shows sessions that did not fail\n"},
		{"-x ENOENT vfs_read", "-x goes with -e: which functions open a session; of calls write a predicate, such as f(return == -ENOENT)\n"},
		{"-- ls -l", "no SPEC given; to find why a command fails: ksnoop why -- ls -l; to trace its system calls: ksnoop 'syscall:*' -- ls -l\n"},
		{"--record / vfs_read", "--record /: it is a directory; --rotate SIZE makes recordings in one\n"},
		{"replay vfs_read", "there is no file vfs_read; if it is a SPEC, write the recording first: ksnoop replay FILE vfs_read\n"},
		{"replay " + recordedCalls + " -- true", `replay runs no command: "true"` + "\n"},
		{"why -t tmpfs", "there is no option -t; it is an option of ksnoop trace\n"},
		{"why --xyzzyxyzzy -h", "there is no option --xyzzyxyzzy\n"},
		{"print --offset 1k int", `--offset "1k": write a whole number in digits, as 1000`},
	} {
		stdout, stderr, status := ran(strings.Fields(c.args)...)
		if status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "ksnoop: "+c.want) || strings.Contains(stderr, "strconv") {
			t.Errorf("%s: status %d, %q, want %q", c.args, status, stderr, c.want)
		}
	}
}

// TestFlagErrorsNotASCII: options of which pflag knows a byte only are refused by each command, as they were typed.
func TestFlagErrorsNotASCII(t *testing.T) {
	names := []string{""}
	for _, c := range newRootCommand(new(int)).Commands() {
		if !c.DisableFlagParsing {
			names = append(names, c.Name())
		}
	}
	for _, name := range names {
		for option, shown := range map[string]string{
			"-–help": "-–help; did you mean --help?", "-—help=x": "-—help=x; did you mean --help?", "-−help": "-−help; did you mean --help?",
			"-é": "-é", "-–": "-–", "-–nonsense": "-–nonsense", "-\xff": `-\xff`, "-\u202e\n": `-\xe2\x80\xae\n`,
		} {
			stdout, stderr, status := ran(slices.DeleteFunc([]string{name, option, "vfs_read"}, func(s string) bool { return s == "" })...)
			if want := "ksnoop: there is no option " + shown + "\n"; status != exitUsage || stdout != "" || stderr != want {
				t.Errorf("%s %q: status %d, %q %q, want %q", name, option, status, stdout, stderr, want)
			}
		}
	}
	if _, stderr, _ := ran("trace", "-v–dry-run", "vfs_read"); stderr != "ksnoop: there is no option -–dry-run; did you mean --dry-run?\n" {
		t.Error(stderr)
	}
}

// TestValueApart: words behind options that may go without a value, and which are one of theirs or nearly.
func TestValueApart(t *testing.T) {
	types := typesFile(t)
	for args, want := range map[string]string{
		"--ustack dwarf vfs_read":               "did you mean --ustack=dwarf? The value of --ustack stands behind an equals sign:\n",
		"--ustack dwarf,16K vfs_read":           "did you mean --ustack=dwarf,16K? ",
		"--ustack drawf vfs_read":               "did you mean --ustack=dwarf? ",
		"-B any vfs_read":                       "did you mean -B=any? The value of -B stands behind an equals sign:\n",
		"--kubelet http://[::1]:10255 vfs_read": "did you mean --kubelet=http://[::1]:10255? ",
		"-vB any vfs_read":                      "did you mean -vB=any? The value of -vB stands behind an equals sign:\n",
		"--lbr any_cal vfs_read":                "did you mean --lbr=any_call? ",
		"-s lines vfs_read":                     "did you mean -s line? What is no LEVEL is taken for a SPEC:\n",
		"-s inline vfs_read":                    "did you mean -s inlines? ",
		"--symbolize lines vfs_read":            "did you mean --symbolize line? ",
		"-s none vfs_raed":                      "a fault in the SPEC\n",
		"-s n vfs_raed":                         "a fault in the SPEC\n",
		"-s vfs_raed":                           "a fault in the SPEC\n",
		"-s vfs_read lines":                     "a fault in the SPEC\n",
		"vfs_raed -- cat -B any":                "a fault in the SPEC\n",
	} {
		stdout, stderr, status := ran(append([]string{"--explain", "--btf", types}, strings.Fields(args)...)...)
		if status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "ksnoop: "+want) {
			t.Errorf("%s: status %d, %q %q, want %q", args, status, stdout, stderr, want)
		}
	}
}

// TestAsTyped: a message names an option in the form in which it was typed.
func TestAsTyped(t *testing.T) {
	for args, want := range map[string]string{
		"--count x vfs_read":                    `--count "x": `,
		"-c x vfs_read":                         `-c "x": `,
		"--longer 5ms vfs_read":                 "--longer goes with -e: ",
		"--longer=5ms vfs_read":                 "--longer goes with -e: ",
		"-L 5ms vfs_read":                       "-L goes with -e: ",
		"-TL5ms vfs_read":                       "-T goes with -e: ",
		"replay --pid x " + recordedCalls:       `--pid "x": `,
		"--entry vfs_read --compact":            "--compact does not go with sessions (--entry or a preset)",
		"-e vfs_read --compact":                 "--compact does not go with sessions (-e or a preset)",
		"-e vfs_read --entry vfs_* --compact":   "--compact does not go with sessions (-e or a preset)",
		"-c fs -p --entry vfs_read --compact":   `-p "--entry": `,
		"vfs_read --longer 5ms -- cat -L --all": "--longer goes with -e: ",
	} {
		if _, stderr, status := ran(strings.Fields(args)...); status != exitUsage || !strings.HasPrefix(stderr, "ksnoop: "+want) {
			t.Errorf("%s: status %d, %q, want %q", args, status, stderr, want)
		}
	}
}

// TestFlagForms: the types of which pflag would speak in Go's words are known. Those
// of ours say what is wrong themselves.
func TestFlagForms(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if err := f.Value.Set("1e\x00"); err == nil || !strings.Contains(err.Error(), "strconv") && !strings.HasPrefix(err.Error(), "time: ") {
				return
			}
			if flagForms[f.Value.Type()] == "" {
				t.Errorf("%s --%s is of type %s, which flagForms does not know", c.Name(), f.Name, f.Value.Type())
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	status := 0
	visit(newRootCommand(&status))
}
