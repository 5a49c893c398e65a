// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets this program be the process that Hold starts, one that calls Hold, one that starts a command as a user, a becomer and an executor.
func TestMain(m *testing.M) {
	switch {
	case IsHolder(os.Args):
		BeHolder(os.Args)
		return
	case IsBecomer(os.Args):
		os.Exit(BeBecomer(os.Args))
	case IsExecutor(os.Args):
		os.Exit(BeExecutor(os.Args))
	case os.Getenv("KSNOOP_TEST_HOLD") != "":
		file := os.NewFile(3, "held")
		pid, err := Hold([]*os.File{file})
		file.Close()
		fmt.Println(pid, err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case os.Getenv("KSNOOP_TEST_AS_USER") != "":
		c, err := Start(&User{"root", syscall.Credential{}}, []string{"ls", "-l", "/proc/self/fd"})
		if err != nil {
			fmt.Println(err)
			return
		}
		c.Continue()
		<-c.Done()
		return
	}
	os.Exit(m.Run())
}

// TestHold: a file stays open until the process that had it held has ended, and no longer.
func TestHold(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), "KSNOOP_TEST_HOLD=1"), []*os.File{write}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, scanned := fmt.Sscanf(line, "%d <nil>\n", &pid); scanned != nil || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || string(text) != fmt.Sprintf("%s\x00%d\x00", holder, cmd.Process.Pid) {
		t.Errorf("it is called %q, %v", text, err)
	}
	if session, err := unix.Getsid(pid); err != nil || session != pid {
		t.Errorf("its session is %d, %v: signals of the terminal reach it", session, err)
	}
	open := func(wait time.Duration) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(read.Fd())}}, int(wait.Milliseconds()))
		return n == 0 && err == nil
	}
	if !open(50 * time.Millisecond) {
		t.Error("nobody holds the file")
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if open(10 * time.Second) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Error("it is still held after the end")
	}
}
