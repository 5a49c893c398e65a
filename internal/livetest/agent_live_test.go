// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// An agentRun is an agent that answers at a socket.
type agentRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	socket string
	stderr bytes.Buffer // complete when it has ended
	client http.Client
}

func startAgent(t *testing.T, config, socket string) *agentRun {
	a := &agentRun{t: t, cmd: exec.Command("ksnoop", "agent", "--config", config), socket: socket}
	a.cmd.Stderr = io.MultiWriter(os.Stderr, &a.stderr)
	a.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", a.socket)
	}}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.cmd.Process.Kill() })
	return a
}

// reload has it read its file again.
func (a *agentRun) reload() {
	a.t.Helper()
	if err := a.cmd.Process.Signal(unix.SIGHUP); err != nil {
		a.t.Fatal(err)
	}
}

// answersAt says where it is to be asked from now on.
func (a *agentRun) answersAt(socket string) {
	a.client.CloseIdleConnections()
	a.socket = socket
}

// metric returns what /metrics has in a line that begins with text, -1 if it has none.
func (a *agentRun) metric(text string) int {
	r, err := a.client.Get("http://agent/metrics")
	if err != nil {
		return -1
	}
	defer r.Body.Close()
	page, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if value, ok := strings.CutPrefix(line, text+" "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				a.t.Fatal(err)
			}
			return n
		}
	}
	return -1
}

// until waits for a metric to have a value.
func (a *agentRun) until(text string, want int) {
	a.t.Helper()
	begin := time.Now()
	for a.metric(text) != want {
		if time.Since(begin) > livetest.Patience(30*time.Second) {
			a.t.Fatalf("%s is %d, want %d", text, a.metric(text), want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// childOf returns the PID of the process that has a word in its command line.
func childOf(t *testing.T, agent int, word string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		stat, err := os.ReadFile(file)
		line, err2 := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		_, rest, ok := bytes.Cut(stat, []byte(") "))
		if err != nil || err2 != nil || !ok || !bytes.Contains(line, []byte(word)) {
			continue // it has ended
		}
		if parent := bytes.Fields(rest)[1]; string(parent) == strconv.Itoa(agent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("no child of %d has %q in its command line", agent, word)
	return 0
}

// TestLiveAgent: one request goes on without losing a call while others are added, removed, changed, refused a change, or
// killed and begun again. The agent answers where the new file says.
func TestLiveAgent(t *testing.T) {
	guest.Require(t)
	dir := t.TempDir()
	config, first, second := filepath.Join(dir, "agent.yaml"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	write := func(socket string, sizes map[string]string) {
		text := fmt.Sprintf("listen: unix:%s\ndefaults: {format: json, force: true, stats: true}\nrequests:\n", socket)
		for name, size := range sizes {
			text += fmt.Sprintf("  %s: {specs: ['vfs_read(count == %s, return == %s)'], output: %s/%s}\n", name, size, size, dir, name)
		}
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	running := func(request string) string {
		return fmt.Sprintf(`ksnoop_request_state{request=%q,state="running"}`, request)
	}
	records := func(request string) string { return fmt.Sprintf("ksnoop_request_records_total{request=%q}", request) }
	read := func(size string) { workload(t, "read", "-count", "100", "-size", size) }

	write(first, map[string]string{"same": "37", "other": "41", "gone": "41"})
	a := startAgent(t, config, first)
	for _, request := range []string{"same", "other", "gone"} {
		a.until(running(request), 1)
	}
	same := childOf(t, a.cmd.Process.Pid, dir+"/same")
	read("37")
	read("41")

	write(second, map[string]string{"same": "37", "other": "43", "new": "43"})
	a.reload()
	read("37") // while the others are stopped and begun
	a.answersAt(second)
	a.until(`ksnoop_agent_reloads_total{result="done"}`, 1)
	if _, err := net.Dial("unix", first); err == nil {
		t.Error("it still answers where the old file said")
	}
	a.until(running("other"), 1)
	a.until(running("new"), 1)
	if n := a.metric(records("gone")); n != -1 {
		t.Errorf("the request that is not in the file has %d records", n)
	}
	read("41") // nobody asks for these any more
	read("43")

	write(second, map[string]string{"same": "37", "other": ""}) // a value is missing
	a.reload()
	a.until(`ksnoop_agent_reloads_total{result="refused"}`, 1)

	if err := unix.Kill(childOf(t, a.cmd.Process.Pid, dir+"/new"), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	read("37")
	a.until(`ksnoop_request_restarts_total{request="new"}`, 1)
	a.until(running("new"), 1)
	a.until(records("other"), 200)
	a.until(records("same"), 300)
	if now := childOf(t, a.cmd.Process.Pid, dir+"/same"); now != same {
		t.Errorf("the request that is the same was process %d and is %d", same, now)
	}

	begin := time.Now()
	if err := a.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > livetest.Patience(4*time.Second) {
		t.Errorf("it ended after %v", took)
	}
	text, err := os.ReadFile(dir + "/same")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `"kind":"call"`); n != 300 {
		t.Errorf("%d calls were written, and 300 made", n)
	}
	for _, want := range []string{"begun: new; begun again: other; ended: gone; going on: same", "not reloaded: ", "new: failed: signal: killed; it is begun again in 1s", "same: 300 records printed or written"} {
		if !strings.Contains(a.stderr.String(), want) {
			t.Errorf("the agent does not say %q", want)
		}
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", same)); err == nil {
		t.Error("a process is left")
	}
}
