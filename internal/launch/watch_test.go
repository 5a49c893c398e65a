// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

func TestWatch(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, stop, err := Watch(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Error("a process that runs was said to have ended")
	case <-time.After(20 * time.Millisecond):
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(livetest.Patience(10 * time.Second)):
		t.Error("the end of the process was not seen")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
	if _, _, err := Watch(cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), "there is no process") {
		t.Errorf("error %v for a process that has ended", err)
	}
}

func TestWatchStop(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	ended, stop, err := Watch(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
		t.Error("giving up was taken for the end")
	default:
	}
}
