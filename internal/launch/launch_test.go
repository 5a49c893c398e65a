// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestStatus(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -KILL $$": 137, "kill -TERM $$": 143} {
		c, err := Start([]string{"sh", "-c", script})
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
	c, err := Start([]string{"touch", file})
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

func TestMissing(t *testing.T) {
	if _, err := Start([]string{"no-such-command-anywhere"}); err == nil || !strings.Contains(err.Error(), "no-such-command-anywhere") {
		t.Errorf("error %v does not name the command", err)
	}
	if _, err := Start([]string{"/dev/null"}); err == nil {
		t.Error("a file that cannot be run was started")
	}
}

func TestKill(t *testing.T) {
	c, err := Start([]string{"sleep", "1000"})
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
	c, err := Start([]string{"sleep", "1000"})
	if err != nil {
		t.Fatal(err)
	}
	c.Continue()
	time.Sleep(50 * time.Millisecond)
	if err := c.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got, err := Status(<-c.Done()); got != 143 || err != nil {
		t.Errorf("status %d, %v, want 143", got, err)
	}
}
