// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A skipped is how often the kernel did not run a program or call a probe.
type skipped struct {
	busy   uint64 // because another was running
	flight uint64 // because it could not wait for another return, or for busy's reason as well: see shared
	shared uint64 // of flight, at most so many for busy's reason
	tasks  uint64 // of the engine's own programs, for busy's reason
}

// since returns how much n has grown since then, with each miss told by its reason.
func (n skipped) since(then skipped) (d skipped) {
	d = skipped{
		busy:   n.busy - min(n.busy, then.busy),
		flight: n.flight - min(n.flight, then.flight),
		tasks:  n.tasks - min(n.tasks, then.tasks),
	}
	shared := min(d.flight, n.shared-min(n.shared, then.shared))
	d.busy += shared
	d.flight -= shared
	return d
}

// A following program is one of the engine's own, which follow what tasks do, and with each run that is skipped something is
// missed that nothing else tells of. The kernel skips it only where it runs already: where a task was preempted in it, which takes
// PREEMPT_RT or a Linux that preempts programs of tracepoints, as 7.3 does.
type following struct{ program }

// Close does nothing: the engine closes its programs.
func (following) Close() error { return nil }

// toldElsewhere are those of the engine's own programs that are not following: what ProgSessionExit has missed is counted by
// ProgSessionFree, a frame that ProgStashExit did not free is as stale as one whose return was not seen (bpf/stash.h), and of a
// process that ProgFree did not take out of the family the entry costs room only, unless ksnoop entered it and nothing of it was seen.
var toldElsewhere = [...]string{bpf.ProgFree, bpf.ProgStashExit, bpf.ProgSessionExit}

// An awaiting link or event sees returns. The kernel sees no call for whose return it has no
// room: that of kprobe.multi and kprobe.session is up to Linux 6.13 for twice as many
// as there are CPUs, for each function that is hooked, and since 6.14 for 4 KiB on each task;
// that of a kretprobe is for maxActive calls, or fewer. Of a kretprobe the kernel gives one
// number for both: no room, and another kprobe that is being handled. For the latter it also
// skips the kprobes at the entry of the same functions, which are paired (kprobes_inc_nmissed_count).
type awaiting struct{ counting }

// A paired kprobe is at the entry of functions that an awaiting one is attached to as well.
type paired struct{ counting }

// pair marks the kprobes of functions whose kretprobes come before them in hooks.
func pair(hooks []closer) {
	after := false
	for i, h := range hooks {
		_, is := h.(awaiting)
		after = after || is
		if c, ok := h.(counting); ok && after && !is {
			hooks[i] = paired{c}
		}
	}
}

// await returns a link as one that is awaiting, if it counts and sees returns.
func await(e end, l closer, err error) (closer, error) {
	if counts, ok := l.(counting); ok && err == nil && e != atEntry {
		return awaiting{counts}, nil
	}
	return l, err
}

// byKprobe are the methods whose programs the kernel runs as those of kprobes (trace_call_bpf).
var byKprobe = [...]layout.Method{layout.MethodKprobe, layout.MethodKprobeMulti, layout.MethodKprobeSession, layout.MethodTracepoint}

// missedSince is the Linux that counts all that it skips of kprobes. An earlier one says 0 of some.
var missedSince = version{6, 7}

// missed returns how often the kernel did not run a program or call a probe.
// It skips a program that is running on that CPU already, and a probe that is
// hit while another one of its kind is being handled. For a function whose
// return was skipped, what was kept of the call could be taken for a later one's
// on the same stack, if that was not kept: no more than so many are wrong.
//
// uncounted says that some are not known: Linux counts those of a kprobe's
// program, and tells of those of a kprobe and of a kprobe.multi link, since 6.7.
func (t *Tracer) missed() (n skipped, uncounted bool) {
	uncounted = !t.options.Kernel.AtLeast(missedSince.major, missedSince.minor) &&
		slices.ContainsFunc(t.plan.Probes, func(p *plan.Probe) bool { return slices.Contains(byKprobe[:], p.Method) })
	for _, c := range t.probes {
		known := true
		switch c := c.(type) {
		case following:
			stats, err := c.Stats()
			if known = err == nil; known {
				n.tasks += stats.RecursionMisses
			}
		case program:
			stats, err := c.Stats()
			if known = err == nil; known {
				n.busy += stats.RecursionMisses
			}
		case awaiting:
			var m uint64
			m, known = c.missed()
			n.flight += m
		case paired:
			var m uint64
			m, known = c.missed()
			n.busy += m
			n.shared += m
		case counting:
			var m uint64
			m, known = c.missed()
			n.busy += m
		}
		uncounted = uncounted || !known
	}
	return n, uncounted
}

// missed returns what a link says of its kprobes. A link to an event of
// tracefs is known by that, other links than those of kprobes have nothing to say.
func (l loadedLink) missed() (n uint64, known bool) {
	info, err := l.Info()
	if err != nil {
		return 0, errors.Is(err, ebpf.ErrNotSupported)
	}
	if multi := info.KprobeMulti(); multi != nil {
		return multi.Missed, true
	}
	event := info.PerfEvent()
	if event == nil {
		return 0, true
	}
	if probe := event.Kprobe(); probe != nil {
		return probe.Missed, true
	}
	return 0, event.Type != 0 // a kernel that does not describe such links
}

// missed returns how often the kernel skipped a probe of the event.
func (ev *event) missed() (n uint64, known bool) {
	profile, err := os.ReadFile(filepath.Join(ev.dir, "kprobe_profile"))
	if err == nil {
		n, err = missedInProfile(profile, path.Base(ev.name))
	}
	return n, err == nil
}

// missedInProfile reads lines of an event's name, its hits and its misses.
func missedInProfile(profile []byte, name string) (uint64, error) {
	total := uint64(0)
	for line := range bytes.Lines(profile) {
		fields := bytes.Fields(line)
		if len(fields) != 3 || string(fields[0]) != name {
			continue
		}
		n, err := strconv.ParseUint(string(fields[2]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("kprobe_profile: %w", err)
		}
		total += n
	}
	return total, nil
}
