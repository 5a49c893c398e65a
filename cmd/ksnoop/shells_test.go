// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// A typist is a shell on a pseudo-terminal, in which keys are pressed.
type typist struct {
	tty  *os.File
	dump string // the shell writes here what has been typed
	mu   sync.Mutex
	seen bytes.Buffer
}

// dumpKey has the shell write its line.
const dumpKey = "\x18d"

// interactive are the shells: how each is started, and a script that it runs first.
var interactive = map[string]struct {
	args   []string
	file   string
	script string
}{
	"bash": {[]string{"--noprofile", "--rcfile", "rc", "-i"}, "rc", `
PS1='$ '
bind 'set enable-bracketed-paste off'
eval "$(ksnoop completion bash)"
bind -x '"\C-xd": printf %s "$READLINE_LINE" >dump.new; mv dump.new dump'
`},
	"zsh": {[]string{"-i"}, ".zshrc", `
PS1='$ '
autoload -Uz compinit; compinit -u -D
unset zle_bracketed_paste
eval "$(ksnoop completion zsh)"
d() { printf %s "$BUFFER" >dump.new; mv dump.new dump }
zle -N d
bindkey '^Xd' d
`},
	"fish": {[]string{"-i"}, "fish/config.fish", `
function fish_prompt; echo '$ '; end
function fish_greeting; end
ksnoop completion fish | source
bind \cxd 'commandline >dump.new; mv dump.new dump'
`},
}

// typing starts a shell in a folder that has ksnoop, types.btf, the types of a 6.12 kernel, and calls.ks, a
// recording.
func typing(t *testing.T, name, ksnoop string) *typist {
	t.Helper()
	shell := interactive[name]
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not here: make setup installs it", name)
	}
	dir := t.TempDir()
	link := func(file, as string) {
		file, err := filepath.Abs(file)
		if err == nil {
			err = os.Symlink(file, filepath.Join(dir, as))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	link(ksnoop, "ksnoop")
	link("../../internal/completion/testdata/vmlinux-6.12.btf", "types.btf")
	link("../../testdata/calls.ks", "calls.ks")
	rc := filepath.Join(dir, shell.file)
	// A fish without the second folder fills it from all man pages, in the background.
	for _, folder := range []string{filepath.Dir(rc), filepath.Join(dir, "fish/generated_completions")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(rc, []byte(shell.script), 0o644); err != nil {
		t.Fatal(err)
	}
	tty, slave := terminalPair(t)
	c := exec.Command(path, shell.args...)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, slave, slave, slave
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TERM=xterm", "HOME="+dir, "ZDOTDIR="+dir,
		"XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir, "LC_ALL=C.UTF-8")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	ty := &typist{tty: tty, dump: filepath.Join(dir, "dump")}
	go ty.read()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		_ = tty.Close()
	})
	ty.begin(t)
	return ty
}

// terminalPair returns both ends of a pseudo-terminal.
func terminalPair(t *testing.T) (tty, slave *os.File) {
	t.Helper()
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	if err := unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 60, Col: 120}); err != nil {
		t.Fatal(err)
	}
	return tty, slave
}

// read keeps what the shell prints, and answers as a terminal does that is asked what it is.
func (ty *typist) read() {
	buf := make([]byte, 1<<16)
	for {
		n, err := ty.tty.Read(buf)
		if err != nil {
			return
		}
		ty.mu.Lock()
		ty.seen.Write(buf[:n])
		ty.mu.Unlock()
		if bytes.Contains(buf[:n], []byte("\x1b[c")) || bytes.Contains(buf[:n], []byte("\x1b[0c")) {
			_, _ = ty.tty.WriteString("\x1b[?62;c")
		}
	}
}

func (ty *typist) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := ty.tty.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// begin waits until the shell has started. Keys that are pressed before may be lost, or be answered late.
func (ty *typist) begin(t *testing.T) {
	t.Helper()
	for start := time.Now(); ; {
		ty.press(t, dumpKey)
		if _, ok := ty.answer(t, 2*time.Second); ok {
			break
		}
		ty.demand(t, time.Since(start) < keyTime())
	}
	const last = "started"
	ty.press(t, last+dumpKey)
	for {
		line, ok := ty.answer(t, keyTime())
		ty.demand(t, ok)
		if line == last {
			return
		}
	}
}

// line returns what stands on the shell's line.
func (ty *typist) line(t *testing.T) string {
	t.Helper()
	ty.press(t, dumpKey)
	line, ok := ty.answer(t, keyTime())
	ty.demand(t, ok)
	return line
}

// keyTime is how long a shell may take to answer a key.
func keyTime() time.Duration { return livetest.Patience(30 * time.Second) }

// answer waits for the line that the shell writes for dumpKey.
func (ty *typist) answer(t *testing.T, wait time.Duration) (line string, ok bool) {
	t.Helper()
	for start := time.Now(); time.Since(start) < wait; time.Sleep(5 * time.Millisecond) {
		taken := ty.dump + ".taken" // another answer may come meanwhile
		if os.Rename(ty.dump, taken) != nil {
			continue
		}
		data, err := os.ReadFile(taken)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(string(data), "\n"), true
	}
	return "", false
}

// demand ends the test if the shell does not answer.
func (ty *typist) demand(t *testing.T, answers bool) {
	t.Helper()
	if answers {
		return
	}
	ty.mu.Lock()
	defer ty.mu.Unlock()
	t.Fatalf("the shell does not answer; it printed %q", ty.seen.String())
}

// typed presses keys on an empty line, one after the other, and returns the line.
func (ty *typist) typed(t *testing.T, keys string) string {
	t.Helper()
	ty.press(t, "\x15")
	for part := range strings.SplitAfterSeq(keys, "\t") {
		ty.press(t, part)
		ty.line(t) // so that the next keys do not interrupt it
	}
	return ty.line(t)
}

// TestShells: the TAB key in bash, zsh and fish leaves a valid line, with the quote as open as it was and
// no blank behind what is not finished.
func TestShells(t *testing.T) {
	const trace = "ksnoop trace --btf types.btf "
	cases := []struct{ keys, want, only string }{
		{trace + "'vfs_readl\t", trace + "'vfs_readlink", ""},
		{trace + "'vfs_read(fi\t", trace + "'vfs_read(file", ""},
		{trace + "'vfs_read(count > 3, file->f_fl\t", trace + "'vfs_read(count > 3, file->f_flags", ""},
		{trace + "\"vfs_read(file->f_fl\t", trace + "\"vfs_read(file->f_flags", ""},
		{trace + "'vfs_readl\t(den\t->d_fl\t == 3)'", trace + "'vfs_readlink(dentry->d_flags == 3)'", ""},
		{trace + "'vfs_read(return == -ENOTB\t", trace + "'vfs_read(return == -ENOTBLK", ""},
		{trace + "'tcp_set_state(state == TCP_ES\t", trace + "'tcp_set_state(state == TCP_ESTABLISHED", ""},
		{trace + "'vfs_read($dur\t", trace + "'vfs_read($duration", ""},
		{trace + "'vfs_read(quan\t$dur\t)[$com\t", trace + "'vfs_read(quantiles($duration)[$comm", ""},
		{trace + "'vfs_read(((struct sock_comm\t", trace + "'vfs_read(((struct sock_common", ""},
		{trace + "-e 'vfs_readl\t", trace + "-e 'vfs_readlink", ""},
		{trace + "vfs_readl\t", trace + "vfs_readlink", ""},
		{trace + "vfs_read\\(fi\t", trace + "vfs_read\\(file", ""},
		{trace + "vfs_read\\(file-\\>f_fl\t", trace + "vfs_read\\(file-\\>f_flags", ""},
		{trace + "vfs_read'(fi\t", trace + "vfs_read'(file", ""},
		{trace + "rawtp:task_newta\t", trace + "rawtp:task_newtask", ""},
		{trace + "'rawtp:task_newtask(clone_f\t", trace + "'rawtp:task_newtask(clone_flags", ""},
		{trace + "\"vfs_read($dur\t", trace + "\"vfs_read(\\$duration", "bash"}, // the others replace the variable
		{trace + "vfs_read(fi\t", trace + "vfs_read\\(file", "zsh"},             // others take it for a command
		{trace + "'vfs_readl'\t", trace + "'vfs_readlink'", "fish"},             // where it has closed the quote
		{trace + "'vfs_readl'\t", trace + "'vfs_readl'ink", "bash"},
		{trace + "'vfs_readl'\t", trace + "'vfs_readlink'", "zsh"},
		{"ksnoop tra\t", "ksnoop trace ", ""},
		{"ksnoop trace --atta\tfe\t", "ksnoop trace --attach fentry ", ""},
		{"ksnoop trace --format=perf\t", "ksnoop trace --format=perfetto ", ""},
		{"ksnoop trace -x ENOTB\t", "ksnoop trace -x ENOTBLK", ""},
		{"ksnoop replay cal\t", "ksnoop replay calls.ks ", ""},
		{"ksnoop replay calls.ks 'vfs_read(cou\t", "ksnoop replay calls.ks 'vfs_read(count", ""},
		{"ksnoop info --btf types.btf vfs_readl\t", "ksnoop info --btf types.btf vfs_readlink", ""},
		{"ksnoop info --btf types.btf --types 'struct sock_comm\t", "ksnoop info --btf types.btf --types 'struct sock_common", ""},
		{"ksnoop trace vfs_read -- ./cal\t", "ksnoop trace vfs_read -- ./calls.ks ", ""},
		{"ksnoop trace --btf nowhere 'vfs_r\t", "ksnoop trace --btf nowhere 'vfs_r", ""},
		{trace + "'nothing(\t", trace + "'nothing(", ""},
		{trace + "'vfs_read(cou\t\t", trace + "'vfs_read(count", "bash"},
	}
	// The test program is not it: with the race detector, a key takes seconds.
	ksnoop := filepath.Join(t.TempDir(), "ksnoop")
	if out, err := exec.Command("go", "build", "-o", ksnoop, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name := range interactive {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ty := typing(t, name, ksnoop)
			for _, c := range cases {
				if c.only != "" && c.only != name {
					continue
				}
				if got := ty.typed(t, c.keys); got != c.want {
					t.Errorf("%q: the line is %q, want %q", c.keys, got, c.want)
				}
			}
			keys := trace + "'vfs_read(file->f_\t"
			if name == "bash" {
				keys += "\t" // which lists with the second one
			}
			ty.listed(t, keys)
		})
	}
}

// sequences are what terminals act on.
var sequences = regexp.MustCompile(`\x1b(\[[0-9;?]*[A-Za-z]|\(B)`)

// listed checks that members are listed with their types.
func (ty *typist) listed(t *testing.T, keys string) {
	t.Helper()
	ty.typed(t, "")
	ty.mu.Lock()
	ty.seen.Reset()
	ty.mu.Unlock()
	ty.press(t, keys)
	seen := ""
	for start := time.Now(); time.Since(start) < livetest.Patience(10*time.Second); time.Sleep(20 * time.Millisecond) {
		ty.mu.Lock()
		seen = sequences.ReplaceAllString(ty.seen.String(), "")
		ty.mu.Unlock()
		if strings.Contains(seen, "f_mapping") && strings.Contains(seen, "struct address_space *") {
			return
		}
	}
	t.Errorf("no member is listed with its type: %q", seen)
}
