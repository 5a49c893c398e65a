// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A residue is what tracing may leave in the kernel.
type residue struct {
	programs, maps, links int
	// hooks is what is hooked, by the kernel's own lists.
	hooks string
	// events are those of tracefs.
	events string
}

// remains returns what is there. Programs and maps are freed with a delay.
func remains(t *testing.T) (r residue) {
	t.Helper()
	count := func(next func(uint32) (uint32, error)) (n int) {
		for id := uint32(0); ; n++ {
			after, err := next(id)
			if err != nil {
				return n
			}
			id = after
		}
	}
	r.programs = count(func(id uint32) (uint32, error) {
		next, err := ebpf.ProgramGetNextID(ebpf.ProgramID(id))
		return uint32(next), err
	})
	r.maps = count(func(id uint32) (uint32, error) {
		next, err := ebpf.MapGetNextID(ebpf.MapID(id))
		return uint32(next), err
	})
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		r.links++
	}
	for file, to := range map[string]*string{"enabled_functions": &r.hooks, "kprobe_events": &r.events} {
		text, err := os.ReadFile("/sys/kernel/tracing/" + file)
		if err != nil {
			t.Fatal(err)
		}
		*to = string(text)
	}
	return r
}

// settles waits until nothing is left. The guest has no programs of its own.
func settles(t *testing.T, what string) {
	t.Helper()
	var now residue
	for end := time.Now().Add(livetest.Patience(time.Minute)); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if now = remains(t); now == (residue{}) {
			return
		}
	}
	t.Errorf("%s: left behind %+v", what, now)
}

// slab returns how many KiB the kernel's own memory takes.
func slab(t *testing.T) (kib int) {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "SUnreclaim:" || f[0] == "VmallocUsed:" || f[0] == "Percpu:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			kib += n
		}
	}
	return kib
}

// soaked are the ways to trace that are taken in turn.
func soaked() (ways [][]string) {
	for _, m := range attachMethods() {
		ways = append(ways, []string{"--attach=" + m, "vfs_read(*file, return)", "vfs_write(count > 3, $duration)"})
	}
	return append(ways, []string{"-e", "vfs_read", "-a", "*_read", "-S", "-T", "-A"}, []string{"--stack", "--ustack", "vfs_read"})
}

// complaints are what of the kernel's log says that something went wrong.
func complaints(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `dmesg -c | grep -E 'BUG|WARNING|Oops|stall|hung task|lockup|Call Trace'; true`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestLiveSoakFaults does to ksnoop what happens on production hosts. Each line that it says is a
// fault: how often it was tried, and what came of it. Nothing is left behind, and the kernel does not complain.
func TestLiveSoakFaults(t *testing.T) {
	guest.Require(t)
	if os.Getenv("KSNOOP_SOAK") == "" {
		t.Skip("takes many minutes: run `make soak`")
	}
	complaints(t)
	ways := soaked()
	settles(t, "what was tried to find out the methods")
	for _, fault := range []struct {
		name string
		try  func(t *testing.T) string
	}{
		{"killed at a random moment", func(t *testing.T) string { return soakKill(t, ways, 100) }},
		{"attached and detached", func(t *testing.T) string { return soakCycles(t, ways, 200) }},
		{"CPU off and on", soakCPUs},
		{"five at once", soakFive},
		{"little memory", func(t *testing.T) string { return soakMemory(t, ways) }},
		{"read-only file system", soakReadOnly},
	} {
		t.Run(fault.name, func(t *testing.T) {
			begin := time.Now()
			said := fault.try(t)
			settles(t, fault.name)
			if bad := complaints(t); bad != "" {
				t.Errorf("the kernel says:\n%s", bad)
			}
			t.Logf("soak: %s: %s (%v)", fault.name, said, time.Since(begin).Round(time.Second))
		})
	}
}

// soakKill kills ksnoop. What events of tracefs it leaves the next one removes.
func soakKill(t *testing.T, ways [][]string, times int) string {
	defer flood(t, 61)()
	for i := range times {
		cmd := exec.Command("ksnoop", append([]string{"trace"}, ways[i%len(ways)]...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(livetest.Patience(time.Duration(rand.IntN(4000)) * time.Millisecond))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
	}
	out, err := exec.Command("ksnoop", "doctor", "--clean").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return fmt.Sprintf("%d times: nothing left", times)
}

// soakCycles looks at what the kernel holds after each tenth.
func soakCycles(t *testing.T, ways [][]string, times int) string {
	var first, last int
	for i := range times {
		out, errs, status := printedOnce(t, "ksnoop", append([]string{"trace", "--for=1ms"}, ways[i%len(ways)]...)...)
		if status != 0 {
			t.Fatalf("%q: status %d\n%s%s", ways[i%len(ways)], status, out, errs)
		}
		if i == len(ways)-1 { // all have been there once
			settles(t, "one cycle")
			first = slab(t)
		}
	}
	settles(t, "all cycles")
	last = slab(t)
	const slack = 4 << 10 // what caches of the kernel may grow by
	if last > first+slack {
		t.Errorf("the kernel's memory has grown from %d to %d KiB", first, last)
	}
	return fmt.Sprintf("%d times: programs, maps, links the same; kernel memory %d KiB, then %d KiB", times, first, last)
}

// soakCPUs takes a CPU away and gives it back while calls are traced: those printed and those lost
// are those made.
func soakCPUs(t *testing.T) string {
	const made, size = 20_000, 67
	online := func(on string) {
		if err := os.WriteFile("/sys/devices/system/cpu/cpu1/online", []byte(on), 0); err != nil {
			t.Fatal(err)
		}
	}
	r := startTrace(t, "--max-cpu=off", fmt.Sprintf("vfs_read(count == %d)", size))
	work := exec.Command("workload", "threads", "-threads", "4", "-count", fmt.Sprint(made/4), "-size", fmt.Sprint(size))
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- work.Wait() }()
	turns := 0
	for ended := false; !ended || turns < 10; turns++ {
		online("0")
		time.Sleep(50 * time.Millisecond)
		online("1")
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			ended = true
		default:
		}
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out, status := r.wait(t)
	shown, lost := records(out, "workload", "vfs_read"), sum(t, summary, r.errs.String())+sum(t, skipped, r.errs.String())
	// What the kernel skips may be calls that nobody would have been shown.
	if shown > made || shown+lost < made || status != 0 {
		t.Errorf("status %d, %d shown and %d lost of %d\n%s", status, shown, lost, made, r.errs.String())
	}
	return fmt.Sprintf("%d times: %d calls made, %d shown, %d lost", turns, made, shown, lost)
}

// soakFive runs five ksnoops: each sees all calls.
func soakFive(t *testing.T) string {
	const size, made = 71, 1000
	var runs []*running
	for i := range 5 {
		ways := attachMethods()
		runs = append(runs, startTrace(t, "--max-cpu=off", "--attach="+ways[i%len(ways)], fmt.Sprintf("vfs_read(count == %d)", size)))
	}
	if out, err := exec.Command("workload", "read", "-count", fmt.Sprint(made), "-size", fmt.Sprint(size)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range runs {
		if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		out, status := r.wait(t)
		lost := sum(t, summary, r.errs.String()) + sum(t, skipped, r.errs.String())
		if shown := records(out, "workload", "vfs_read"); status != 0 || shown > made || shown+lost < made {
			t.Errorf("%q: status %d, %d shown and %d lost of %d", r.cmd.Args, status, shown, lost, made)
		}
	}
	return fmt.Sprintf("5 at once, %d calls each", made)
}

// soakMemory lets ksnoop have little memory. It does its work or is killed, and never stays.
func soakMemory(t *testing.T, ways [][]string) string {
	group := filepath.Join(t.TempDir(), "cgroup")
	if err := os.Mkdir(group, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "cgroup2", "none", group).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer func() { _ = exec.Command("umount", group).Run() }()
	if err := os.WriteFile(group+"/cgroup.subtree_control", []byte("+memory"), 0); err != nil {
		t.Fatal(err)
	}
	worked, tried := 0, 0
	for _, limit := range []string{"8M", "16M", "32M", "64M", "128M", "256M"} {
		for _, way := range ways {
			dir := filepath.Join(group, "small")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/memory.max", []byte(limit), 0); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd := exec.Command("sh", append([]string{"-c", `echo $$ > "$0"/cgroup.procs; exec ksnoop trace --for=100ms "$@"`, dir}, way...)...)
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				if tried++; err == nil {
					worked++
				} else if limit == "256M" {
					t.Errorf("%s, %q: %v: %s", limit, way, err, out.String())
				}
			case <-time.After(livetest.Patience(2 * time.Minute)):
				_ = cmd.Process.Kill()
				t.Errorf("%s, %q: it does not end: %s", limit, way, out.String())
				<-ended
			}
			for range 100 { // what was killed takes a moment
				if os.Remove(dir) == nil {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
	for line := range strings.Lines(complaints(t)) {
		if !strings.Contains(line, "Call Trace") { // which is told of each process that is killed for its memory
			t.Error(line)
		}
	}
	return fmt.Sprintf("%d times, from 8 MiB to 256 MiB: %d did their work, %d were refused or killed, none stayed", tried, worked, tried-worked)
}

// soakReadOnly records where nothing can be written.
func soakReadOnly(t *testing.T) string {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "ro", "none", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer func() { _ = exec.Command("umount", dir).Run() }()
	_, errs, status := printedOnce(t, "ksnoop", "trace", "--for=100ms", "--record", dir+"/calls", "vfs_read")
	if status == 0 || !strings.Contains(errs, "read-only file system") {
		t.Errorf("status %d: %s", status, errs)
	}
	return "refused: " + strings.TrimSpace(errs)
}
