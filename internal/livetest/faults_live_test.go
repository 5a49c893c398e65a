// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// noneOpen fails if a session is open after the work has ended. Tasks are freed
// with a delay.
func noneOpen(t *testing.T) func(*attach.Tracer) {
	return func(tracer *attach.Tracer) {
		var n uint32
		for range 100 {
			var err error
			if n, err = tracer.OpenSessions(); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("%d sessions are open after all", n)
	}
}

// TestLiveStress opens 10,240 sessions on 64 threads with a ring buffer that
// holds few of them: what does not come must have been counted, and what comes
// must be whole. A kernel that preempts programs of trampolines hides calls from
// them, which it counts; kprobes it does not preempt.
func TestLiveStress(t *testing.T) {
	guest.Require(t)
	const threads, each = 64, 160
	ways := 0
	for _, m := range anyMethod {
		for _, traced := range []bool{false, true} {
			if ways++; !livetest.Mine(t, ways) {
				continue
			}
			t.Run(fmt.Sprintf("%s/traced=%t", m, traced), func(t *testing.T) {
				r := sessionRun{entry: []string{"vfs_read"}, allow: []string{"read_zero", "rw_verify_area"}, method: m, args: true, during: noneOpen(t),
					report:   bpf.SessionSettings{Success: true, Traced: traced},
					settings: trace.Settings{RingSize: 64 << 10, Filter: bpf.Filter{Comms: []string{"workload"}}}}
				out, counts := r.sessions(t, func() { workload(t, "threads", "-threads", fmt.Sprint(threads), "-count", fmt.Sprint(each)) })
				hidden := uint64(0)
				if m == layout.MethodFentry {
					for _, c := range []bpf.Counter{bpf.Missed, bpf.LostReturn, bpf.LostInner} {
						hidden += counts[c]
						counts[c] = 0
					}
				}
				whole := uint64(0)
				for _, s := range out {
					if !strings.HasPrefix(s, "workload/workload vfs_read=1 file:") {
						continue // the runtime's own reads
					}
					if !traced || strings.HasSuffix(s, " 0>vfs_read 1=rw_verify_area 1=read_zero 0<vfs_read") {
						whole++
					} else if hidden == 0 {
						t.Fatalf("a session that is not whole: %s", s)
					}
				}
				t.Logf("%d sessions, %d of them the threads' and whole, %d calls hidden, %v", len(out), whole, hidden, counts)
				if n := uint64(len(out)) + counts[bpf.LostRingbuf]; n+hidden < threads*each || n > threads*each+200 {
					t.Errorf("%d sessions and %d losses are %d, with %d calls hidden; the workload has made %d", len(out), counts[bpf.LostRingbuf], n, hidden, threads*each)
				}
				if counts[bpf.LostRingbuf] == 0 || whole == 0 {
					t.Errorf("%d lost, %d whole: the test does not test", counts[bpf.LostRingbuf], whole)
				}
				counts[bpf.LostRingbuf] = 0
				if losses(counts) != [bpf.Counters]uint64{} {
					t.Errorf("other losses: %v", counts)
				}
			})
		}
	}
}

// TestLiveFaults checks for faults that others have had.
func TestLiveFaults(t *testing.T) {
	guest.Require(t)
	none := [bpf.Counters]uint64{}
	for _, m := range anyMethod {
		// A function that does not return must not leave its session open.
		t.Run("exit_group/"+m.String(), func(t *testing.T) {
			r := sessionRun{entry: []string{sys + "exit_group"}, allow: []string{"do_exit"}, method: m, during: noneOpen(t),
				report: bpf.SessionSettings{Success: true}, settings: trace.Settings{Filter: bpf.Filter{Comms: []string{"workload"}}}}
			out, counts := r.sessions(t, func() { workload(t, "exit-group") })
			if len(out) != 1 || !strings.HasSuffix(out[0], " state 3 "+sys+"exit_group do_exit") {
				t.Errorf("sessions %q, want one that ends with its thread", out)
			}
			if counts != none {
				t.Errorf("losses %v", counts)
			}
		})
		// An exec inside changes the name that the filter has asked for.
		t.Run("exec/"+m.String(), func(t *testing.T) {
			r := sessionRun{entry: []string{sys + "execve"}, method: m, during: noneOpen(t),
				report: bpf.SessionSettings{Success: true}, settings: trace.Settings{Filter: bpf.Filter{Comms: []string{"workload"}}}}
			out, _ := r.sessions(t, func() { workload(t, "exec") })
			if len(out) != 1 || !strings.HasPrefix(out[0], "workload/") {
				t.Errorf("sessions %q, want one of workload", out)
			}
		})
		// Neither the tracer's own calls nor those of its programs are traced.
		t.Run("self/"+m.String(), func(t *testing.T) {
			self, err := os.ReadFile("/proc/self/comm")
			if err != nil {
				t.Fatal(err)
			}
			r := sessionRun{entry: []string{"vfs_write"}, method: m, report: bpf.SessionSettings{Success: true}, during: noneOpen(t)}
			out, _ := r.sessions(t, func() {
				for range 100 {
					if err := os.WriteFile("/dev/null", []byte("x"), 0); err != nil {
						t.Fatal(err)
					}
				}
				workload(t, "read", "-size", "22") // which says that it has
			})
			foreign := 0
			for _, s := range out {
				if strings.HasPrefix(s, strings.TrimSpace(string(self))+"/") {
					t.Errorf("own session: %s", s)
				} else if strings.HasPrefix(s, "workload/") {
					foreign++
				}
			}
			if foreign == 0 {
				t.Errorf("no session of the workload: %q", out)
			}
		})
		// A success value is no error, whatever its number.
		t.Run("classes/"+m.String(), func(t *testing.T) {
			r := sessionRun{entry: []string{"vfs_read"}, method: m, report: bpf.SessionSettings{Success: false, Errors: errorSet(22)},
				settings: trace.Settings{Filter: bpf.Filter{Comms: []string{"workload"}}}}
			out, counts := r.sessions(t, func() { workload(t, "read", "-size", "22") })
			if len(out) != 0 || counts[bpf.LeftFine] == 0 {
				t.Errorf("sessions %q, %v", out, counts)
			}
		})
	}
}

// TestLiveInterrupts checks that what an interrupt calls on the back of a
// thread is not in its session. How many ticks there are is up to the guest.
func TestLiveInterrupts(t *testing.T) {
	guest.Require(t)
	r := sessionRun{entry: []string{sys + "read", "update_process_times"}, allow: []string{"vfs_read"}, method: layout.MethodKprobe,
		report:   bpf.SessionSettings{Success: true, Traced: true},
		settings: trace.Settings{RingSize: 64 << 20, Filter: bpf.Filter{Comms: []string{"workload"}}}}
	out, _ := r.sessions(t, func() { workload(t, "loop") })
	own, threads := 0, 0
	for _, s := range out {
		switch entry := strings.TrimPrefix(s, "workload/workload "); {
		case strings.HasPrefix(entry, sys+"read"):
			threads++
			if strings.Contains(s[strings.LastIndex(s, "|"):], "update_process_times") {
				t.Errorf("the tick in a session of a thread: %s", s)
			}
		case strings.HasPrefix(entry, "update_process_times"):
			own++
		}
	}
	t.Logf("%d sessions of threads, %d of interrupts", threads, own)
	if threads == 0 || own == 0 {
		t.Error("the test does not test")
	}
}

// TestLiveHung checks that a session which does not end is shown, with where
// its thread is.
func TestLiveHung(t *testing.T) {
	guest.Require(t)
	read := "anon_pipe_read" // Linux 6.15 has another one for pipes with a name
	if _, ok := kernel.Open(os.DirFS("/")).SymbolNamed(read, ""); !ok {
		read = "pipe_read"
	}
	r := sessionRun{entry: []string{"vfs_read"}, allow: []string{read}, method: layout.MethodKprobe,
		report:   bpf.SessionSettings{Hung: uint64(300 * time.Millisecond)},
		settings: trace.Settings{Filter: bpf.Filter{Comms: []string{"workload"}}}}
	r.during = func(tracer *attach.Tracer) {
		for range 2 {
			if err := tracer.ReportHung(); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, counts := r.sessions(t, func() {
		block := exec.Command("workload", "block")
		if err := block.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(block.Process.Kill(), ignoreExit(block.Wait())); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(livetest.Patience(time.Second))
	})
	if len(out) != 1 || !strings.HasPrefix(out[0], "workload/workload state 2 vfs_read "+read+" |") || !strings.Contains(out[0], "| "+read+"+") {
		t.Errorf("sessions %q, want one that hangs in %s", out, read)
	}
	if losses(counts) != [bpf.Counters]uint64{} {
		t.Errorf("losses %v", counts)
	}
}

// ignoreExit leaves out the error of a process that has ended otherwise than
// well, as one does that is killed.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}
