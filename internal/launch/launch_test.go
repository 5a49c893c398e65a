// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"
)

func TestStatus(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -KILL $$": 137, "kill -TERM $$": 143} {
		c, err := Start(nil, []string{"sh", "-c", script})
		if err != nil {
			t.Fatal(err)
		}
		c.Continue()
		if got, err := Status(<-c.Done()); got != want || err != nil {
			t.Errorf("%s: status %d, %v, want %d", script, got, err, want)
		}
	}
}

// TestStopped: nothing of the command may have run before it is let go.
func TestStopped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	c, err := Start(nil, []string{"touch", file})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran before it was let go")
	}
	comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.PID()), "comm"))
	if got := strings.TrimSpace(string(comm)); err != nil || got != "touch" {
		t.Errorf("the stopped process is %q, %v; want the command itself", got, err)
	}
	c.Continue()
	if _, err := Status(<-c.Done()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error("the command did not run:", err)
	}
}

// TestDescriptors: a command has none of our descriptors, which can do what the
// command may not. What whoever has started us has left open for all is passed on.
func TestDescriptors(t *testing.T) {
	dir := t.TempDir()
	links := map[string]bool{} // of ours, as /proc/PID/fd has them: the names of files, kinds of others
	add := func(fd int) {
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil {
			t.Fatal(err)
		}
		links[link] = true
	}
	open := func(name string) int {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return int(f.Fd())
	}
	add(open("ours"))
	before := descriptors(t)
	_, stop, err := Watch(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for fd := range descriptors(t) {
		if !before[fd] {
			add(fd)
		}
	}
	if len(links) != 3 {
		t.Fatalf("%v: not a file, a pidfd and a pipe", links)
	}
	passed, err := unix.Dup(open("passed")) // to any program, other than what Go opens
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(passed)

	users := []*User{nil}
	if os.Geteuid() == 0 {
		users = append(users, &User{"root", syscall.Credential{}})
	}
	for _, as := range users {
		list := filepath.Join(dir, "list")
		c, err := Start(as, []string{"sh", "-c", "ls -l /proc/self/fd > " + list})
		if err != nil {
			t.Fatal(err)
		}
		c.Continue()
		if status, err := Status(<-c.Done()); status != 0 || err != nil {
			t.Fatalf("status %d, %v", status, err)
		}
		text, err := os.ReadFile(list)
		if err != nil || !strings.Contains(string(text), fmt.Sprintf(" %d -> %s\n", passed, filepath.Join(dir, "passed"))) {
			t.Errorf("what is passed on is missing, %v:\n%s", err, text)
		}
		for link := range links {
			if strings.Contains(string(text), " -> "+link+"\n") {
				t.Errorf("the command has our %s:\n%s", link, text)
			}
		}
	}
}

// TestUntraceable: where no process may be traced, it is said why a command cannot be.
func TestUntraceable(t *testing.T) {
	const scope = "kernel.yama.ptrace_scope is 3"
	refused := fmt.Errorf("fork/exec /bin/true: %w", unix.EPERM)
	for _, c := range []struct {
		scope string
		err   error
		said  bool
	}{{"3\n", refused, true}, {"2\n", refused, false}, {"3\n", unix.ENOENT, false}, {"", refused, false}} {
		root := fstest.MapFS{}
		if c.scope != "" {
			root["proc/sys/kernel/yama/ptrace_scope"] = &fstest.MapFile{Data: []byte(c.scope)}
		}
		if err := untraceable(root, c.err); strings.Contains(err.Error(), scope) != c.said || !c.said && !errors.Is(err, c.err) {
			t.Errorf("%q, %v: %v", c.scope, c.err, err)
		}
	}
}

// TestDescriptorsInPlace: a command of a user has what is passed on at the same numbers, also at those that are the next free ones for
// what starts it.
func TestDescriptorsInPlace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts commands as a user")
	}
	var files [2]*os.File
	for i, name := range []string{"third", "fifth"} {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), "KSNOOP_TEST_AS_USER=1"), []*os.File{files[0], nil, files[1]}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{" 3 -> " + files[0].Name(), " 5 -> " + files[1].Name()} {
		if !strings.Contains(string(out), want+"\n") {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

// descriptors are those of this process.
func descriptors(t *testing.T) map[int]bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	fds := map[int]bool{}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // not that of the listing itself
			fds[fd] = true
		}
	}
	return fds
}

func TestMissing(t *testing.T) {
	if _, err := Start(nil, []string{"no-such-command-anywhere"}); err == nil || !strings.Contains(err.Error(), "no-such-command-anywhere") {
		t.Errorf("error %v does not name the command", err)
	}
	if _, err := Start(nil, []string{"/dev/null"}); err == nil {
		t.Error("a file that cannot be run was started")
	}
}

func TestKill(t *testing.T) {
	c, err := Start(nil, []string{"sleep", "1000"})
	if err != nil {
		t.Fatal(err)
	}
	pid := c.PID()
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")); err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("a command that was not let go survives being killed")
}

func TestSignal(t *testing.T) {
	c, err := Start(nil, []string{"sleep", "1000"})
	if err != nil {
		t.Fatal(err)
	}
	c.Continue()
	time.Sleep(50 * time.Millisecond)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got, err := Status(<-c.Done()); got != 143 || err != nil {
		t.Errorf("status %d, %v, want 143", got, err)
	}
}
