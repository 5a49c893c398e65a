// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// testPage is a page with all that there can be. Names in it are hostile.
func testPage() *Page {
	open, bind := call("openat", unix.ENOENT, "/etc/<a>"), call("bind", unix.EINVAL, "\x1b[31m")
	bind.Comm, bind.TID, bind.Time = "a\nb", 2, 7
	s := &Seen{Calls: []Failure{open, open, bind, open}, Status: 3}
	p := NewPage([]string{"tool", "\x1b]0;"}, s)
	p.Choose(s, 2, `it wrote "x"`)
	p.Call.UserStack = []string{"write+0x1 (/bin/a)", "... cut"}
	enoent, einval := ^uint64(unix.ENOENT-1), ^uint64(unix.EINVAL-1)
	place := Place{Chain: []Link{{kernel.Function{Name: "__x64_sys_bind"}, einval, "-EINVAL", ""}, {kernel.Function{Name: "inet_bind", Module: "m"}, einval, "-EINVAL", ""}, {kernel.Function{Name: "look"}, enoent, "-ENOENT", ""}},
		Stack: []byte("    __x64_sys_bind\n\n    inet_bind\n"), Runs: 2}
	p.SetPlace(&place)
	p.Taken = &Taken{Function: "inet_bind[m]", Args: []Argument{{"sk", "NULL"}, {"n", "3"}}}
	p.Taken.setPath([]byte("        path: /* some steps were not seen */\n            in inet_bind: passed 1-2\n            +0x5  test\n\n"))
	return p
}

func TestPage(t *testing.T) {
	p := testPage()
	want := `bind failed: invalid argument
    bind("\x1b[31m") = -EINVAL
    by a\nb[1], in a command with exit status 3; chosen since it wrote "x"
    called by:
        write+0x1 (/bin/a)
        ... cut
refused in inet_bind[m] or in what that calls, which was looked at no further (2 more runs):
    __x64_sys_bind

    inet_bind
    inet_bind[m](sk = NULL, n = 3)
        path: /* some steps were not seen */
            in inet_bind: passed 1-2
            +0x5  test

other calls that failed, in order:
    openat("/etc/<a>") = -ENOENT, tool[1], 3 times
`
	if got := string(p.Append(nil)); got != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
	p.Refused.Stored = "*errp"
	if got, want := string(p.AppendPlace(nil)), "refused in inet_bind[m] or in what that calls, which was looked at no further; it returned NULL, with the error in *errp (2 more runs):\n"; !strings.HasPrefix(got, want) {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
	p.Refused.Stored = ""
	p.Refused.Inside, p.Refused.Whole, p.Refused.Runs, p.Taken = "__do_sys_bind", true, 1, nil
	if got, want := string(p.AppendPlace(nil)), "refused in __do_sys_bind, on which the kernel lets nobody put a probe, called by inet_bind[m] (1 more run):\n"; !strings.HasPrefix(got, want) {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
	running := NewProcessPage(4711)
	running.Call, running.Reason, running.Refused = p.Call, p.Reason, p.Refused
	want = `bind failed: invalid argument
    bind("\x1b[31m") = -EINVAL
    by a\nb[1]; chosen since it wrote "x"
    called by:
        write+0x1 (/bin/a)
        ... cut
refused in __do_sys_bind, on which the kernel lets nobody put a probe, called by inet_bind[m] (1 more failure):
    __x64_sys_bind

    inet_bind
`
	if got := string(running.Append(nil)); got != want {
		t.Errorf("of a process:\n%s\nwant:\n%s", got, want)
	}
	none := NewPage(nil, &Seen{})
	if none.Choose(&Seen{Calls: []Failure{call("bind", unix.EPERM, "")}}, -1, ""); string(none.Append(nil)) != "calls that failed, in order:\n    bind(0, 0, 0, 0, 0, 0) = -EPERM, tool[1]\n" {
		t.Errorf("no call is chosen:\n%s", none.Append(nil))
	}
}

// namespacesPage is a page of calls in PID namespaces: of ksnoop's own with another one within it, or of the initial one.
func namespacesPage() *Page {
	in := func(f Failure, host, own uint32, ours bool) Failure {
		f.PID, f.TID, f.Inner = host, host, bpf.Inner{PID: own, TID: own, Ours: ours}
		return f
	}
	s := &Seen{Calls: []Failure{in(call("bind", unix.EPERM, ""), 159, 11, true), in(call("bind", unix.EPERM, ""), 160, 0, true), in(call("mount", unix.EPERM, ""), 181, 1, false)}, Status: 1}
	p := NewPage([]string{"tool"}, s)
	p.Choose(s, 0, "it is the last one")
	return p
}

// TestPageNamespaces: numbers of processes are marked as they are in a trace (docs/containers.md).
func TestPageNamespaces(t *testing.T) {
	want := `bind failed: operation not permitted
    bind(0, 0, 0, 0, 0, 0) = -EPERM
    by tool[11 (host 159)], in a command with exit status 1; chosen since it is the last one
other calls that failed, in order:
    bind(0, 0, 0, 0, 0, 0) = -EPERM, tool[0 (host 160)]
    mount(0, 0, 0, 0, 0, 0) = -EPERM, tool[181 (own 1)]
`
	p := namespacesPage()
	if got := string(p.Append(nil)); got != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
	for _, want := range []string{`"pid":159,"tid":159,"namespace":{"pid":11,"tid":11,"own":true},`, `"pid":181,"tid":181,"namespace":{"pid":1,"tid":1},`} {
		if line := jsonOf(t, p); !bytes.Contains(line, []byte(want)) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	k := Killing{Signal: "SIGKILL", Comm: "sh", PID: 159, Inner: bpf.Inner{PID: 11, TID: 11, Ours: true}}
	if got, want := k.Cause().Text, "sh[11 (host 159)] was killed by the signal SIGKILL: no system call was refused for it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPageInterrupted: the headline says what has become of a call that fails with an error of the kernel's own.
func TestPageInterrupted(t *testing.T) {
	for errno, want := range map[uint64]string{
		restartSys: "pause failed: interrupted\n", restartNoIntr: "pause failed: interrupted\n", restartNoHand: "pause failed: interrupted\n",
		restartRestart: "pause failed: interrupted\n", uint64(unix.EINTR): "pause failed: interrupted system call\n", noIoctlCommand: "pause failed\n",
	} {
		s := &Seen{Calls: []Failure{{Function: "__x64_sys_pause", Errno: errno, Params: []kernel.Field{}}}, Status: 1}
		p := NewPage([]string{"tool"}, s)
		p.Choose(s, 0, "it is the last one")
		if got := string(p.AppendCall(nil)); !strings.HasPrefix(got, want) {
			t.Errorf("%d: %s, want %s", errno, got, want)
		}
	}
}

// TestPageKilled: the signal that has ended the command is told beside a call that matters for another reason.
func TestPageKilled(t *testing.T) {
	killed := Seen{Calls: []Failure{call("write", unix.EPIPE, ""), call("openat", unix.ENOENT, "/a")}, Status: 141, Killed: &Killing{Signal: "SIGPIPE", Comm: "yes", PID: 1}}
	named := killed
	named.Messages = []Message{{Time: 1, PID: 1, Text: "no such file or directory"}}
	exited := killed
	exited.Killed = nil
	for _, tt := range []struct {
		seen          *Seen
		reason, notes string
	}{
		{&named, `tool wrote "no such file or directory"`, "yes[1] was killed by the signal SIGPIPE"},
		{&killed, "yes[1] was killed by the signal SIGPIPE, which that call has brought", ""},
		{&exited, "it is the last one that programs do not expect to fail", ""},
	} {
		chosen, reason, err := tt.seen.Choose(Wish{})
		p := NewPage([]string{"yes"}, tt.seen)
		p.Choose(tt.seen, chosen, reason)
		if got := strings.Join(p.Notes, "\n"); err != nil || p.Reason != tt.reason || got != tt.notes {
			t.Errorf("%q, notes %q, %v; want %q, %q", p.Reason, got, err, tt.reason, tt.notes)
		}
	}
	none := NewPage(nil, &killed)
	if none.Choose(&killed, -1, ""); len(none.Notes) > 0 {
		t.Errorf("no call is chosen: %q", none.Notes)
	}
}

// TestPageJSON: the schema admits each page, and what is read of it prints the same.
func TestPageJSON(t *testing.T) {
	schema, err := formattest.CompileSchema(jsonlines.Schema())
	if err != nil {
		t.Fatal(err)
	}
	lost := testPage()
	lost.Lost, lost.Notes = []Lost{{What: "calls not seen", Count: 3}}, []string{"interrupted"}
	caused := testPage()
	caused.Cause = capabilityCause([]capability{{21, 4026532132, 1}})
	interrupted := NewPage([]string{"tool"}, &Seen{})
	if interrupted.Status = nil; bytes.Contains(jsonOf(t, interrupted), []byte("status")) || !bytes.Contains(jsonOf(t, testPage()), []byte(`"status":3,`)) || bytes.Contains(jsonOf(t, NewProcessPage(1)), []byte("status")) {
		t.Errorf("only a command that has ended has an exit status: %s", jsonOf(t, interrupted))
	}
	ruled := testPage()
	ruled.Cause = seccompCause(&Failure{Number: 39, Args: [words]uint64{1}, Errno: uint64(unix.EPERM), filters: &filters{list: [][]unix.SockFilter{denying(unix.EPERM)}}}, "amd64")
	stored := testPage()
	stored.Refused.Stored, stored.Refused.Inside = "*errp", "__do_sys_bind"
	below, unfollowed := testPage(), testPage()
	below.Refused.Below, unfollowed.Refused.Unfollowed = []string{"kstrtoull", "probes_write"}, true
	for name, p := range map[string]*Page{"whole": testPage(), "with a stored error": stored, "below": below, "unfollowed": unfollowed, "interrupted": interrupted, "with losses": lost, "with a cause": caused, "with a rule of seccomp": ruled, "nothing has failed": NewPage([]string{"true"}, &Seen{}), "of a process": NewProcessPage(4711),
		"in PID namespaces": namespacesPage()} {
		line, err := p.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Check(strings.TrimSuffix(string(line), "\n")); err != nil {
			t.Errorf("%s: %v\n%s", name, err, line)
		}
		read, err := ParsePage(line)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := shown(t, read), shown(t, p); got != want {
			t.Errorf("%s: read:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

func jsonOf(t *testing.T, p *Page) []byte {
	t.Helper()
	line, err := p.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// shown is all that is printed of a page.
func shown(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteNotes(&b); err != nil {
		t.Fatal(err)
	}
	return string(p.Append(nil)) + b.String()
}

// TestLostAdvice: what was lost may be the reason for a gap in a chain, if there is one on the page.
func TestLostAdvice(t *testing.T) {
	const advice = "ksnoop: this counts all processes. If a function is missing in the page, run ksnoop why again, with less else running\n"
	whole, lost, short := testPage(), testPage(), NewPage([]string{"tool"}, &Seen{})
	lost.Lost = []Lost{{What: "calls not seen", Count: 3}, {What: "calls too deep", Count: 1, Text: "1 call too deep"}}
	short.Lost = lost.Lost
	for name, tt := range map[string]struct {
		p    *Page
		want string
	}{"whole": {whole, ""}, "lost": {lost, "ksnoop: 3 calls not seen\nksnoop: 1 call too deep\n" + advice}, "no chain": {short, "ksnoop: 3 calls not seen\nksnoop: 1 call too deep\n"}} {
		if got := strings.TrimPrefix(shown(t, tt.p), string(tt.p.Append(nil))); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestIncompletePage: what was lost of the first run may have been the call that matters. Numbers of calls are the least ones then.
func TestIncompletePage(t *testing.T) {
	for _, incomplete := range []bool{false, true} {
		s := &Seen{Calls: []Failure{call("mount", unix.EINVAL, "")}, Status: 1, Incomplete: incomplete}
		for i := range mostListed + 1 {
			s.Calls = append(s.Calls, call("openat", unix.Errno(i+1), ""), call("openat", unix.Errno(i+1), ""))
		}
		p := NewPage([]string{"tool"}, s)
		p.Choose(s, 0, "")
		line, err := p.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if p, err = ParsePage(line); err != nil {
			t.Fatal(err)
		}
		text := shown(t, p)
		for part, want := range map[string]bool{"(the last 12 of 13)": !incomplete, "(the last 12 of at least 13)": incomplete, ", 2 times": !incomplete, ", at least 2 times": incomplete,
			"ksnoop: some of that is of the first run: calls that failed may be missing, and the one that matters may be one of them\n": incomplete} {
			if strings.Contains(text, part) != want {
				t.Errorf("incomplete: %t, and %q: %t", incomplete, part, !want)
			}
		}
	}
}

// TestGoOn: what a command leaves behind fails unseen.
func TestGoOn(t *testing.T) {
	for n, want := range []string{"", "1 process that the command has started goes on: ", "2 processes that the command has started go on: "} {
		s := &Seen{goOn: n}
		p := NewPage([]string{"tool"}, s)
		p.Choose(s, -1, "")
		if text := shown(t, p); strings.Contains(text, "has started") != (n > 0) || !strings.Contains(text, want) {
			t.Errorf("%d: %s", n, text)
		}
	}
}

// TestHostilePage: nothing of a page that somebody else has made acts on a terminal, or begins a line.
func TestHostilePage(t *testing.T) {
	p, err := ParsePage([]byte(`{"kind":"why","call":{"name":"\u001b[31m","args":[{"text":"a\nb"}],"error":"\u202e"},"reason":"\r","refused":{"function":"f\n","stack":["\u009b"]},"notes":["\u0007"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := shown(t, p); strings.Count(got, "\n") != 6 || !terminal.IsPrintable(strings.ReplaceAll(got, "\n", "")) {
		t.Errorf("printed: %q", got)
	}
	line, err := p.JSON()
	if err != nil || !terminal.IsPrintable(strings.TrimSuffix(string(line), "\n")) {
		t.Errorf("JSON: %q, %v", line, err)
	}
	for _, bad := range []string{``, `{}`, `{"kind":"end"}`, `[1]`, `{"kind":"why","status":"x"}`} {
		if p, err := ParsePage([]byte(bad)); err == nil {
			t.Errorf("%s: %v", bad, p)
		}
	}
}

// TestPageMany: of many other calls the last ones are listed, and their number is told.
func TestPageMany(t *testing.T) {
	s := &Seen{}
	for i := range 300 {
		s.Calls = append(s.Calls, Failure{Number: uint64(i), Errno: 1, Params: []kernel.Field{}})
	}
	p := NewPage(nil, s)
	p.Choose(s, -1, "")
	got := string(p.Append(nil))
	first, last := fmt.Sprintf("syscall %d()", 300-mostListed), "syscall 299() = -EPERM"
	if !strings.HasPrefix(got, fmt.Sprintf("calls that failed, in order (the last %d of 300):\n    %s", mostListed, first)) || !strings.Contains(got, last) || len(p.Others) != mostKept {
		t.Errorf("%d kept, printed:\n%s", len(p.Others), got)
	}
}
