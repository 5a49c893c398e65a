// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/agent"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
)

// supervisedFlag is the option that an agent starts trace with. It is in no help.
const supervisedFlag = "supervised"

// reportEvery is how old what /metrics of an agent says may be.
const reportEvery = time.Second

// reports are what a run says of itself to the agent that has started it. A nil reports says nothing.
type reports struct {
	to      *os.File
	records atomic.Uint64

	mu  sync.Mutex
	now agent.Report
	end func() // what begin returns
}

// openReports opens the descriptor that an agent hands down. When the agent is gone, that ends this run as SIGTERM does.
func openReports() (*reports, error) {
	kind, err := unix.GetsockoptInt(agent.Descriptor, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		return nil, usagef("--%s is for ksnoop agent, which opens descriptor %d", supervisedFlag, agent.Descriptor)
	}
	unix.CloseOnExec(agent.Descriptor)
	_ = os.WriteFile("/proc/self/comm", []byte("ksnoop"), 0) // it was started as /proc/self/exe, and is called exe
	r := &reports{to: os.NewFile(agent.Descriptor, "reports")}
	go func() {
		if _, err := io.Copy(io.Discard, r.to); !errors.Is(err, os.ErrClosed) {
			_ = unix.Kill(os.Getpid(), unix.SIGTERM) // nothing keeps a process from signalling itself
		}
	}()
	return r, nil
}

// count counts records, but not the marks of losses.
func (r *reports) count(records iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	if r == nil {
		return records
	}
	return func(yield func([]byte, error) bool) {
		for raw, err := range records {
			if err == nil && !bpf.IsLost(raw) {
				r.records.Add(1)
			}
			if !yield(raw, err) {
				return
			}
		}
	}
}

// begin reports from time to time what counters returns, until last or the function that it returns is called.
func (r *reports) begin(counters func() ([bpf.Counters]uint64, error), out *printout) (end func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	r.now.Attached = true
	r.mu.Unlock()
	r.send(out)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if lost, err := counters(); err == nil { // else the end of the run says why
				r.lose(&event.Losses{Lost: lost})
			}
			r.send(out)
		}
	}()
	r.end = sync.OnceFunc(func() {
		close(over)
		<-ended
	})
	return r.end
}

// last takes what is missing in all, known at the end. No counters are read from then on: detaching takes with it what the kernel
// tells of its probes, and what was counted would look like less.
func (r *reports) last(l *event.Losses) {
	if r != nil {
		r.end()
		r.lose(l)
	}
}

func (r *reports) lose(l *event.Losses) {
	lost := map[string]uint64{}
	for cause, n := range l.Lost {
		if n > 0 && output.IsLoss(bpf.Counter(cause)) {
			lost[output.LossText(bpf.Counter(cause))] = n
		}
	}
	if l.Cut > 0 {
		lost["records not shown because there was too much to print after the interrupt"] = l.Cut
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Lost = lost
}

// send sends a report.
func (r *reports) send(out *printout) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Records = r.records.Load()
	if out != nil && out.exporting != nil {
		if n := out.exporting.Missing(); n > 0 {
			if r.now.Lost == nil {
				r.now.Lost = map[string]uint64{}
			}
			r.now.Lost["spans, log records or data points that did not arrive by --otlp"] = n
		}
	}
	line, err := json.Marshal(&r.now)
	if err == nil {
		_, _ = r.to.Write(append(line, '\n')) // without an agent, the reader ends the run
	}
}

// close says no more.
func (r *reports) close() {
	if r != nil {
		_ = r.to.Close()
	}
}
