// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
)

// hostileSeeds are recordings as ksnoop makes them, of which others are made: those of
// testdata, which are real, and some with other values, stacks and names.
func hostileSeeds(t *testing.T) (seeds []*formattest.Recording) {
	t.Helper()
	for _, name := range []string{"calls", "sessions"} {
		seeds = append(seeds, takenFile(t, "../../testdata/"+name+".ks"), takenFile(t, hostileRecording(t, evil, name == "sessions")))
	}
	k := formattest.New(t, "t_")
	k.Calls("t_open(flags, return, $duration)", "t_read(str(path), *r, count, diff(r->id), buf(r, 8), hex(count), return < 5)", "t_alloc(size, return)")
	k.Probe("alloc").Func.Module = "" // whose types are not those of vmlinux
	var raw [][]byte
	for i, fn := range []string{"open", "read", "alloc"} {
		event := bpf.Event{Time: uint64(100 * (i + 1)), PID: 7, TID: 7, Comm: formattest.Comm(formattest.Evil)}
		kinds := []bpf.Kind{bpf.KindEntry, bpf.KindReturn}
		if k.Probe(fn).Joined {
			kinds = []bpf.Kind{bpf.KindCall}
		}
		for _, event.Kind = range kinds {
			event.Time += 10
			raw = append(raw, k.Raw(formattest.Record{Func: fn, Event: event, Words: []uint64{formattest.Errno(2), 33, formattest.Read}, Text: "etc",
				Stack: []uint64{formattest.Open + 0x50, formattest.Syscall + 0x60}}))
		}
	}
	raw = append(raw, bpf.AppendLost(nil, bpf.LostRingbuf, 3, 500))
	return append(seeds, formattest.Take(t, k.Recording(nil, raw...)))
}

func takenFile(t *testing.T, name string) *formattest.Recording {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return formattest.Take(t, data)
}

// A hostileForm is a way to replay a recording or, with "diff" before all options, to compare it with another
// one, and what its output is held to.
type hostileForm struct {
	args  []string
	check func(t *testing.T, out string)
}

func hostileForms(t testing.TB) []hostileForm {
	text := func(t *testing.T, out string) { safe(t, out) }
	coloured := regexp.MustCompile("\x1b\\[(0|1|2|31|33)m")
	schema, err := formattest.CompileSchema(jsonlines.Schema())
	if err != nil {
		t.Fatal(err)
	}
	json := func(t *testing.T, out string) { validLines(t, schema, out) }
	return []hostileForm{
		{nil, text}, {[]string{"--join"}, text}, {[]string{"--compact"}, text}, {[]string{"--info"}, text}, {[]string{"--stats", "-c", "2"}, text}, {[]string{"--follow"}, text},
		{[]string{"--args", "multiline", "--full-stacks", "-v"}, text}, {[]string{"--args", "verbose"}, text},
		{[]string{"--color", "always"}, func(t *testing.T, out string) { safe(t, coloured.ReplaceAllString(out, "")) }},
		{[]string{"--grep", "/[a-z]+/", "--since", "+0s", "-n", "*"}, text}, {[]string{"-x", "any", "-L", "1ns"}, text},
		{[]string{"vfs_read(count > 3, return)"}, text}, {[]string{"*(return < 0 || $pid > 0, hex(return))"}, text}, {[]string{"t_read(r->id, str(path), return)", "t_open"}, text},
		{[]string{"../../testdata/calls.ks"}, text}, // both, by time
		{[]string{"--format", "json"}, json}, {[]string{"--format", "json", "--json-strings", "--join"}, json}, {[]string{"--format", "json", "*"}, json},
		{[]string{"--format", "folded"}, foldedLines}, {[]string{"--format", "folded", "--weight", "time"}, foldedLines}, {[]string{"--format", "folded", "--weight", "errors"}, foldedLines},
		{[]string{"--format", "perfetto"}, func(t *testing.T, out string) { safe(t, formattest.Texts(formattest.ReadTrace(t, []byte(out)))) }},
		{[]string{"--format", "pprof"}, safeProfile},
		{[]string{"diff", recordedCalls}, text}, {[]string{"diff", recordedSessions, "--exact"}, text}, {[]string{"diff", "--format", "json", recordedCalls}, jsonLines},
	}
}

// safe holds a text to what a terminal shows as it is.
func safe(t *testing.T, text string) {
	t.Helper()
	if raw := unsafeText(text); raw != "" {
		t.Errorf("%q is in %.2000q", raw, text)
	}
}

func foldedLines(t *testing.T, out string) {
	t.Helper()
	safe(t, out)
	for line := range strings.Lines(out) {
		if !foldedLine.MatchString(line) {
			t.Errorf("%q is no line of folded stacks", line)
		}
	}
}

var foldedLine = regexp.MustCompile(`^[^;\n]+(;[^;\n]+)* [0-9]+\n$`)

func safeProfile(t *testing.T, out string) {
	t.Helper()
	if out == "" { // refused
		return
	}
	p, err := profile.ParseData([]byte(out))
	if err != nil {
		t.Error(err)
		return
	}
	safe(t, strings.Join(p.Comments, " "))
	for _, f := range p.Function {
		safe(t, f.Name+f.Filename)
	}
	for _, s := range p.Sample {
		safe(t, fmt.Sprint(s.Label))
	}
}

// jsonLines holds a text to lines of JSON, which schema.json does not describe.
func jsonLines(t *testing.T, out string) {
	t.Helper()
	safe(t, out)
	for line := range strings.Lines(out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%.2000q is no JSON", line)
		}
	}
}

func validLines(t *testing.T, schema *formattest.Schema, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if err := schema.Check(line); err != nil {
			t.Errorf("%v:\n%.2000s", err, line)
		}
	}
}

// What a replay of a small recording may take, whatever is in it: bytes that are allocated,
// all in all, so that no more can be in use at a time; and time, on a busy machine.
const (
	hostileMemory = 16 << 20
	hostileTime   = 20 * time.Second
)

// hostileEnv is how many recordings are replayed in all forms, rather than many in a few.
const hostileEnv = "KSNOOP_HOSTILE"

// TestHostileForms: whatever is in a recording, each form of its replay is what it should be,
// and takes no more memory and time than a few records are worth.
func TestHostileForms(t *testing.T) {
	n, each := hostileRecordings, 1                   // forms of each recording
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // most of the time would be the collector's
	forms := hostileForms(t)
	if more := os.Getenv(hostileEnv); more != "" {
		var err error
		if n, err = strconv.Atoi(more); err != nil {
			t.Fatal(err)
		}
		each = len(forms)
	}
	seeds := hostileSeeds(t)
	file := filepath.Join(t.TempDir(), "hostile.ks")
	var most hostileCost
	shown, next := make([]int, len(forms)), 0
	for i := range n {
		random := rand.New(rand.NewPCG(16, uint64(i)))
		r := seeds[i%len(seeds)].Mutated(random)
		if err := os.WriteFile(file, r.Bytes(t), 0o600); err != nil {
			t.Fatal(err)
		}
		for range each {
			at := next % len(forms)
			next++
			cost, printed := replayHostile(t, i, file, &forms[at])
			if printed {
				shown[at]++
			}
			most.memory, most.time = max(most.memory, cost.memory), max(most.time, cost.time)
		}
	}
	t.Logf("%d recordings in %d forms each; at most %d kB and %v for one", n, each, most.memory>>10, most.time)
	for i, count := range shown { // else little is tested
		if share := 100 * count / (n * each / len(forms)); share < 10 {
			t.Errorf("%q printed something of %d %% of the recordings", forms[i].args, share)
		}
	}
}

type hostileCost struct {
	memory uint64
	time   time.Duration
}

// allocated returns how many bytes were allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// replayHostile replays a recording in a form. printed says that there was something to print.
func replayHostile(t *testing.T, i int, file string, f *hostileForm) (cost hostileCost, printed bool) {
	t.Helper()
	args := slices.Concat([]string{"replay", file}, f.args)
	diff := len(f.args) > 0 && f.args[0] == "diff"
	if diff {
		args = slices.Concat([]string{"diff", file}, f.args[1:])
	}
	failed := t.Failed()
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 8<<10)
			t.Errorf("panic: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
		if t.Failed() && !failed {
			kept := filepath.Join(os.TempDir(), fmt.Sprintf("ksnoop-hostile-%d.ks", i))
			data, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(kept, data, 0o600)
			}
			t.Fatalf("recording %d, %q: kept as %s, %v", i, f.args, kept, err)
		}
	}()
	before, start := allocated(), time.Now()
	stdout, stderr, status := ran(args...)
	cost.memory, cost.time = allocated()-before, time.Since(start)
	if cost.memory > hostileMemory || cost.time > hostileTime {
		t.Errorf("%d bytes are allocated, in %v", cost.memory, cost.time)
	}
	if status < 0 || status > exitUsage {
		t.Errorf("status %d", status)
	}
	if status != 0 && stderr == "" && !(diff && status == exitDiffers) {
		t.Error("nothing says what is wrong")
	}
	safe(t, stderr)
	f.check(t, stdout)
	return cost, len(stdout) > 0
}
