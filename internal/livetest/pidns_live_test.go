// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A container is a PID namespace, and a mount namespace with a /proc for it. The
// host's /proc is at hostProc there.
type container struct{ init string }

const hostProc = "/tmp/hostproc"

func startContainer(t *testing.T) container {
	t.Helper()
	cmd := exec.Command("unshare", "-p", "-m", "-f", "sh", "-c", "mkdir -p "+hostProc+" && mount --bind /proc "+hostProc+
		" && read host rest < /proc/self/stat && mount -t proc proc /proc && echo $host && exec sleep 1000")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	init, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c := container{strings.TrimSpace(init)}
	t.Cleanup(func() {
		pid, _ := strconv.Atoi(c.init)
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
	})
	return c
}

// command runs in the container, without its mounts if it is to see the host's /proc.
func (c container) command(mounts bool, args ...string) *exec.Cmd {
	options := []string{"-t", c.init, "-p"}
	if mounts {
		options = append(options, "-m")
	}
	return exec.Command("nsenter", append(append(options, "--"), args...)...)
}

// interruptChild sends SIGINT to what nsenter has started.
func interruptChild(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatalf("children of nsenter: %q", text)
	}
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

// A contained is a process in a container that waits until it is told to read.
type contained struct {
	held
	pid, host string // what it is called in there, and by the host
}

func (c container) hold(t *testing.T, script string) contained {
	t.Helper()
	p := contained{held: held{cmd: c.command(true, "sh", "-c", "read host rest < "+hostProc+"/self/stat; echo $$ $host; read go; "+script)}}
	var err error
	if p.start, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(out, &p.pid, &p.host); err != nil {
		t.Fatal(err)
	}
	return p
}

// idsOf matches what is shown of the PIDs of calls of vfs_read, and of a session.
var idsOf = regexp.MustCompile(`(?m)^ *(?:workload|exe) +(\d+(?: \(\w+ \d+\))?) +\d+ +[\d.]+ vfs_read\(|TID/PID (\d+/\d+(?: \(\w+ \d+/\d+\))?)`)

func shownIDs(out string) (ids []string) {
	for _, m := range idsOf.FindAllStringSubmatch(out, -1) {
		ids = append(ids, m[1]+m[2])
	}
	slices.Sort(ids)
	return ids
}

// TestLivePIDNamespace: in a container ksnoop takes and shows the PIDs that processes
// have there, whether /proc has them or those of the host, and shows the host's as
// well; on the host, it shows those of the container besides.
func TestLivePIDNamespace(t *testing.T) {
	guest.Require(t)
	c := startContainer(t)
	one, two := c.hold(t, "exec workload read -count 1 -size 37"), c.hold(t, "exec workload read -count 2 -size 37")
	three := hold(t, "exec workload read -count 3 -size 37", nil)
	parent := c.hold(t, "workload read -count 1 -size 41; true")
	hostsThree := strconv.Itoa(three.cmd.Process.Pid)
	in := func(p contained) string { return p.pid + " (host " + p.host + ")" }
	twice := func(s string) []string { return []string{s, s} }
	outside := slices.Repeat([]string{"0 (host " + hostsThree + ")"}, 3)
	const spec = "vfs_read(count == 37)"
	traces := []struct {
		args   []string
		host   bool // run by the host
		stale  bool // with the host's /proc
		want   []string
		ends   bool // by itself
		output *running
	}{
		{args: []string{"-p", one.pid, spec}, want: []string{in(one)}, ends: true},
		{args: []string{"-p", two.pid, spec}, stale: true, want: twice(in(two)), ends: true},
		{args: []string{"-t", two.pid, spec}, want: twice(in(two)), ends: true},
		{args: []string{"-P", one.pid, spec}, stale: true, want: append(twice(in(two)), outside...)},
		{args: []string{"vfs_read(count == 37, $pid == " + two.pid + ", $tid == " + two.pid + ")"}, want: twice(in(two))},
		{args: []string{"-p", one.pid, "-e", spec, "-S", "-s", "none", "--stats"}, want: []string{one.pid + "/" + one.pid + " (host " + one.host + "/" + one.host + ")"}, ends: true},
		{args: []string{"--follow", "-p", parent.pid, "vfs_read(count == 41)"}, want: []string{"child"}, ends: true},
		{args: []string{spec}, host: true, want: append([]string{hostsThree, hostsThree, hostsThree, one.host + " (own " + one.pid + ")"}, twice(two.host+" (own "+two.pid+")")...)},
	}
	for i := range traces {
		trace := &traces[i]
		cmd := exec.Command("ksnoop", trace.args...)
		if !trace.host {
			cmd = c.command(!trace.stale, cmd.Args...)
		}
		if slices.Contains(trace.args, "-e") {
			trace.output = startSessionTracer(t, cmd)
		} else {
			trace.output = startTracer(t, cmd)
		}
	}
	for _, h := range []*held{&one.held, &two.held, three, &parent.held} {
		h.run(t)
	}
	for _, trace := range traces {
		switch {
		case trace.ends:
		case trace.host:
			if err := trace.output.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		default:
			interruptChild(t, trace.output.cmd)
		}
		out, status := trace.output.wait(t)
		got := shownIDs(out)
		if slices.Equal(trace.want, []string{"child"}) && len(got) == 1 && !strings.HasPrefix(got[0], "0 ") && strings.Contains(got[0], " (host ") {
			got = trace.want // whose number only the shell knows
		}
		slices.Sort(trace.want)
		if !slices.Equal(got, trace.want) || status != 0 {
			t.Errorf("%q: status %d, PIDs %q, want %q:\n%s", trace.args, status, got, trace.want, out)
		}
	}
}

// TestLivePIDNamespaceCommand: all calls of a command are traced in a container, the
// functions of its stack have names, and ksnoop does not trace itself.
func TestLivePIDNamespaceCommand(t *testing.T) {
	guest.Require(t)
	c := startContainer(t)
	for _, mounts := range []bool{true, false} {
		var out, errs strings.Builder
		cmd := c.command(mounts, "ksnoop", "trace", "--ustack", "vfs_read(count == 1)", "--", "workload", "pipe-wait", "-for", "100ms", "-count", "3")
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Errorf("own /proc %v: %v", mounts, err)
		}
		if n := len(shownIDs(out.String())); n != 3 || !strings.Contains(out.String(), "main.main+") || strings.Contains(out.String(), "too late") {
			t.Errorf("own /proc %v: %d records of 3, or no names:\n%s%s", mounts, n, out.String(), errs.String())
		}
		trace := startTracer(t, c.command(mounts, "ksnoop", "vfs_write"))
		if err := exec.Command("workload", "fork", "-children", "2", "read").Run(); err != nil {
			t.Fatal(err)
		}
		interruptChild(t, trace.cmd)
		written, _ := trace.wait(t)
		block := regexp.MustCompile(`(?m)^ *(ksnoop|exe) .* vfs_write\($`)
		for _, m := range block.FindAllStringSubmatch(written, -1) {
			if m[1] == "ksnoop" {
				t.Fatalf("own /proc %v: ksnoop traces itself:\n%.2000s", mounts, written)
			}
		}
		if !block.MatchString(written) {
			t.Errorf("own /proc %v: no calls of others:\n%s", mounts, written)
		}
	}
}

// TestLivePIDNamespaceWhy: the page of why has the numbers of a process in ksnoop's PID namespace and on the host.
func TestLivePIDNamespaceWhy(t *testing.T) {
	guest.Require(t)
	cmd := startContainer(t).command(true, "ksnoop", "why", "-s", "none", "--", "sh", "-c", "read host rest < "+hostProc+"/self/stat; echo $$ $host; exec mount -t tmpfs -o size=foo none /tmp")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	numbers, page, _ := strings.Cut(out.String(), "\n")
	pid, host, _ := strings.Cut(numbers, " ")
	want := fmt.Sprintf("    by mount[%s (host %s)], in a command with exit status 255; chosen since mount wrote ", pid, host)
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 255 || pid == host || !strings.Contains(page, want) || !strings.Contains(page, "refused in shmem_") {
		t.Errorf("%v: %s%swant %s", err, out.String(), errs.String(), want)
	}
}
