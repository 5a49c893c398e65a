// SPDX-License-Identifier: Apache-2.0

package tracer_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/layout"
	"github.com/ksnoop/ksnoop/tracer"
)

// opened is the guest's kernel.
func opened(t *testing.T) *tracer.Kernel {
	t.Helper()
	if os.Getenv("KSNOOP_GUEST") == "" {
		t.Skip("needs a guest, see internal/vm")
	}
	k, err := tracer.Open()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// attached attaches a request, runs a command, and lets the records end when that has.
func attached(t *testing.T, k *tracer.Kernel, r tracer.Request, command ...string) (*tracer.Tracer, context.Context) {
	t.Helper()
	return attachedTo(t, k, r, exec.Command(command[0], command[1:]...))
}

func attachedTo(t *testing.T, k *tracer.Kernel, r tracer.Request, command *exec.Cmd) (*tracer.Tracer, context.Context) {
	t.Helper()
	tr, err := k.Attach(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	_ = command.Run() // some are to fail
	ctx, stop := context.WithCancel(t.Context())
	stop()
	return tr, ctx
}

// TestLiveCalls: the workload knows how many calls it makes and with what.
func TestLiveCalls(t *testing.T) {
	k := opened(t)
	for _, method := range []layout.Method{layout.MethodAuto, layout.MethodKprobe, layout.MethodKprobeMulti} {
		if lack := attach.CapKprobeMulti.Probe(); method == layout.MethodKprobeMulti && lack != nil {
			t.Logf("not by kprobe.multi: %v", lack)
			continue
		}
		tr, ctx := attached(t, k, tracer.Request{Specs: []string{"vfs_read(count == 78, file->f_path.dentry->d_name.name, buf(file->f_path.dentry->d_name.name, 2), return > 0)"},
			Method: method, Filter: bpf.Filter{Comms: []string{"workload"}}, Stack: true}, "workload", "read", "-count", "9", "-size", "78")
		if f := tr.Functions(); len(f) != 1 || f[0].Name != "vfs_read" || method != layout.MethodAuto && f[0].Method != method {
			t.Errorf("%v: %v", method, f)
		}
		var last time.Duration
		n := 0
		for call, err := range tr.Calls(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			count, _ := call.Value("count").Uint()
			result, _ := call.Value("return").Int()
			file := call.Value("file->f_path.dentry->d_name.name")
			name, isText := file.Text()
			head := call.Value("buf(file->f_path.dentry->d_name.name, 2)")
			if !isText || string(file.Target) != name || file.Cut || len(head.Target) != 2 || !strings.HasPrefix(name, string(head.Target)) || head.Cut {
				t.Errorf("%v: name %q, its bytes %q, its beginning %q", method, name, file.Target, head.Target)
			}
			if call.Function != "vfs_read" || call.Kind != bpf.KindCall || call.Comm != "workload" || call.PID == 0 || call.Time <= last ||
				count != 78 || len(call.Values) != 4 || result != 78 || name == "" || !strings.Contains(file.String(), `"`+name+`"`) || call.Value("buf").Expr != "" ||
				!strings.HasPrefix(call.String(), "vfs_read(count = 78, ") || !strings.HasSuffix(call.String(), ", return = 78)") {
				t.Errorf("%v: %v: %d, %d, %q, %d values, %s[%d] at %v", method, call, count, result, name, len(call.Values), call.Comm, call.PID, call.Time)
			}
			inside := false
			for _, f := range call.Stack {
				if f.Module == "bpf" || strings.HasPrefix(f.Function, "ftrace_") || strings.HasPrefix(f.Function, "vfs_read") {
					t.Errorf("%v: %v in the stack of callers", method, f)
				}
				inside = inside || strings.HasPrefix(f.Function, "ksys_read") || strings.Contains(f.Function, "sys_read")
			}
			if !inside {
				t.Errorf("%v: no system call in the stack %v", method, call.Stack)
			}
			last = call.Time
		}
		losses, err := tr.Losses()
		if n != 9 || len(losses) != 0 || err != nil {
			t.Errorf("%v: %d calls, want 9; lost %v, %v", method, n, losses, err)
		}
		for _, err := range tr.Calls(ctx) {
			if !errors.Is(err, tracer.ErrRead) {
				t.Error(err)
			}
		}
	}
}

// TestLiveSessions: a file that is not there.
func TestLiveSessions(t *testing.T) {
	tr, ctx := attached(t, opened(t), tracer.Request{Entry: []string{"do_sys_openat2(ustr(filename))"}, Allow: []string{"path_openat", "do_filp_open"},
		Filter: bpf.Filter{Comms: []string{"cat"}}}, "cat", "/nope")
	n := 0
	for s, err := range tr.Sessions(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Calls) == 0 || len(s.Calls[0].Values) == 0 || !strings.Contains(s.Calls[0].Values[0].String(), `"/nope"`) {
			continue // the loader looks for files, too
		}
		n++
		if s.Function != "do_sys_openat2" || s.Comm != "cat" || !s.Failed || s.Incomplete || s.End <= s.Start || s.Calls[0].Text != "-ENOENT" ||
			!s.Calls[0].Returned || !s.Calls[0].Failed || len(s.Calls) < 2 || s.Calls[len(s.Calls)-1].Text != "-ENOENT" ||
			len(s.Stack) == 0 || slices.ContainsFunc(s.Stack, func(f tracer.Frame) bool { return f.Module == "bpf" }) {
			t.Errorf("%+v", s)
		}
	}
	if n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
	if losses, err := tr.Losses(); err != nil {
		t.Error(losses, err)
	}
	for _, err := range tr.Calls(ctx) {
		if !errors.Is(err, tracer.ErrSessions) {
			t.Error(err)
		}
	}
}

// TestLiveOwner: calls and sessions have the user and the cgroup of their thread.
func TestLiveOwner(t *testing.T) {
	k := opened(t)
	const group, user = "/tracer-test", 65534
	if err := os.Mkdir("/sys/fs/cgroup"+group, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove("/sys/fs/cgroup" + group)
	dir, err := os.Open("/sys/fs/cgroup" + group)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil {
		t.Fatal(err)
	}
	id := info.Sys().(*syscall.Stat_t).Ino
	work := func() *exec.Cmd {
		c := exec.Command("workload", "read", "-count", "3", "-size", "79")
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}, UseCgroupFD: true, CgroupFD: int(dir.Fd())}
		return c
	}
	n := 0
	check := func(tr *tracer.Tracer, uid uint32, cgroup uint64) {
		if n++; uid != user || cgroup != id || tr.CgroupPath(cgroup) != group {
			t.Errorf("user %d of cgroup %d, %q, want %d of %d, %q", uid, cgroup, tr.CgroupPath(cgroup), user, id, group)
		}
	}
	for _, method := range []layout.Method{layout.MethodAuto, layout.MethodKprobe} {
		tr, ctx := attachedTo(t, k, tracer.Request{Specs: []string{"vfs_read(count == 79, return)"}, Method: method}, work())
		for call, err := range tr.Calls(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			check(tr, call.UID, call.Cgroup)
		}
	}
	tr, ctx := attachedTo(t, k, tracer.Request{Entry: []string{"vfs_read(count == 79)"}, Success: true}, work())
	for s, err := range tr.Sessions(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		check(tr, s.UID, s.Cgroup)
	}
	if want := 2*2*3 + 3; n != want {
		t.Errorf("%d calls, ends of calls and sessions, want %d", n, want)
	}
	if path := tr.CgroupPath(1 << 60); path != "" {
		t.Errorf("a cgroup that is not there has the path %q", path)
	}
}

// TestLiveRefused: what cannot be had is said, and nothing is attached.
func TestLiveRefused(t *testing.T) {
	k := opened(t)
	for text, want := range map[string]string{"vfs_read(cuont)": `did you mean "count"?`, "vfs_read(": "missing", "no_such_function_at_all": "no_such_function_at_all"} {
		_, err := k.Attach(t.Context(), tracer.Request{Specs: []string{text}})
		var faults *expr.ErrorList
		if err == nil || !errors.As(err, &faults) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, r := range []tracer.Request{{}, {Specs: []string{"vfs_read"}, Success: true}, {Specs: []string{"vfs_read"}, Deny: []string{"vfs_read(count)"}},
		{Specs: []string{"vfs_read"}, Filter: bpf.Filter{Family: true}}, {Specs: []string{"vfs_read"}, RingSize: 1000},
		{Specs: []string{"vfs_read"}, RingSize: 16}, {Specs: []string{"vfs_read"}, Rate: bpf.Rate{Most: 5}},
		{Specs: []string{"vfs_read"}, Method: layout.MethodRawTP}, {Specs: []string{"vfs_read"}, Method: 200}} {
		if tr, err := k.Attach(t.Context(), r); err == nil {
			t.Errorf("%+v was attached: %v", r, tr.Close())
		}
	}
	for _, m := range []layout.Method{layout.MethodFsession, layout.MethodTracingMulti} { // which came with Linux 7
		tr, err := k.Attach(t.Context(), tracer.Request{Specs: []string{"vfs_read"}, Method: m})
		switch {
		case err == nil:
			err = tr.Close()
		case errors.Is(err, ebpf.ErrNotSupported):
			err = nil
		}
		if err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if tr, err := k.Attach(ctx, tracer.Request{Specs: []string{"vfs_read"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("attached for a context that has ended: %v, %v", tr != nil, err)
	}
}

// TestLiveClose: Close ends a loop that another goroutine is in, or that calls it, and what is
// asked for afterwards is refused.
func TestLiveClose(t *testing.T) {
	k := opened(t)
	for _, inside := range []bool{true, false} {
		tr, _ := attached(t, k, tracer.Request{Specs: []string{"vfs_read(count == 78)"}, Filter: bpf.Filter{Comms: []string{"workload"}}},
			"workload", "read", "-count", "9", "-size", "78")
		began := make(chan struct{})
		closed := make(chan error, 1)
		go func() {
			<-began
			closed <- tr.Close()
		}()
		n := 0
		var last error
		for call, err := range tr.Calls(t.Context()) { // which does not end by itself
			if last = err; err != nil {
				break
			}
			if call.Kind != bpf.KindLost {
				n++
			}
			if n == 1 {
				if close(began); inside {
					if err := <-closed; err != nil {
						t.Error(err)
					}
					closed <- nil
				}
			}
		}
		if n != 9 || !errors.Is(last, tracer.ErrClosed) || <-closed != nil {
			t.Errorf("%d calls, want 9; %v", n, last)
		}
		for _, err := range tr.Calls(t.Context()) {
			if !errors.Is(err, tracer.ErrClosed) {
				t.Error(err)
			}
		}
		if l, err := tr.Losses(); !errors.Is(err, tracer.ErrClosed) {
			t.Error(l, err)
		}
	}
}

// TestZeroValue: what a record does not have is no number and no text.
func TestZeroValue(t *testing.T) {
	v := new(tracer.Call).Value("count")
	_, isNumber := v.Int()
	_, isText := v.Text()
	if isNumber || isText || v.String() != "" {
		t.Error(v)
	}
}
