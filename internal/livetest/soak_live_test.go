// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A residue is what tracing may leave in the kernel.
type residue struct {
	programs, maps, links int
	// hooks is what is hooked, by the kernel's own lists.
	hooks string
	// events are those of tracefs, pins the files of bpffs.
	events, pins string
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
		*to = contents(t, "/sys/kernel/tracing/"+file)
	}
	pins, err := os.ReadDir("/sys/fs/bpf")
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range pins {
		r.pins += pin.Name() + "\n"
	}
	return r
}

// settles waits until nothing is left. The guest has no programs of its own.
func settles(t *testing.T, what string) {
	t.Helper()
	var now residue
	for end := time.Now().Add(livetest.Patience(20 * time.Second)); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		runtime.GC() // of maps that this process has had mapped, the collector ends the mapping
		if now = remains(t); now == (residue{}) {
			return
		}
	}
	t.Errorf("%s: left behind %+v", what, now)
}

func contents(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// slab returns how many KiB the kernel's own memory takes.
func slab(t *testing.T) (kib int) {
	t.Helper()
	for line := range strings.Lines(contents(t, "/proc/meminfo")) {
		if f := strings.Fields(line); f[0] == "SUnreclaim:" || f[0] == "VmallocUsed:" || f[0] == "Percpu:" {
			kib += atoi(t, f[1])
		}
	}
	return kib
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
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

// An outcome is what came of a fault.
type outcome struct {
	tried, survived int
	calls           string // made, shown and lost
	message         string // of ksnoop, or what else there is to say
}

// TestLiveSoakFaults does to ksnoop what happens on production hosts. Each line that it says is a
// row of the table in docs/safety.md. Nothing is left behind, and the kernel does not complain.
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
		try  func(t *testing.T) outcome
	}{
		{"killed at a random moment", func(t *testing.T) outcome { return soakKill(t, ways, 100) }},
		{"CPU off and on", soakCPUs},
		{"module unloaded while it is traced", soakModule},
		{"several at once", soakSeveral},
		{"little memory", func(t *testing.T) outcome { return soakMemory(t, ways) }},
		{"read-only file system", soakReadOnly},
		{"attached and detached", func(t *testing.T) outcome { return soakCycles(t, 200) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			begin := time.Now()
			o := fault.try(t)
			settles(t, fault.name)
			if bad := complaints(t); bad != "" {
				t.Errorf("the kernel says:\n%s", bad)
			}
			t.Logf("soak: %s | %d | %d | %s | %s (%v)", fault.name, o.tried, o.survived, o.calls, o.message, time.Since(begin).Round(time.Second))
		})
	}
}

// soakKill kills ksnoop while it starts, traces or ends. What it leaves in tracefs the next one
// removes.
func soakKill(t *testing.T, ways [][]string, times int) outcome {
	done := make(chan struct{})
	defer close(done)
	go func() { // some calls, and time for ksnoop
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				_, _ = os.ReadFile("/proc/self/stat")
			}
		}
	}()
	run := func(way []string) *exec.Cmd {
		return exec.Command("ksnoop", append([]string{"trace", "--for=100ms"}, way...)...)
	}
	lasts := make([]time.Duration, len(ways))
	for i, way := range ways {
		begin := time.Now()
		if out, err := run(way).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", way, err, out)
		}
		lasts[i] = time.Since(begin)
	}
	left := 0
	slower := 1.0 // by so much than when lasts was measured
	for i := range times {
		way, last := ways[i%len(ways)], lasts[i%len(ways)]
		if i%10 == 9 { // the machine may be busier by now, and all would be killed while they start
			begin := time.Now()
			if out, err := run(way).CombinedOutput(); err != nil {
				t.Fatalf("%q: %v\n%s", way, err, out)
			}
			slower = float64(time.Since(begin)) / float64(last)
		}
		cmd := run(way)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.Float64() * slower * float64(last)))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		if contents(t, "/sys/kernel/tracing/kprobe_events") != "" {
			left++
		}
	}
	_, errs, status := printedOnce(t, "ksnoop", "trace", "--for=1ms", "--attach=kprobe", "vfs_read(count == 3)")
	if status != 0 {
		t.Errorf("the next one: status %d: %s", status, errs)
	}
	return outcome{times, times, "-", fmt.Sprintf("events of tracefs were there after %d; the next ksnoop has removed them", left)}
}

// soakCycles attaches and detaches in one process, by all methods, calls and sessions in turn.
// It looks at what is held after each has been there three times, and at the end.
func soakCycles(t *testing.T, times int) outcome {
	view := kernel.OpenRunning()
	var trials []attach.Trial
	for _, trial := range attach.Trials() {
		if attach.Supported(trial.Method, nil) == nil {
			trials = append(trials, trial)
		}
	}
	own := func() int {
		t.Helper()
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	var memory, files int
	for i := range times {
		if err := trials[i%len(trials)].Run(t.Context(), view, runtime.GOARCH); err != nil {
			t.Fatalf("%d: %v: %v", i, trials[i%len(trials)], err)
		}
		if i == 3*len(trials)-1 { // the kernel's caches have what they need
			settles(t, "one cycle")
			memory, files = slab(t), own()
		}
	}
	settles(t, "all cycles")
	grown, opened := slab(t)-memory, own()-files
	const slack = 4 << 10 // KiB that the kernel's caches may grow by
	if grown > slack || opened != 0 {
		t.Errorf("the kernel's memory has grown by %d KiB, and %d more files are open", grown, opened)
	}
	return outcome{times, times, "-", fmt.Sprintf("afterwards no programs, maps, links and events; kernel memory %d KiB, later %+d; open files %d, later %+d", memory, grown, files, opened)}
}

// ended interrupts a run and returns what it has shown of a function and what was lost. Those
// are the calls made; what the kernel skips may be others, which nobody would have been shown.
func (r *running) ended(t *testing.T, function string, made int) (shown, lost int) {
	t.Helper()
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out, status := r.wait(t)
	shown, lost = records(out, "workload", function), sum(t, summary, r.errs.String())+sum(t, skipped, r.errs.String())
	if status != 0 || shown > made || shown+lost < made {
		t.Errorf("%q: status %d, %d shown and %d lost of %d\n%s", r.cmd.Args, status, shown, lost, made, r.errs.String())
	}
	return shown, lost
}

// soakCPUs takes a CPU away and gives it back while calls are traced.
func soakCPUs(t *testing.T) outcome {
	const made, size = 5000, 67
	online := func(on string) {
		if err := os.WriteFile("/sys/devices/system/cpu/cpu1/online", []byte(on), 0); err != nil {
			t.Fatal(err)
		}
	}
	var o outcome
	shown, lost := 0, 0
	methods := attachMethods()
	for _, m := range methods {
		r := startTrace(t, "--max-cpu=off", "--attach="+m, fmt.Sprintf("vfs_read(count == %d, return == count)", size))
		work := exec.Command("workload", "threads", "-threads", "4", "-count", fmt.Sprint(made/4), "-size", fmt.Sprint(size))
		if err := work.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- work.Wait() }()
		for turns, ended := 0, false; !ended || turns < 10; turns++ {
			online("0")
			time.Sleep(50 * time.Millisecond)
			online("1")
			o.tried++
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				ended = true
			default:
			}
		}
		s, l := r.ended(t, "vfs_read", made)
		shown, lost = shown+s, lost+l
	}
	o.survived = o.tried
	o.calls = fmt.Sprintf("%d made, %d shown, %d lost", made*len(methods), shown, lost)
	o.message = strings.Join(methods, ", ")
	return o
}

// soakModule takes a module away while its functions are traced and called, and brings it back.
func soakModule(t *testing.T) outcome {
	const module, device, function = "tun", "/dev/net/tun", "tun_chr_open"
	load := func() {
		file, err := os.Open("/lib/modules/" + module + ".ko")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := unix.FinitModule(int(file.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
			t.Fatal(err)
		}
	}
	opens := func(count int) {
		if out, err := exec.Command("workload", "open", "-file", device, "-count", fmt.Sprint(count)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	var o outcome
	var gone, kept []string
	shown, lost := 0, 0
	const made = 20
	for _, m := range attachMethods() {
		load()
		r := startTrace(t, "--attach="+m, function+"(return == 0)")
		opens(made)
		switch err := unix.DeleteModule(module, unix.O_NONBLOCK); {
		case err == nil:
			gone = append(gone, m)
			load()
			opens(made) // which nobody traces
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EBUSY):
			kept = append(kept, m)
		default:
			t.Error(m, err)
		}
		s, l := r.ended(t, function, made)
		shown, lost = shown+s, lost+l
		o.tried++
		if err := unix.DeleteModule(module, unix.O_NONBLOCK); err != nil { // nothing holds it any more
			t.Error(m, err)
		}
	}
	load()
	o.survived = o.tried
	o.calls = fmt.Sprintf("%d made, %d shown, %d lost", made*o.tried, shown, lost)
	o.message = fmt.Sprintf("it went (%s), or the kernel kept it (%s)", strings.Join(gone, ", "), strings.Join(kept, ", "))
	return o
}

// soakSeveral runs five ksnoops, and bpftrace where it is there: each sees all calls.
func soakSeveral(t *testing.T) outcome {
	const size, made = 71, 1000
	var runs []*running
	methods := attachMethods()
	for i := range 5 {
		runs = append(runs, startTrace(t, "--max-cpu=off", "--attach="+methods[i%len(methods)], fmt.Sprintf("vfs_read(count == %d)", size)))
	}
	var peer *running
	if _, err := exec.LookPath("bpftrace"); err == nil {
		peer = startBpftrace(t, fmt.Sprintf(`kprobe:vfs_read /arg2 == %d/ { @calls = count(); }`, size))
	}
	if out, err := exec.Command("workload", "read", "-count", fmt.Sprint(made), "-size", fmt.Sprint(size)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := outcome{tried: len(runs), message: "five ksnoops (testrun -with bpftrace takes that along)"}
	shown, lost := 0, 0
	for _, r := range runs {
		s, l := r.ended(t, "vfs_read", made)
		shown, lost = shown+s, lost+l
	}
	if peer != nil {
		if err := peer.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		out, status := peer.wait(t)
		if want := fmt.Sprintf("@calls: %d\n", made); status != 0 || !strings.Contains(out, want) {
			t.Errorf("bpftrace: status %d, want %q:\n%s", status, want, out)
		}
		o.tried++
		o.message = "five ksnoops and bpftrace, which counts all"
	}
	o.survived = o.tried
	o.calls = fmt.Sprintf("%d made, each ksnoop has shown %d and lost %d", made, shown/len(runs), lost)
	return o
}

// soakMemory lets ksnoop have little memory. It does its work or is killed, and never stays.
func soakMemory(t *testing.T, ways [][]string) outcome {
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
	o := outcome{calls: "-"}
	worked := map[string]int{}
	limits := []string{"16M", "32M", "64M", "128M", "256M"}
	for _, limit := range limits {
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
				if o.tried++; err == nil {
					o.survived++
					worked[limit]++
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
	for _, limit := range limits {
		o.message += fmt.Sprintf("%s %d, ", limit, worked[limit])
	}
	o.message += fmt.Sprintf("of %d each did their work; the others were refused or killed, and none stayed", len(ways))
	return o
}

// soakReadOnly records where nothing can be written.
func soakReadOnly(t *testing.T) outcome {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "ro", "none", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer func() { _ = exec.Command("umount", dir).Run() }()
	_, errs, status := printedOnce(t, "ksnoop", "trace", "--for=100ms", "--record", dir+"/calls", "vfs_read")
	if status == 0 || !strings.Contains(errs, "read-only file system") {
		t.Errorf("status %d: %s", status, errs)
	}
	return outcome{1, 1, "-", strings.ReplaceAll(strings.TrimSpace(errs), dir, "/mnt")}
}
