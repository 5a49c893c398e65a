// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/record"
)

func TestSplitSpecs(t *testing.T) {
	for line, want := range map[string][]string{
		"":                                    nil,
		"  vfs_read  ":                        {"vfs_read"},
		"vfs_read(count, return < 0) vfs_*":   {"vfs_read(count, return < 0)", "vfs_*"},
		`a(x == "b c) d", y)  b(:struct q *)`: {`a(x == "b c) d", y)`, "b(:struct q *)"},
		"a(count()[$comm, b]) f[mod *] g(":    {"a(count()[$comm, b])", "f[mod *]", "g("},
		"a) b":                                {"a)", "b"},
	} {
		if diff := cmp.Diff(want, splitSpecs(line)); diff != "" {
			t.Errorf("%q: %s", line, diff)
		}
	}
}

// TestViewArguments: what is no terminal is refused with one message, and so is what cannot be meant.
func TestViewArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "view takes a FILE, which ksnoop trace --record FILE has made"},
		{[]string{recordedCalls}, "view shows a recording on a terminal, and the standard output is none: ksnoop replay prints it"},
		{[]string{recordedCalls, "-n", ""}, "-n is given an empty word"},
		{[]string{recordedCalls, "--args", "no"}, "--args"},
	} {
		stdout, stderr, status := ran(append([]string{"view"}, c.args...)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %q, %q", c.args, status, stdout, stderr)
		}
	}
}

// A pane is a terminal of tmux in which a command runs.
type pane struct {
	t      *testing.T
	socket string
}

// newPane runs this test's program as ksnoop in a terminal of a size.
func newPane(t *testing.T, width, height int, command string) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed: make setup")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &pane{t, filepath.Join(t.TempDir(), "tmux")}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", p.socket, "kill-server").Run() })
	p.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "-e", asProgram+"=1", "-e", "KSNOOP="+self, command+`; echo "status $?"; exec sleep 600`)
	return p
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// press presses keys, as tmux calls them.
func (p *pane) press(keys ...string) {
	p.t.Helper()
	p.tmux(append([]string{"send-keys"}, keys...)...)
}

// until waits until the screen has a text, and returns its lines.
func (p *pane) until(want string) []string {
	p.t.Helper()
	var screen string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if screen = p.tmux("capture-pane", "-p"); strings.Contains(screen, want) {
			return strings.Split(strings.TrimRight(screen, "\n"), "\n")
		}
	}
	p.t.Fatalf("no %q in\n%s", want, screen)
	return nil
}

// TestViewCalls drives view in a terminal: a recording of three calls is listed, unfolded, searched, asked, and left.
func TestViewCalls(t *testing.T) {
	p := newPane(t, 100, 24, `"$KSNOOP" view `+recordedCalls)
	lines := p.until("1 of 3")
	if !strings.HasPrefix(lines[0], " "+recordedCalls+" · guest · 6.12") || !strings.HasPrefix(lines[1], "▸         workload     156    0        96.118528 vfs_read(count = 33, file = ") ||
		!strings.HasPrefix(lines[3], "▸         workload     156    1        96.656094") || lines[4] != "" {
		t.Errorf("%q", lines)
	}
	p.press("Enter")
	// What replay prints of it stands below, line by line.
	printed, _, _ := ran("replay", "-c", "1", recordedCalls)
	text := strings.Split(strings.ReplaceAll(printed, "\t", "        "), "\n")[2:]
	lines = p.until("▾")
	for i := range 18 {
		if want := strings.TrimRight("  "+text[i], " "); lines[i+2] != want {
			t.Errorf("line %d: %q, want %q", i, lines[i+2], want)
		}
	}
	p.press("/", "ksys_read", "Enter")
	p.until("      ksys_read+0x6f")
	p.press("n", "n", "n")
	p.until("no ksys_read further on   (3 of 3)")
	p.press("f", "vfs_read(file->f_flags, nope)", "Enter")
	p.until("f mends the SPEC")
	if lines := p.until(`has no parameter "nope"`); !slices.ContainsFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "^~~~" }) {
		t.Errorf("%q", lines)
	}
	p.press("f", "C-w", "return == 33)", "Enter")
	if lines = p.until("1 of 3  SPEC vfs_read(file->f_flags, return == 33)"); !strings.Contains(lines[1], "vfs_read(file->f_flags = 32768, return = 33)") || !strings.Contains(lines[len(lines)-2], "1 of 3") {
		t.Errorf("%q", lines)
	}
	// A small window, and back.
	p.tmux("resize-window", "-x", "30", "-y", "4")
	if lines = p.until("1 of 3  SPEC vfs_read(file->f…"); len(lines) != 4 || !strings.HasPrefix(lines[0], "▸         workload     156") {
		t.Errorf("small: %q", lines)
	}
	p.tmux("resize-window", "-x", "100", "-y", "24")
	p.until("q quit")
	p.press("q")
	if lines = p.until("status 0"); strings.Contains(strings.Join(lines, "\n"), "workload") {
		t.Errorf("the terminal is not as it was: %q", lines)
	}
}

// TestViewSessions: a failed session, and its call tree.
func TestViewSessions(t *testing.T) {
	p := newPane(t, 120, 24, `"$KSNOOP" view `+recordedSessions)
	lines := p.until("1 of 1")
	if want := "▸ 06:51:03.429268    8667.204us     173 workload        [-EINVAL]      __sys_bpf in array_map_alloc_check"; lines[1] != want {
		t.Errorf("%q, want %q", lines[1], want)
	}
	p.press("Enter")
	p.until("↔ array_map_alloc_check   [-EINVAL]  6315.049us")
	p.press("C-c")
	p.until("status 0")
}

// TestViewTables: what SPECs add up is there, too.
func TestViewTables(t *testing.T) {
	p := newPane(t, 100, 24, `"$KSNOOP" view `+recordedCalls+` 'vfs_read(count()[return])'`)
	p.until("▸ tables of what the SPECs add up")
	p.press("Enter")
	p.until("vfs_read: count()[return]")
}

// TestViewNone: what is said of a recording of which nothing is shown does not speak of filters that nobody has given.
func TestViewNone(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open")
	part := bpf.AppendSession(nil, &bpf.SessionHeader{Kind: bpf.SessionChunk, PID: 7, TID: 8, Start: 1000, End: 2000})
	empty, begun := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "begun")
	for name, raw := range map[string][][]byte{empty: nil, begun: {part}} {
		if err := os.WriteFile(name, k.Recording(&record.Sessions{Traced: true}, raw...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string]string{
		empty: "no call or session was recorded  ", empty + " -x any": "no call or session was recorded  ",
		begun: "no whole call or session was recorded  ", begun + " -x any": "no recorded call or session matches  ",
	} {
		p := newPane(t, 200, 24, `"$KSNOOP" view `+command)
		if lines := p.until("(0 of 0)"); !strings.HasPrefix(lines[len(lines)-2], want) {
			t.Errorf("%s: %q, want %q", command, lines[len(lines)-2], want)
		}
	}
}

// TestViewInput: a recording of the standard input is shown; it cannot be asked again. Where there is no terminal to
// read keys from, or one that cannot move its cursor, that is said.
func TestViewInput(t *testing.T) {
	p := newPane(t, 100, 24, `"$KSNOOP" view - <`+recordedCalls)
	p.until("standard input · guest")
	p.until("1 of 3")
	p.press("f", "vfs_read", "Enter")
	p.until("the standard input cannot be read again")
	p.press("x", "q")
	p.until("status 0")
	for command, want := range map[string]string{
		`TERM=dumb "$KSNOOP" view ` + recordedCalls:                `TERM is "dumb": ksnoop replay prints a recording`,
		`"$KSNOOP" view nope.ks`:                                   "nope.ks: no such file or directory",
		`"$KSNOOP" view ` + recordedCalls + ` 'vfs_read(nope)'`:    `has no parameter "nope"`,
		`"$KSNOOP" view ` + recordedCalls + ` ` + recordedSessions: "these are several runs: view shows one FILE, or the parts of one run",
	} {
		p := newPane(t, 120, 24, command)
		p.until(want)
		if strings.Contains(command, "nope.ks") {
			p.until("status 1")
		} else {
			p.until("status 2")
		}
	}
}

// TestViewKilled: a signal ends view and leaves the terminal as it was.
func TestViewKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	p := newPane(t, 80, 24, `sh -c 'echo $$ >`+file+`; exec "$KSNOOP" view `+recordedCalls+`'`)
	p.until("1 of 3")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if lines := p.until("status "); strings.Contains(strings.Join(lines, "\n"), "workload") {
		t.Errorf("%q", lines)
	}
}

// TestQuietStart: no other command asks the terminal something when it starts, as libraries for terminals do.
func TestQuietStart(t *testing.T) {
	p := newPane(t, 80, 24, `TERM=xterm-256color script -qec '"$KSNOOP" --version' /dev/null | od -c; TERM=xterm-256color script -qec '"$KSNOOP" --version' /dev/null | grep -c "$(printf '\033')"`)
	p.until("k   s   n   o   o   p")
	p.until("status 1") // of grep: there is no escape
}

// TestEnough: what nobody looks at any more is not read to its end, also if nothing of it was asked for.
func TestEnough(t *testing.T) {
	var f replayFlags
	runs, done, err := f.openAll([]string{recordedCalls}, &asking{})
	defer done()
	if err != nil {
		t.Fatal(err)
	}
	s := &runs[0].shown
	gone := make(chan struct{})
	s.stopped = gone
	for _, err := range s.records() {
		if s.read == 2 && err == nil {
			close(gone)
		}
	}
	if s.read != 2 {
		t.Errorf("%d records were read, want 2 of 3", s.read)
	}
}
