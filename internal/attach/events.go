// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// Many kprobes are made as one event of tracefs that has many probes (Linux
// 5.5), hooked by one perf event: an event of its own for each takes the
// kernel a grace period each, both to attach and to detach.

// eventGroup begins the name of the group that a process's events are in; its
// PID follows, that in the initial PID namespace.
const eventGroup = "ksnoop_"

// tracefsDirs are where tracefs may be mounted.
var tracefsDirs = [...]string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// openEvents opens the file that defines kprobe events. dirs are where tracefs
// may be mounted.
func openEvents(dirs ...string) (f *os.File, dir string, err error) {
	for _, dir := range dirs {
		f, err = os.OpenFile(filepath.Join(dir, "kprobe_events"), os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			return f, dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
	}
	return nil, "", noTracefs(err)
}

// noTracefs says what to do about a file of tracefs that is nowhere.
func noTracefs(err error) error {
	return fmt.Errorf("%w; tracefs is not mounted: mount -t tracefs tracefs %s", err, tracefsDirs[0])
}

// hookEvent hooks a program at many functions by one event. The program looks
// up by the function's address which probe it runs for.
func (t *Tracer) hookEvent(prog *ebpf.Program, probes []*plan.Probe, e end) (made []closer, failed []Failure) {
	for _, p := range probes {
		if p.Func.Addr == 0 {
			failed = append(failed, Failure{p, t.noAddress(p)})
		}
	}
	probes = without(probes, failed)
	if len(probes) == 0 {
		return nil, failed
	}
	file, dir, err := openEvents(tracefsDirs[:]...)
	if errors.Is(err, fs.ErrNotExist) {
		return t.hookEach(prog, probes, e, failed)
	}
	if err != nil {
		for _, p := range probes {
			failed = append(failed, Failure{p, err})
		}
		return nil, failed
	}
	defer file.Close()
	base, ok := t.options.Kernel.SymbolNamed(baseSymbol, "")
	if !ok {
		for _, p := range probes {
			failed = append(failed, Failure{p, t.noAddress(p)})
		}
		return nil, failed
	}
	t.events++
	ev := &event{dir: dir, name: fmt.Sprintf("%[1]s%[2]d/%[3]s%[4]d_%[2]d", eventGroup, t.pids.self, [...]string{"entry", "return"}[e], t.events)}
	bad := ev.define(file, probes, e, base.Addr)
	failed = append(failed, bad...)
	probes = without(probes, bad)
	if len(probes) == 0 {
		return nil, failed
	}
	l, err := ev.open(prog)
	if err != nil {
		err = errors.Join(err, ev.Close())
		for _, p := range probes {
			failed = append(failed, Failure{p, err})
		}
		return nil, failed
	}
	return []closer{ev, l}, failed // closed in reverse order
}

// hookEach hooks a program at many functions by an event for each, which takes
// no tracefs. It is added to what has failed before.
func (t *Tracer) hookEach(prog *ebpf.Program, probes []*plan.Probe, e end, failed []Failure) (made []closer, _ []Failure) {
	t.sayEach.Do(func() {
		t.options.Log.Warn("tracefs is not there, so that each kprobe takes an event of its own: that takes the kernel long, above all at the end",
			"remedy", "mount -t tracefs tracefs "+tracefsDirs[0])
	})
	for _, p := range probes {
		l, err := hookAddress(p.Func.Addr, e, prog)
		if err != nil {
			failed = append(failed, Failure{p, err})
			continue
		}
		made = append(made, l)
	}
	return made, failed
}

// An event is one event of tracefs. Close takes its definition away.
type event struct {
	dir, name string // the folder of tracefs; GROUP/NAME, of which NAME is unique
}

// baseSymbol is a symbol that every kernel has, before all functions.
const baseSymbol = "_stext"

// definitions is how many bytes of definitions are written at once.
const definitions = 4000

// define writes the definitions of an event's probes. The kernel stops at the
// first that it refuses, so those of a part that was not taken whole are
// written one by one.
func (ev *event) define(file *os.File, probes []*plan.Probe, e end, base uint64) (failed []Failure) {
	kind := "p"
	if e == atReturn {
		kind = fmt.Sprintf("r%d", max(maxActive/len(probes), 32))
	}
	line := func(dst []byte, p *plan.Probe) []byte {
		return append(appendPlace(fmt.Appendf(dst, "%s:%s ", kind, ev.name), &p.Func, base), '\n')
	}
	var text []byte
	flush := func(part []*plan.Probe) {
		if _, err := file.Write(text); err == nil {
			return
		}
		for _, p := range part {
			if _, err := file.Write(line(nil, p)); err != nil && !errors.Is(err, unix.EEXIST) {
				failed = append(failed, Failure{p, fmt.Errorf("%s of %s: %w", hookName(p.Method, e), p.Func.Name, err)})
			}
		}
	}
	first := 0
	for i, p := range probes {
		text = line(text, p)
		if len(text) > definitions || i == len(probes)-1 {
			flush(probes[first : i+1])
			first, text = i+1, text[:0]
		}
	}
	return failed
}

// appendPlace names a function as how far behind base it is: the kernel tells
// probes of one event by what they are named by, and several functions may share
// a name. Modules can lie before all of the kernel, as they do on arm64; there
// the name has to do, in its module.
func appendPlace(dst []byte, f *kernel.Function, base uint64) []byte {
	if f.Addr >= base && f.Addr-base <= math.MaxUint32 {
		return fmt.Appendf(dst, "%s+%d", baseSymbol, f.Addr-base)
	}
	return fmt.Appendf(dst, "%s:%s", f.Module, f.Name)
}

// open hooks a program at the event.
func (ev *event) open(prog *ebpf.Program) (closer, error) {
	b, err := os.ReadFile(filepath.Join(ev.dir, "events", ev.name, "id"))
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("id of event %s: %w", ev.name, err)
	}
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Sample_type: unix.PERF_SAMPLE_RAW, Sample: 1, Wakeup: 1}
	attr.Size = unix.PERF_ATTR_SIZE_VER5
	fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("perf_event_open of event %s: %w", ev.name, err)
	}
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: prog, Attach: ebpf.AttachPerfEvent})
	// The link keeps the event alive.
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return nil, fmt.Errorf("attaching to event %s: %w", ev.name, err)
	}
	return l, nil
}

// Close takes the definition away.
func (ev *event) Close() error {
	file, _, err := openEvents(tracefsDirs[:]...)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "-:%s\n", ev.name); err != nil {
		return fmt.Errorf("removing event %s: %w", ev.name, err)
	}
	return nil
}

// Stale counts the events that ksnoops which were killed have left behind: each
// costs the kernel memory.
type Stale struct {
	Removed int
	Kept    int // because somebody else uses them
}

// RemoveStale takes them away.
func RemoveStale() (Stale, error) { return removeStaleOf(tracefsDirs[:], runs) }

// removeStale does so on the way to something else, which goes on whatever comes
// of it.
func removeStale() { _, _ = RemoveStale() }

// runs reports whether a process of that number may be one of those that have
// events: there is one, and it is not this one, which has none yet. Seen from
// another PID namespace than the initial one, there may always be one.
func runs(pid int) bool {
	return !inInitialNamespace() || pid != os.Getpid() && !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// removeStaleOf takes away the events of processes that no longer run. dirs are
// where tracefs may be mounted.
func removeStaleOf(dirs []string, runs func(pid int) bool) (s Stale, err error) {
	dir, groups, err := eventGroups(dirs)
	if err != nil {
		return s, err
	}
	var file *os.File // opened when there is something to remove
	for _, group := range groups {
		number, ours := strings.CutPrefix(group.Name(), eventGroup)
		pid, err := strconv.Atoi(number)
		if !ours || err != nil || runs(pid) {
			continue
		}
		events, err := os.ReadDir(filepath.Join(dir, "events", group.Name()))
		if err != nil {
			continue // it has just gone
		}
		if file == nil {
			if file, _, err = openEvents(dir); err != nil {
				return s, err
			}
			defer file.Close()
		}
		for _, ev := range events {
			if !ev.IsDir() { // a switch of the group
				continue
			}
			_, err := fmt.Fprintf(file, "-:%s/%s\n", group.Name(), ev.Name())
			switch {
			case err == nil:
				s.Removed++
			case errors.Is(err, unix.EBUSY):
				s.Kept++
			case !errors.Is(err, unix.ENOENT): // a ksnoop that starts removes them, too
				return s, fmt.Errorf("removing event %s/%s: %w", group.Name(), ev.Name(), err)
			}
		}
	}
	return s, nil
}

// eventGroups lists the groups that the kernel's events are in.
func eventGroups(dirs []string) (dir string, groups []fs.DirEntry, err error) {
	for _, dir := range dirs {
		groups, err = os.ReadDir(filepath.Join(dir, "events"))
		if !errors.Is(err, fs.ErrNotExist) {
			return dir, groups, err
		}
	}
	return "", nil, noTracefs(err)
}
