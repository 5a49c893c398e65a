// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// shells are the shells that are here, with their dialects. bash always is.
func shells(t testing.TB) map[string]Dialect {
	t.Helper()
	found := map[string]Dialect{"bash": Bash}
	for name, d := range map[string]Dialect{"zsh": Zsh, "fish": Fish} {
		if _, err := exec.LookPath(name); err == nil {
			found[name] = d
		} else {
			t.Logf("%s is not here: make setup installs it", name)
		}
	}
	return found
}

// given returns the words that a program is given for a line of a shell.
func given(t testing.TB, name, line string) []string {
	t.Helper()
	args := map[string][]string{"bash": {"--norc", "-c"}, "zsh": {"-f", "-c"}, "fish": {"--no-config", "-c"}}[name]
	out, err := exec.Command(name, append(args, `/usr/bin/printf '%s\0' `+line)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", name, line, err, out)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// closes are what closes each quote.
var closes = map[quote]string{bare: "", single: "'", double: `"`, ansiC: "'"}

// TestExtended: of a line that was completed, the shell itself makes the text that was meant.
func TestExtended(t *testing.T) {
	for name, d := range shells(t) {
		for _, c := range []struct{ raw, text, more string }{
			{`'vfs_read(fi`, "vfs_read(fi", "le"},
			{`'vfs_read(file`, "vfs_read(file", "->f_flags"},
			{`'vfs_read($comm == "`, `vfs_read($comm == "`, `it's", count == '\n')`},
			{`"vfs_read(fi`, "vfs_read(fi", "le->f_flags"},
			{`"vfs_read(\$pi`, "vfs_read($pi", "d == 3"},
			{`"vfs_read(\$comm `, "vfs_read($comm ", `== "a\b$c`},
			{`vfs_re`, "vfs_re", "ad"},
			{`vfs_read\(fi`, "vfs_read(fi", "le->f_path.dentry && $pid != 3, x['a']"},
			{`vfs_read'(fi`, "vfs_read(fi", "le)"},
			{`vfs_'read('"count >`, "vfs_read(count >", " 3"},
			{`tp:sched:sched_sw`, "tp:sched:sched_sw", "itch("},
			{`vfs_\*`, "vfs_*", "(*file, ~x, a|b;c#d^e{f}g?h!)"},
			{`--entry=vfs`, "--entry=vfs", "_read("},
			{`''`, "", "vfs_read("},
			{``, "", "syscall:"},
		} {
			w := d.Word(c.raw)
			if w.Text != c.text {
				t.Errorf("%s: %s is %q, want %q", name, c.raw, w.Text, c.text)
				continue
			}
			typed := w.extend(d, c.more) + closes[w.quote]
			if got := given(t, name, typed); len(got) != 1 || got[0] != c.text+c.more {
				t.Errorf("%s: %s and %q is %s, which is %q", name, c.raw, c.more, typed, got)
			}
		}
	}
}

// TestActedOn: what the shell would have acted on is quoted where a word is completed.
func TestActedOn(t *testing.T) {
	for _, c := range []struct {
		d         Dialect
		raw, more string
		want      string
	}{
		{Bash, `"vfs_read($pi`, "d", `"vfs_read(\$pid`},
		{Bash, `vfs_read\($`, "pid", `vfs_read\(\$pid`},
		{Zsh, `vfs_read(fi`, "le", `vfs_read\(file`},
		{Zsh, `vfs_*`, "(", `vfs_\*\(`},
		{Bash, `'vfs_read($pi`, "d", `'vfs_read($pid`},
		{Bash, `$'vfs_read(\'a\' == x, $pi`, "d", `$'vfs_read(\'a\' == x, $pid`},
	} {
		w := c.d.Word(c.raw)
		if got := w.extend(c.d, c.more); got != c.want {
			t.Errorf("%s and %q: %s, want %s", c.raw, c.more, got, c.want)
		}
	}
}

// TestWords: a line of bash has the words that bash finds in it.
func TestWords(t *testing.T) {
	for _, line := range []string{`ksnoop trace 'vfs_read(a b)' x`, `a "b c"d\ e 'f'"g"`, `a $'b\'c' d`, `ksnoop   trace	x`, `a '' b`} {
		var got []string
		for _, w := range Bash.Words(line) {
			got = append(got, w.Text)
		}
		if want := given(t, "bash", line); !slices.Equal(got, want) {
			t.Errorf("%s: %q, bash has %q", line, got, want)
		}
	}
	if words := Bash.Words("ksnoop trace "); len(words) != 3 || words[2].Text != "" {
		t.Errorf("%v", words)
	}
}

// TestReply: what is told to each shell, by hand.
func TestReply(t *testing.T) {
	r := Reply{Open: true, Candidates: []Candidate{{"ags", "f_flags", "unsigned int"}}}
	w := Bash.Word(`'vfs_read(file->f_fl`)
	for name, c := range map[string]struct{ got, want string }{
		"bash keeps the quote open": {string(r.Bash(&w, "vfs_read(file->f_fl", false, 80)), "vfs_read(file->f_flags\nvfs_read(file->f_flags \n"},
		"zsh":                       {string(r.Zsh(&w, 80)), "'vfs_read(file->f_flags\nf_flags  (unsigned int)\n"},
		"fish":                      {string(r.Fish(&w)), "vfs_read(file->f_flags\tunsigned int\nvfs_read(file->f_flags \t\n"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	two := Reply{Candidates: []Candidate{{"a", "fa", "int"}, {"bcdef", "fbcdef", strings.Repeat("x", 100)}}}
	if got, want := string(two.Bash(&w, "", true, 20)), "fa      (int)\nfbcdef  (xxxxxxxxx…\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzWord: a word that was completed reads as the text that was meant.
func FuzzWord(f *testing.F) {
	for _, seed := range []string{`'vfs_read(fi`, `"vfs\$`, `a\`, `$'`, `a'b"c`, "\xff", `"$x`, `vfs_*`} {
		f.Add(seed, "le->f_flags && $pid == 'a'")
	}
	f.Fuzz(func(t *testing.T, raw, more string) {
		for _, d := range []Dialect{Bash, Zsh, Fish} {
			w := d.Word(raw)
			if strings.HasSuffix(raw, `\`) || strings.HasSuffix(raw, "$") && more != "" { // they act on what follows
				continue
			}
			if d == Fish && len(w.acted) > 0 {
				continue // fish quotes by itself
			}
			again := d.Word(w.extend(d, more))
			if again.Text != w.Text+more && !strings.ContainsAny(more, "\n") {
				t.Errorf("%q and %q: %q reads as %q", raw, more, w.extend(d, more), again.Text)
			}
		}
	})
}
