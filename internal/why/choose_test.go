// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// call is a failing call of process 1, with the text of its first argument.
func call(name string, e unix.Errno, text string) Failure {
	f := Failure{PID: 1, Comm: "tool", Function: "__x64_sys_" + name, Errno: uint64(e)}
	if text != "" {
		f.Params = []kernel.Field{{Name: "filename", Decl: "const char *", Size: 8}}
		f.Texts[0] = &text
	}
	return f
}

// requested is a request by netlink of process 1 that has failed.
func requested(function string, kind uint64, e unix.Errno) Failure {
	return Failure{PID: 1, Comm: "tool", Function: function, Number: requestNumber, Errno: uint64(e), request: &request{kind: kind}}
}

func TestChoose(t *testing.T) {
	open := func(file string) Failure { return call("openat", unix.ENOENT, file) }
	other := func(f Failure) Failure {
		f.PID = 2
		return f
	}
	for name, tt := range map[string]struct {
		calls    []Failure
		messages []string // behind the calls of which they name the index: "2: text"
		status   int
		wish     Wish
		want     int
		err      error
	}{
		"named by its message":                  {calls: []Failure{call("bind", unix.EADDRNOTAVAIL, ""), call("mount", unix.EINVAL, ""), call("close", unix.EBADF, "")}, messages: []string{"mount: Invalid argument\n"}, status: 1, want: 1},
		"named by its name":                     {calls: []Failure{call("bind", unix.EADDRNOTAVAIL, ""), call("mount", unix.EINVAL, ""), call("close", unix.EBADF, "")}, messages: []string{"listen EADDRNOTAVAIL: 1.2.3.4"}, status: 1, want: 0},
		"a part of a word is no name":           {calls: []Failure{call("bind", unix.EPERM, ""), call("mount", unix.EINVAL, "")}, messages: []string{"xEPERM EPERMX _EPERM"}, status: 1, want: 1},
		"musl's message":                        {calls: []Failure{call("bind", unix.EADDRNOTAVAIL, ""), call("mount", unix.EINVAL, "")}, messages: []string{"bind: Address not available"}, status: 1, want: 0},
		"the file that is named":                {calls: []Failure{open("/a/conf"), open("/b/conf"), open("/c/conf")}, messages: []string{"cannot open /b/conf: No such file or directory"}, status: 1, want: 1},
		"the last of those with the error":      {calls: []Failure{open("/a"), open("/b")}, messages: []string{"No such file or directory"}, status: 1, want: 1},
		"the last text that names an error":     {calls: []Failure{call("mount", unix.EINVAL, ""), call("bind", unix.EPERM, "")}, messages: []string{"Operation not permitted", "Invalid argument", "giving up"}, status: 1, want: 0},
		"of the process that writes":            {calls: []Failure{call("mount", unix.EINVAL, ""), other(call("bind", unix.EINVAL, ""))}, messages: []string{"Invalid argument"}, status: 1, want: 0},
		"of another process, if none":           {calls: []Failure{other(call("bind", unix.EINVAL, "")), call("mount", unix.EPERM, "")}, messages: []string{"Invalid argument"}, status: 1, want: 0},
		"a warning of a command that succeeds":  {calls: []Failure{call("bind", unix.EPERM, "")}, messages: []string{"Operation not permitted"}, want: 0},
		"without a text, the last unexpected":   {calls: []Failure{open("/a"), call("mount", unix.EINVAL, ""), open("/b"), call("futex", unix.EAGAIN, "")}, status: 1, want: 1},
		"if all are expected, the last":         {calls: []Failure{open("/a"), open("/b")}, status: 1, want: 1},
		"Go's name for memory is expected":      {calls: []Failure{call("mount", unix.EINVAL, ""), {Function: "__x64_sys_prctl", Errno: uint64(unix.EINVAL), Args: [words]uint64{unix.PR_SET_VMA}}}, status: 1, want: 0},
		"not expected of another system call":   {calls: []Failure{open("/a"), call("mount", unix.ENOENT, ""), open("/b")}, status: 1, want: 1},
		"a service that does not run":           {calls: []Failure{call("connect", unix.ECONNREFUSED, ""), call("connect", unix.ENOENT, "/var/run/nscd/socket")}, status: 1, want: 0},
		"a family of generic netlink":           {calls: []Failure{call("openat", unix.EACCES, "/a"), requested(genericFunction, unix.GENL_ID_CTRL, unix.ENOENT)}, status: 4, want: 0},
		"a command of its controller":           {calls: []Failure{call("openat", unix.EACCES, "/a"), requested(genericFunction, unix.GENL_ID_CTRL, unix.EOPNOTSUPP)}, status: 4, want: 0},
		"no family, and no file":                {calls: []Failure{requested(genericFunction, unix.GENL_ID_CTRL, unix.ENOENT), open("/a")}, messages: []string{"No such file or directory"}, status: 1, want: 1},
		"the right to ask for families":         {calls: []Failure{open("/a"), requested(genericFunction, unix.GENL_ID_CTRL, unix.EPERM), open("/b")}, status: 1, want: 1},
		"of a family":                           {calls: []Failure{open("/a"), requested(genericFunction, 0x1c, unix.ENOENT), open("/b")}, status: 1, want: 1},
		"RTM_NEWLINK, of the same number":       {calls: []Failure{open("/a"), requested(rtnetlinkFunction, unix.RTM_NEWLINK, unix.ENOENT), open("/b")}, status: 1, want: 1},
		"an extension of iptables":              {calls: []Failure{call("openat", unix.EACCES, "/a"), requested("nfnl_compat_get_rcu", 0xb00, unix.ENOENT)}, status: 4, want: 0},
		"a revision of it":                      {calls: []Failure{call("openat", unix.EACCES, "/a"), requested("nfnl_compat_get_rcu", 0xb00, unix.EPROTONOSUPPORT)}, status: 4, want: 0},
		"a chain":                               {calls: []Failure{open("/a"), requested("nf_tables_newrule", 0xa06, unix.ENOENT), open("/b")}, status: 1, want: 1},
		"of the system call asked for":          {calls: []Failure{call("bind", unix.EPERM, ""), call("mount", unix.EINVAL, "")}, messages: []string{"Invalid argument"}, wish: Wish{Syscall: "bind"}, want: 0},
		"with the error asked for":              {calls: []Failure{call("bind", unix.EPERM, ""), call("mount", unix.EINVAL, "")}, wish: Wish{Errno: uint64(unix.EPERM)}, want: 0},
		"the one asked for":                     {calls: []Failure{call("bind", unix.EPERM, ""), open("/a"), call("bind", unix.EINVAL, ""), call("bind", unix.EBADF, "")}, wish: Wish{Syscall: "bind", Nth: 2}, want: 2},
		"more are asked for than there are":     {calls: []Failure{call("bind", unix.EPERM, "")}, wish: Wish{Nth: 2}, err: errNoSuch},
		"another one is asked for":              {calls: []Failure{call("bind", unix.EPERM, "")}, wish: Wish{Syscall: "mount"}, err: errNoSuch},
		"nothing has failed":                    {status: 1, err: ErrNone},
		"it succeeds":                           {calls: []Failure{call("bind", unix.EPERM, "")}, err: ErrSucceeded},
		"a text before the call is not of that": {calls: []Failure{call("bind", unix.EPERM, ""), call("mount", unix.EINVAL, "")}, messages: []string{"before: Operation not permitted"}, status: 1, want: 1},
	} {
		var messages []Message
		for i := range tt.calls {
			tt.calls[i].Time = uint64(i + 1)
		}
		for i, text := range tt.messages {
			m := Message{Time: uint64(len(tt.calls) + i + 1), PID: 1, Text: text}
			if strings.HasPrefix(text, "before") {
				m.Time = 0
			}
			messages = append(messages, m)
		}
		got, reason, err := (&Seen{Calls: tt.calls, Messages: messages, Status: tt.status}).choose(tt.wish)
		if !errors.Is(err, tt.err) || err == nil && (got != tt.want || reason == "") {
			t.Errorf("%s: call %d since %s, %v; want %d, %v", name, got, reason, err, tt.want, tt.err)
		}
	}
}

// TestChooseOfSeen: what was lost may have been a later call, or an earlier one. A text that was seen was written.
func TestChooseOfSeen(t *testing.T) {
	calls, text := []Failure{call("mount", unix.EINVAL, "")}, []Message{{Time: 1, PID: 1, Text: "Invalid argument"}}
	for want, get := range map[string]func(*Seen) (int, string, error){
		"it is the last one that programs do not expect to fail":  func(s *Seen) (int, string, error) { return s.Choose(Wish{}) },
		"it is the first one that programs do not expect to fail": func(s *Seen) (int, string, error) { return s.ChooseFirst(Wish{}) },
		"it is the first one asked for":                           func(s *Seen) (int, string, error) { return s.ChooseFirst(Wish{Syscall: "mount"}) },
		"--nth asks for it":                                       func(s *Seen) (int, string, error) { return s.Choose(Wish{Nth: 1}) },
	} {
		_, whole, err := get(&Seen{Calls: calls, Status: 1})
		_, part, err2 := get(&Seen{Calls: calls, Status: 1, Incomplete: true})
		if err != nil || err2 != nil || whole != want || part != want+", of the calls that were seen" {
			t.Errorf("%q and %q, %v, %v; want %q", whole, part, err, err2, want)
		}
	}
	if _, reason, err := (&Seen{Calls: calls, Messages: text, Status: 1, Incomplete: true}).Choose(Wish{}); err != nil || reason != `tool wrote "Invalid argument"` {
		t.Error(reason, err)
	}
}

// TestChooseReason: a call of a kind that programs expect to fail is chosen since an option asks for it, if one does.
func TestChooseReason(t *testing.T) {
	s := &Seen{Calls: []Failure{call("openat", unix.ENOENT, ""), call("mount", unix.EINVAL, ""), call("openat", unix.ENOENT, "")}, Status: 1}
	for want, w := range map[string]Wish{
		"it is the last one that --errno asks for":               {Errno: uint64(unix.ENOENT)},
		"it is the last one that --syscall asks for":             {Syscall: "openat"},
		"it is the last one that --syscall and --errno ask for":  {Syscall: "openat", Errno: uint64(unix.ENOENT)},
		"it is the last one that programs do not expect to fail": {},
		"--nth asks for it": {Errno: uint64(unix.ENOENT), Nth: 1},
	} {
		if _, reason, err := s.Choose(w); reason != want || err != nil {
			t.Errorf("%+v: %q, %v, want %q", w, reason, err, want)
		}
	}
	const want = "it is the last one, and all are of kinds that programs expect to fail"
	if _, reason, err := (&Seen{Calls: s.Calls[:1], Status: 1}).Choose(Wish{}); reason != want || err != nil {
		t.Errorf("%q, %v, want %q", reason, err, want)
	}
}

// TestOutput: the descriptor is in a parameter that is called one, and a number.
func TestOutput(t *testing.T) {
	fd, buf, out := kernel.Field{Name: "fd", Decl: "unsigned int"}, kernel.Field{Name: "buf", Decl: "const char *"}, kernel.Field{Name: "fd_out", Decl: "int"}
	for _, tt := range []struct {
		params []kernel.Field
		args   [words]uint64
		want   int
	}{
		{[]kernel.Field{fd, buf}, [words]uint64{1, 8, 10}, 1},
		{[]kernel.Field{fd, buf}, [words]uint64{0xffffffff00000002}, 2},
		{[]kernel.Field{fd, buf}, [words]uint64{3, 1}, 0},
		{[]kernel.Field{fd, buf, out}, [words]uint64{3, 1, 1}, 1},
		{[]kernel.Field{buf, {Name: "ufds", Decl: "struct pollfd *"}}, [words]uint64{1, 1}, 0},
		{nil, [words]uint64{1, 1}, 0},
	} {
		if got := (&Failure{Params: tt.params, Args: tt.args}).Output(); got != tt.want {
			t.Errorf("%v of %v: %d, want %d", tt.args, tt.params, got, tt.want)
		}
	}
}

// TestCommOf: a process has the name of the program that it has executed last.
func TestCommOf(t *testing.T) {
	calls := []Failure{{PID: 1, Time: 1, Comm: "sh"}, {PID: 2, Time: 2, Comm: "other"}, {PID: 1, Time: 3, Comm: "cat"}, {PID: 1, Time: 5, Comm: "late"}}
	for m, want := range map[Message]string{{PID: 1, Time: 4}: "cat", {PID: 1, Time: 2}: "sh", {PID: 2, Time: 1}: "other", {PID: 3, Time: 4}: "the command"} {
		if got := commOf(calls, &m); got != want {
			t.Errorf("%+v: %s, want %s", m, got, want)
		}
	}
}

// TestQuoted: what is quoted of a text is what names the error.
func TestQuoted(t *testing.T) {
	f, x := call("mount", unix.EINVAL, ""), strings.Repeat("x", 100)
	for text, want := range map[string]string{
		"":                                      `""`,
		"mount: Invalid argument\n":             `"mount: Invalid argument"`,
		"mount: Invalid argument\nusage\n":      `"mount: Invalid argument"...`,
		"usage\nmount: Invalid argument\n":      `"mount: Invalid argument"`,
		"it is said to be\nInvalid\nargument\n": `"it is said to be"...`,
		"EINVAL" + x + "\n":                     `"EINVAL` + x[:94] + `"...`,
		x + ": EINVAL\n":                        `..."` + x[:92] + `: EINVAL"`,
		x + ": EINVAL\nusage\n":                 `..."` + x[:92] + `: EINVAL"...`,
		x + "x\n":                               `"` + x + `"...`,
	} {
		if got := quoted(text, &f); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestString(t *testing.T) {
	text, long := "/tmp/\x1b[31m", strings.Repeat("a", 100)
	for _, tt := range []struct {
		f    Failure
		want string
	}{
		{Failure{Number: 999, Errno: 22, Args: [words]uint64{1, 2, 3, 4, 0x5000, ^uint64(0)}}, "syscall 999(1, 2, 3, 4, 0x5000, 0xffffffffffffffff) = -EINVAL"},
		{Failure{Function: "__arm64_sys_openat", Errno: 2, Args: [words]uint64{0xffffff9c, 0x7f0000001000, 0x241, 0o644}, Texts: [words]*string{nil, &text},
			Params: []kernel.Field{{Name: "dfd", Decl: "int", Size: 8}, {Name: "filename", Decl: "const char *", Size: 8}, {Name: "flags", Decl: "int", Size: 8}, {Name: "mode", Decl: "umode_t", Size: 8}}},
			`openat(AT_FDCWD, "/tmp/\x1b[31m", 0x241, 0644) = -ENOENT`},
		{Failure{Function: "__x64_sys_mount", Errno: 512, Args: [words]uint64{1: 0x1000, 3: 0x8000}, Texts: [words]*string{&long, nil, nil, nil, &text},
			Params: []kernel.Field{{Name: "dev_name", Decl: "char *"}, {Name: "dir_name", Decl: "char *"}, {Name: "type", Decl: "char *"}, {Name: "flags", Decl: "unsigned long"}, {Name: "data", Decl: "void *"}}},
			`mount("` + long[:longText] + `"..., 0x1000, NULL, 0x8000, "/tmp/\x1b[31m") = -ERESTARTSYS`},
		{Failure{Function: "__x64_sys_kill", Errno: 3, Args: [words]uint64{0xfffffff6, 9}, Texts: [words]*string{&text, &text},
			Params: []kernel.Field{{Name: "pid", Decl: "pid_t", Size: 8}, {Name: "sig", Decl: "int", Size: 8}}}, "kill(-10, 9) = -ESRCH"},
		{Failure{Function: "__x64_sys_getppid", Errno: 4000, Params: []kernel.Field{}}, "getppid() = -4000"},
	} {
		if got := tt.f.String(); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
