// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ksnoop/ksnoop/internal/formattest"
)

// A reader reads a trace as trace_processor does: what packets name by numbers is looked up
// in the state of their sequence, and events are put in the order of their times.
type reader struct {
	t        testing.TB
	sequence uint64                       // that is being read
	states   map[uint64]map[string]string // of sequences: texts by table and number
	clocks   map[uint64]uint64
	merged   bool              // several sequences, by the time of day
	tracks   map[uint64]string // descriptions by UUID
	order    []uint64          // of tracks, as they came
	events   []readEvent
	clears   int
	given    map[string]string // all that was interned, ever
}

type readEvent struct {
	time  uint64
	track uint64
	kind  protoreflect.Name
	text  string
}

// read reads a trace.
func read(t testing.TB, raw []byte) *reader {
	t.Helper()
	return readTrace(t, raw, false)
}

// readTrace is read for a trace of several runs, too.
func readTrace(t testing.TB, raw []byte, merged bool) *reader {
	t.Helper()
	trace := formattest.ReadTrace(t, raw)
	r := &reader{t: t, merged: merged, states: map[uint64]map[string]string{}, clocks: map[uint64]uint64{}, tracks: map[uint64]string{}, given: map[string]string{}}
	for _, p := range listOf(trace, "packet") {
		r.packet(p)
	}
	slices.SortStableFunc(r.events, func(a, b readEvent) int { return cmp.Compare(a.time, b.time) })
	return r
}

func field(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

func has(m protoreflect.Message, name protoreflect.Name) bool {
	return m.Has(m.Descriptor().Fields().ByName(name))
}

func listOf(m protoreflect.Message, name protoreflect.Name) (list []protoreflect.Message) {
	l := field(m, name).List()
	for i := range l.Len() {
		list = append(list, l.Get(i).Message())
	}
	return list
}

func (r *reader) packet(p protoreflect.Message) {
	r.sequence = field(p, "trusted_packet_sequence_id").Uint()
	if r.sequence == 0 || r.sequence > 2 {
		r.t.Fatalf("a packet of sequence %d", r.sequence)
	}
	flags := field(p, "sequence_flags").Uint()
	if flags&1 != 0 {
		r.states[r.sequence], r.clocks[r.sequence] = map[string]string{}, 0
		r.clears++
	}
	if has(p, "trace_packet_defaults") {
		r.clocks[r.sequence] = field(field(p, "trace_packet_defaults").Message(), "timestamp_clock_id").Uint()
	}
	r.intern(field(p, "interned_data").Message())
	if has(p, "clock_snapshot") {
		r.snapshot(field(p, "clock_snapshot").Message())
	}
	if has(p, "track_descriptor") {
		r.track(field(p, "track_descriptor").Message())
	}
	if has(p, "track_event") {
		clock := uint64(clockMonotonic)
		if r.merged {
			clock = clockRealtime
		}
		if flags&2 == 0 || r.clocks[r.sequence] != clock {
			r.t.Fatalf("an event with flags %d and clock %d", flags, r.clocks[r.sequence])
		}
		r.event(field(p, "timestamp").Uint(), field(p, "track_event").Message())
	}
}

func (r *reader) intern(d protoreflect.Message) {
	for _, table := range []protoreflect.Name{"event_categories", "event_names", "debug_annotation_names"} {
		for _, e := range listOf(d, table) {
			r.put(table, field(e, "iid").Uint(), field(e, "name").String())
		}
	}
	for _, table := range []protoreflect.Name{"function_names", "source_paths"} {
		for _, e := range listOf(d, table) {
			r.put(table, field(e, "iid").Uint(), string(field(e, "str").Bytes()))
		}
	}
	for _, f := range listOf(d, "frames") {
		text := r.look("function_names", field(f, "function_name_id").Uint())
		if has(f, "source_path_iid") {
			text += " " + r.look("source_paths", field(f, "source_path_iid").Uint())
		}
		if has(f, "line_number") {
			text += fmt.Sprintf(":%d", field(f, "line_number").Uint())
		}
		if field(f, "kind").Enum() != kindKernel {
			r.t.Errorf("frame %s is of kind %d", text, field(f, "kind").Enum())
		}
		r.put("frames", field(f, "iid").Uint(), text)
	}
	for _, s := range listOf(d, "callstacks") {
		var frames []string
		l := field(s, "frame_ids").List()
		for i := range l.Len() {
			frames = append(frames, r.look("frames", l.Get(i).Uint()))
		}
		r.put("callstacks", field(s, "iid").Uint(), strings.Join(frames, " > "))
	}
}

// put takes an entry of a table. A number is never used for two values, even after the state
// was cleared.
func (r *reader) put(table protoreflect.Name, id uint64, text string) {
	key := fmt.Sprint(r.sequence, table, id)
	if old, ok := r.given[key]; ok && old != text || id == 0 {
		r.t.Errorf("%s %d is %q and %q", table, id, old, text)
	}
	r.states[r.sequence][key], r.given[key] = text, text
}

func (r *reader) look(table protoreflect.Name, id uint64) string {
	text, ok := r.states[r.sequence][fmt.Sprint(r.sequence, table, id)]
	if !ok {
		r.t.Errorf("%s has no %d", table, id)
	}
	return text
}

func (r *reader) snapshot(s protoreflect.Message) {
	var clocks []string
	for _, c := range listOf(s, "clocks") {
		clocks = append(clocks, fmt.Sprintf("%d: %d", field(c, "clock_id").Uint(), field(c, "timestamp").Uint()))
	}
	r.tracks[0] = fmt.Sprintf("clocks %s, primary %d", strings.Join(clocks, ", "), field(s, "primary_trace_clock").Enum())
}

func (r *reader) track(d protoreflect.Message) {
	id := field(d, "uuid").Uint()
	text := field(d, "name").String()
	if parent := field(d, "parent_uuid").Uint(); r.merged && parent != 0 {
		above, ok := r.tracks[parent]
		if !ok {
			r.t.Errorf("%s stands before what is above it", text)
		}
		text = above + "/" + text
	}
	if has(d, "process") {
		p := field(d, "process").Message()
		text = fmt.Sprintf("process %d %s", field(p, "pid").Int(), field(p, "process_name").String())
	}
	if has(d, "thread") {
		th := field(d, "thread").Message()
		text = fmt.Sprintf("thread %d/%d %s", field(th, "pid").Int(), field(th, "tid").Int(), field(th, "thread_name").String())
		if _, ok := r.tracks[field(d, "parent_uuid").Uint()]; !ok {
			r.t.Errorf("%s has no process", text)
		}
	}
	if _, ok := r.tracks[id]; !ok {
		r.order = append(r.order, id)
	}
	r.tracks[id] = text
}

func (r *reader) event(time uint64, e protoreflect.Message) {
	var text []string
	if has(e, "name_iid") {
		text = append(text, r.look("event_names", field(e, "name_iid").Uint()))
	}
	l := field(e, "category_iids").List()
	for i := range l.Len() {
		text = append(text, r.look("event_categories", l.Get(i).Uint()))
	}
	for _, a := range listOf(e, "debug_annotations") {
		text = append(text, r.look("debug_annotation_names", field(a, "name_iid").Uint())+"="+value(a))
	}
	if has(e, "callstack_iid") {
		text = append(text, "["+r.look("callstacks", field(e, "callstack_iid").Uint())+"]")
	}
	kind := field(e, "type").Enum()
	r.events = append(r.events, readEvent{time, field(e, "track_uuid").Uint(),
		e.Descriptor().Enums().ByName("Type").Values().ByNumber(kind).Name(), strings.Join(text, " ")})
}

// value writes an annotation's value with its type.
func value(a protoreflect.Message) string {
	f := a.WhichOneof(a.Descriptor().Oneofs().ByName("value"))
	if f == nil {
		return "none"
	}
	kind, _, _ := strings.Cut(string(f.Name()), "_")
	if kind == "string" {
		return fmt.Sprintf("%q", a.Get(f).String())
	}
	return fmt.Sprintf("%s(%v)", kind, a.Get(f))
}

// lines returns the events by track: slices within slices are indented.
func (r *reader) lines() (lines []string) {
	for _, id := range r.order {
		lines = append(lines, r.tracks[id])
		depth := 0
		for _, e := range r.events {
			if e.track != id {
				continue
			}
			mark := map[protoreflect.Name]string{"TYPE_SLICE_BEGIN": "{ ", "TYPE_SLICE_END": "} ", "TYPE_INSTANT": "* "}[e.kind]
			if e.kind == "TYPE_SLICE_END" {
				if depth--; depth < 0 {
					r.t.Fatalf("%s: a slice ends at %d that has not begun", r.tracks[id], e.time)
				}
			}
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%s%d %s%s", strings.Repeat("  ", depth+1), e.time, mark, e.text), " "))
			if e.kind == "TYPE_SLICE_BEGIN" {
				depth++
			}
		}
	}
	for _, e := range r.events {
		if _, ok := r.tracks[e.track]; !ok {
			r.t.Errorf("an event on no track: %s", e.text)
		}
	}
	return lines
}
