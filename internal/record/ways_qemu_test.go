// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// TestWaysQEMU compares ways with what QEMU says it has executed, of the same calls: it logs each
// piece of code that it enters, and the registers, which tell whose it is. KSNOOP_WAYS=1 compares
// functions that are picked by a rule, KSNOOP_WAYS="FUNCTION FUNCTION…" others.
func TestWaysQEMU(t *testing.T) {
	if os.Getenv("KSNOOP_WAYS") == "" {
		t.Skip("KSNOOP_WAYS is not set: guests take minutes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	g := waysGuest(t, ctx)
	symbols, names := reached(t, ctx, g)
	c := &comparison{t: t, functions: map[string]bool{}}
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	enough := wanted
	if someWays() != nil {
		enough = 1
	}
	for group := range slices.Chunk(names, filtered) {
		if len(c.functions) >= wanted {
			break
		}
		t.Setenv("PATH", path)
		l := logged(t, ctx, g, qemu, symbols, group)
		for batch := range slices.Chunk(group, 20) {
			l.batch(batch, c)
		}
		l.machine.Close()
	}
	t.Logf("%d functions, %d calls, %d wrong; %d of %d blocks unknown (%.2f %%)", len(c.functions), c.calls, c.wrong, c.unknown, c.blocks, 100*float64(c.unknown)/float64(max(c.blocks, 1)))
	t.Logf("%d calls executed and not recorded, of %d that were skipped; without probes %d of %d calls went the same ways", c.unseen, c.skipped, c.same, c.plain)
	if c.wrong > 0 || c.unseen > c.skipped || c.unknown*20 > c.blocks {
		t.Error("wrong ways, calls that are missing without a word, or too much that is unknown")
	}
	if len(c.functions) < enough {
		t.Errorf("%d functions, not %d", len(c.functions), enough)
	}
}

// someWays are the functions that KSNOOP_WAYS asks for; nil if it does not name any.
func someWays() []string {
	if some := strings.Fields(os.Getenv("KSNOOP_WAYS")); len(some) > 1 {
		return some
	}
	return nil
}

// waysGuest is a guest with ksnoop and the program that makes calls.
func waysGuest(t *testing.T, ctx context.Context) vm.Guest {
	t.Helper()
	kernel, err := vm.FindKernel(ctx, "6.12")
	if err != nil {
		t.Fatal(err)
	}
	ksnoop, err := vm.Build(ctx, kernel.Arch, "cmd/ksnoop")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "random")
	if out, err := exec.CommandContext(ctx, "gcc", "-O1", "-static", "-o", program, "testdata/ways/random.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// Behind cmpxchg16b, QEMU 7.2 has wrong flags where it stops, as at a breakpoint: the guest panicked.
	return vm.Guest{Kernel: kernel, CPUs: 1, Append: []string{"nokaslr"}, Without: []string{"cx16"}, Files: []vm.File{ksnoop, {Guest: "/bin/random", Host: program}}}
}

// A logged machine is one whose QEMU logs what it executes while the program that makes calls does so.
type loggedMachine struct {
	t       *testing.T
	ctx     context.Context
	machine *vm.Machine
	monitor *monitor
	fifo    *os.File
	in      *bufio.Reader
	log     executedLog
}

// endOfLog is written to the log where a run is over.
const endOfLog = "end of the run\n"

func logged(t *testing.T, ctx context.Context, g vm.Guest, qemu string, symbols map[string]symbol, names []string) *loggedMachine {
	t.Helper()
	dir := t.TempDir()
	log, socket := filepath.Join(dir, "log"), filepath.Join(dir, "monitor")
	if err := unix.Mkfifo(log, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(log, os.O_RDWR, 0) // open for writing: it has no end until it is written
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fifo.Close() })
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" -monitor unix:%s,server=on,wait=off -dfilter %s -D %s\n", qemu, socket, filterOf(symbols, names), log)
	if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	m, err := g.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	l := &loggedMachine{t: t, ctx: ctx, machine: m, monitor: newMonitor(t, socket), fifo: fifo, in: bufio.NewReaderSize(fifo, 1<<20)}
	l.log.mark, l.log.switchTo, l.log.switched = symbols[markFunction].addr, symbols[switchFunction].addr, symbols[switchedFunction].addr
	return l
}

// Where the kernel switches to another task, and where that is the current one.
const switchFunction, switchedFunction = "__switch_to_asm", "finish_task_switch.isra.0"

// filterOf is QEMU's filter for the code of functions.
func filterOf(symbols map[string]symbol, names []string) string {
	filter := fmt.Sprintf("%#x+1,%#x+1,%#x+1", symbols[markFunction].addr, symbols[switchFunction].addr, symbols[switchedFunction].addr)
	for _, name := range names {
		for _, part := range []string{name, name + ".cold"} {
			if s, ok := symbols[part]; ok {
				filter += fmt.Sprintf(",%#x+%#x", s.addr, s.size)
			}
		}
	}
	return filter
}

// batch traces functions, and compares.
func (l *loggedMachine) batch(names []string, c *comparison) {
	work := append([]string{"random"}, workOf()...)
	begin := time.Now()
	plain, _ := l.run(append(work, "wait"))
	if plain == nil {
		l.t.Fatal("nothing was executed")
	}
	trace := []string{"ksnoop", "trace", "--yes", "-s", "none", "--max-cpu", "off", "--ringbuf", "64M", "--force", "--record", "/tmp/ways.ks", markFunction + "()"}
	for _, name := range names {
		trace = append(trace, name+"(path())")
	}
	run, reason := l.run(slices.Concat(trace, []string{"--"}, work, []string{"wait"}))
	switch {
	case run == nil && len(names) > 1: // one of them cannot be traced: which?
		l.batch(names[:len(names)/2], c)
		l.batch(names[len(names)/2:], c)
		return
	case run == nil:
		l.t.Logf("%s is refused: %s", names[0], reason)
		return
	}
	var recording bytes.Buffer
	l.command(vm.Command{Args: []string{"cat", "/tmp/ways.ks"}, Stdout: &recording})
	calls, wrong := c.calls, c.wrong
	c.recording(&recording, run, plain)
	l.t.Logf("%v: %d calls, %d wrong, %d pieces of code, of %d functions from %s on; %d functions in all", time.Since(begin).Round(time.Second), c.calls-calls, c.wrong-wrong, len(run), len(names), names[0], len(c.functions))
}

// workOf is the seed and the number of the calls.
func workOf() []string {
	seed := os.Getenv("KSNOOP_SEED")
	if seed == "" {
		seed = "1"
	}
	return []string{seed, "2000"}
}

// run runs a command that says when it begins and ends, and returns what is executed in between; nil if
// it never began, and what it said.
func (l *loggedMachine) run(args []string) (run []entered, reason string) {
	stdin, answers := io.Pipe()
	output, stdout := io.Pipe()
	runs := l.log.runs
	read := make(chan error)
	go func() { read <- l.log.read(l.in, endOfLog) }()
	passed, begun := make(chan struct{}), 0
	go func() {
		defer close(passed)
		for s := bufio.NewScanner(output); s.Scan(); {
			switch s.Text() {
			case "begin":
				begun++
				l.monitor.do("log exec,cpu,nochain")
			case "end":
				l.monitor.do("log none")
			default:
				l.t.Logf("%s", s.Text())
				continue
			}
			answers.Write([]byte{'\n'})
		}
	}()
	var errs bytes.Buffer
	status, err := l.machine.Run(l.ctx, vm.Command{Args: args, Stdin: stdin, Stdout: stdout, Stderr: &errs})
	stdout.Close()
	answers.Close()
	<-passed
	if err != nil {
		l.t.Fatalf("%s: %v", args, err)
	}
	if _, err := l.fifo.WriteString(endOfLog); err != nil {
		l.t.Fatal(err)
	}
	if err := <-read; err != nil {
		l.t.Fatal(err)
	}
	switch {
	case begun == 0:
		return nil, errs.String()
	case status.ExitCode() != 0 || l.log.runs != runs+1:
		l.t.Fatalf("%s: %v, %d runs in the log: %s", args, status, l.log.runs-runs, errs.Bytes())
	}
	return l.log.run, ""
}

func (l *loggedMachine) command(c vm.Command) {
	l.t.Helper()
	runCommand(l.t, l.ctx, l.machine, c)
}

func runCommand(t *testing.T, ctx context.Context, m *vm.Machine, c vm.Command) {
	t.Helper()
	var errs bytes.Buffer
	c.Stderr = &errs
	status, err := m.Run(ctx, c)
	if err != nil || status.ExitCode() != 0 {
		t.Fatalf("%s: %v, %v: %s", c.Args, status, err, errs.Bytes())
	}
}

// A symbol is where code is in the kernel's memory.
type symbol struct{ addr, size uint64 }

// symbolsOf reads /proc/kallsyms. A name that several have is left out.
func symbolsOf(kallsyms string) map[string]symbol {
	type named struct {
		name string
		addr uint64
	}
	var all []named
	for line := range strings.Lines(kallsyms) {
		fields := strings.Fields(line)
		if len(fields) != 3 || !strings.ContainsAny(fields[1], "tTwW") {
			continue
		}
		if addr, err := strconv.ParseUint(fields[0], 16, 64); err == nil {
			all = append(all, named{fields[2], addr})
		}
	}
	slices.SortStableFunc(all, func(a, b named) int { return cmp.Compare(a.addr, b.addr) })
	symbols, several := map[string]symbol{}, map[string]bool{}
	for i, s := range all {
		next := i + 1
		for next < len(all) && all[next].addr == s.addr {
			next++
		}
		if _, is := symbols[s.name]; is || next == len(all) {
			several[s.name] = true
			continue
		}
		symbols[s.name] = symbol{s.addr, all[next].addr - s.addr}
	}
	for name := range several {
		delete(symbols, name)
	}
	return symbols
}

// A monitor is QEMU's command line.
type monitor struct {
	t    *testing.T
	conn io.ReadWriter
	in   *bufio.Reader
}

func newMonitor(t *testing.T, socket string) *monitor {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	m := &monitor{t: t, conn: conn, in: bufio.NewReader(conn)}
	m.prompt()
	return m
}

// do runs a command.
func (m *monitor) do(command string) {
	if _, err := io.WriteString(m.conn, command+"\n"); err != nil {
		m.t.Error(err)
		return
	}
	m.prompt()
}

// prompt waits until the monitor takes a command.
func (m *monitor) prompt() {
	const text = "(qemu) "
	for seen := ""; !strings.HasSuffix(seen, text); {
		b, err := m.in.ReadByte()
		if err != nil {
			m.t.Error(err)
			return
		}
		seen += string(b)
	}
}

// Functions that the work calls more often than mostCalls take too long to compare.
const mostCalls = 5000

// wanted is how many functions are compared, and picked how many are picked for that: some have one
// way only, and some the work calls only before it has begun.
const wanted, picked = 200, 600

// filtered is how many functions a guest's QEMU logs the code of. It logs that of all of them all the time, and it
// takes it longer than the guest's boot to log that of many more.
const filtered = 40

// reached returns the kernel's symbols, and the functions whose ways are compared: of all functions that
// ksnoop sees the work call, those that come first by a hash of their names.
func reached(t *testing.T, ctx context.Context, g vm.Guest) (symbols map[string]symbol, names []string) {
	t.Helper()
	m, err := g.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var kallsyms bytes.Buffer
	runCommand(t, ctx, m, vm.Command{Args: []string{"cat", "/proc/kallsyms"}, Stdout: &kallsyms})
	symbols = symbolsOf(kallsyms.String())
	for _, name := range []string{markFunction, switchFunction, switchedFunction} {
		if _, is := symbols[name]; !is {
			t.Fatalf("no function is called %s", name)
		}
	}
	if some := someWays(); some != nil {
		return symbols, some
	}
	var blacklist, tables bytes.Buffer
	runCommand(t, ctx, m, vm.Command{Args: []string{"sh", "-c", "mount -t debugfs none /sys/kernel/debug; cat /sys/kernel/debug/kprobes/blacklist"}, Stdout: &blacklist})
	runCommand(t, ctx, m, vm.Command{
		Args:   slices.Concat([]string{"ksnoop", "trace", "--yes", "-s", "none", "--max-cpu", "off", "--keys", "16384", "--format", "json", "*(count()[$func])", "--", "random"}, workOf()),
		Stdout: &tables,
	})
	all := 0
	for line := range bytes.Lines(tables.Bytes()) {
		var table struct {
			Kind string
			Rows []struct {
				Keys  map[string]any
				Calls int
			}
		}
		if err := json.Unmarshal(line, &table); err != nil {
			t.Fatal(err)
		}
		if table.Kind != "summary" {
			continue
		}
		for _, row := range table.Rows {
			name, _ := row.Keys["$func"].(string)
			all++
			if _, is := symbols[name]; !is {
				continue
			}
			switch {
			case row.Calls > mostCalls:
				t.Logf("%s is left out: %d calls", name, row.Calls)
			case strings.Contains(blacklist.String(), "\t"+name+"\n"):
				t.Logf("%s is left out: the kernel puts no kprobe on it", name)
			default:
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(hashOf(a), hashOf(b)), cmp.Compare(a, b)) })
	t.Logf("the work calls %d functions, of which %d can be compared", all, len(names))
	return symbols, names[:min(len(names), picked)]
}

func hashOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
