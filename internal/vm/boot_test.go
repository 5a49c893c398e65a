// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// forEachKernel runs the test on every kernel that is to be had.
func forEachKernel(t *testing.T, test func(*testing.T, Kernel)) {
	t.Helper()
	forKernels(t, KernelNames(), test)
}

// forEachArch is for what may hang on the architecture; make test-all runs it on every kernel.
func forEachArch(t *testing.T, test func(*testing.T, Kernel)) {
	t.Helper()
	names := KernelNames()
	if os.Getenv("KSNOOP_TOOLS") != "" {
		forKernels(t, names, test)
		return
	}
	arm := func(name string) bool { return strings.HasSuffix(name, "-arm64") }
	amd64 := slices.DeleteFunc(slices.Clone(names), arm)
	arm64 := slices.DeleteFunc(names, func(name string) bool { return !arm(name) })
	forKernels(t, slices.Concat(amd64[:min(1, len(amd64))], arm64[:min(1, len(arm64))]), test)
}

// forOneKernel is for what does not depend on the kernel.
func forOneKernel(t *testing.T, test func(*testing.T, Kernel)) {
	t.Helper()
	forKernels(t, KernelNames()[:1], test)
}

func forKernels(t *testing.T, names []string, test func(*testing.T, Kernel)) {
	t.Helper()
	if guest.In() {
		t.Skip("a guest boots no guests")
	}
	if testing.Short() {
		t.Skip("boots guests")
	}
	for _, program := range []string{"qemu-system-x86_64", "busybox", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("cannot boot a guest: %v", err)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			k, err := FindKernel(t.Context(), name)
			if err != nil {
				t.Skipf("no kernel to boot: %v", err)
			}
			test(t, k)
		})
	}
}

func boot(t *testing.T, g Guest) *Machine {
	t.Helper()
	begin := time.Now()
	m, err := g.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	t.Logf("booted in %v", time.Since(begin).Round(time.Millisecond))
	return m
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func TestBoot(t *testing.T) {
	random := func(seed uint64) []byte {
		b := make([]byte, 1<<20)
		source := rand.NewChaCha8([32]byte{byte(seed)})
		_, _ = source.Read(b) // never fails
		return b
	}
	one, two := random(1), random(2)
	if bytes.IndexByte(one, 0) < 0 {
		t.Fatal("the data has no NUL")
	}
	tests := []struct {
		name           string
		command        Command
		stdin          string
		stdout, stderr string
		status         Status
	}{
		{name: "nothing", command: Command{Args: []string{"true"}}},
		{name: "exit 1", command: Command{Args: []string{"false"}}, status: Status{Code: 1}},
		{name: "exit 42", command: Command{Args: sh("exit 42")}, status: Status{Code: 42}},
		{name: "killed", command: Command{Args: sh("kill -9 $$")}, status: Status{Signal: syscall.SIGKILL}},
		{name: "both streams", command: Command{Args: sh("echo out; echo err >&2")}, stdout: "out\n", stderr: "err\n"},
		{name: "binary", command: Command{Args: sh("cat /one & cat /two >&2; wait")}, stdout: string(one), stderr: string(two)},
		{name: "kernel messages apart", command: Command{Args: sh("echo '<0>mixed' >/dev/kmsg; echo clean")}, stdout: "clean\n"},
		{name: "environment", command: Command{Args: sh("echo $KSNOOP_GUEST $A $HOME"), Env: []string{"A=b c"}}, stdout: "KERNEL b c /root\n"},
		{name: "folder", command: Command{Args: []string{"pwd"}, Dir: "/tmp"}, stdout: "/tmp\n"},
		{name: "no input", command: Command{Args: []string{"wc", "-c"}}, stdout: "0\n"},
		{name: "input", command: Command{Args: []string{"cat"}}, stdin: string(one), stdout: string(one)},
		{name: "input not read", command: Command{Args: []string{"true"}}, stdin: string(one)},
		{name: "terminal", command: Command{Args: sh("tty; stty size; echo err >&2"), TTY: true}, stdout: "/dev/pts/0\r\n24 80\r\nerr\r\n"},
		{name: "left behind", command: Command{Args: sh("sleep 1000 & echo started")}, stdout: "started\n"},
		{name: "mounts", command: Command{Args: sh("for d in /proc /sys /sys/kernel/tracing /sys/kernel/debug /sys/fs/bpf /sys/fs/cgroup /dev/pts /tmp; do grep -q \" $d \" /proc/mounts || echo $d; done")}},
		{name: "module", command: Command{Args: sh("grep overlay /proc/filesystems")}, stdout: "nodev\toverlay\n"},
		{name: "addresses", command: Command{Args: sh("grep -c -v ^0000000000000000 /proc/kallsyms >/dev/null && ping -c 1 127.0.0.1 >/dev/null && echo yes")}, stdout: "yes\n"},
	}
	forEachArch(t, func(t *testing.T, k Kernel) {
		m := boot(t, Guest{Kernel: k, Modules: []string{"overlay"}, Files: []File{{Guest: "/one", Data: one}, {Guest: "/two", Data: two}}})
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), livetest.Patience(time.Minute))
				defer cancel()
				var stdout, stderr bytes.Buffer
				c := tt.command
				c.Stdout, c.Stderr = &stdout, &stderr
				if tt.stdin != "" {
					c.Stdin = strings.NewReader(tt.stdin)
				}
				status, err := m.Run(ctx, c)
				if err != nil {
					t.Fatal(err)
				}
				if status != tt.status {
					t.Errorf("%v, want %v", status, tt.status)
				}
				same(t, "stdout", stdout.String(), strings.Replace(tt.stdout, "KERNEL", k.Name, 1))
				same(t, "stderr", stderr.String(), tt.stderr)
			})
		}
		t.Run("no such program", func(t *testing.T) {
			if _, err := m.Run(t.Context(), Command{Args: []string{"no-such-program"}}); err == nil || !strings.Contains(err.Error(), "not found") {
				t.Errorf("error %v", err)
			}
		})
		t.Run("signal", func(t *testing.T) { testSignal(t, m) })
		t.Run("panic", func(t *testing.T) {
			_, err := m.Run(t.Context(), Command{Args: sh("echo c >/proc/sysrq-trigger")})
			// Architectures differ in how they write "Call Trace".
			if err == nil || !strings.Contains(err.Error(), "guest crashed: Kernel panic") || !strings.Contains(strings.ToLower(err.Error()), "call trace") {
				t.Errorf("error %v, want the panic and its call trace", err)
			}
			if _, err := m.Run(t.Context(), Command{Args: []string{"true"}}); !errors.Is(err, errClosed) {
				t.Errorf("command after the end: %v, want %v", err, errClosed)
			}
		})
	})
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	if len(got)+len(want) < 1000 {
		t.Errorf("%s %q, want %q", what, got, want)
		return
	}
	t.Errorf("%s: %d bytes differ from the %d that were written", what, len(got), len(want))
}

// onLine calls a function when the first line has been written.
type onLine struct {
	bytes.Buffer
	then func()
}

func (o *onLine) Write(b []byte) (int, error) {
	if o.Len() == 0 {
		o.then()
	}
	return o.Buffer.Write(b)
}

// testSignal also shows that output comes while the command runs: the signal
// is sent when the command has said that it is ready.
func testSignal(t *testing.T, m *Machine) {
	ctx, cancel := context.WithTimeout(t.Context(), livetest.Patience(time.Minute))
	defer cancel()
	signals := make(chan os.Signal, 1)
	out := &onLine{then: func() { signals <- os.Interrupt }}
	status, err := m.Run(ctx, Command{
		Args:    sh("trap 'echo caught; exit 7' INT; echo ready; sleep 1000 & wait"),
		Stdout:  out,
		Signals: signals,
	})
	if err != nil {
		t.Fatal(err)
	}
	if status != (Status{Code: 7}) || out.String() != "ready\ncaught\n" {
		t.Errorf("%v, %q", status, out)
	}
}

func TestTimeOut(t *testing.T) {
	forOneKernel(t, func(t *testing.T, k Kernel) {
		m := boot(t, Guest{Kernel: k})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err := m.Run(ctx, Command{Args: []string{"sleep", "1000"}})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "out of time") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begin); took > livetest.Patience(10*time.Second) {
			t.Errorf("took %v", took)
		}
	})
}

// With the instruction clock the same work takes the same time.
func TestInstructionClock(t *testing.T) {
	forOneKernel(t, func(t *testing.T, k Kernel) {
		programs, err := Programs(t.Context(), k.Arch)
		if len(programs) == 0 {
			t.Fatal(err)
		}
		var figures []string
		for range 2 {
			m := boot(t, Guest{Kernel: k, ICount: true, Files: programs})
			var out bytes.Buffer
			if _, err := m.Run(t.Context(), Command{Args: []string{"workload", "loop"}, Stdout: &out}); err != nil {
				t.Fatal(err)
			}
			m.Close()
			_, minimum, ok := strings.Cut(out.String(), "min=")
			if !ok {
				t.Fatalf("no figure in %q", &out)
			}
			minimum, _, _ = strings.Cut(minimum, " ")
			figures = append(figures, minimum)
		}
		if figures[0] != figures[1] {
			t.Errorf("instructions per read %s", strings.Join(figures, ", then "))
		}
	})
}
