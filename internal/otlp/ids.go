// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
)

// A trace is what the spans of a session, or of a call, belong to.
type trace struct {
	id [16]byte
	// seed makes the numbers of spans. It differs between the sessions that are in one trace.
	seed uint64
	// parent is the span of the traced program that it is in; zeros: none.
	parent [8]byte
}

// machine tells a boot of a machine from all others.
func machine(r *output.Run) []byte {
	return fmt.Appendf(nil, "ksnoop %s\x00", cmp.Or(r.BootID, fmt.Sprintf("%s %d", r.Host, r.Boot.UnixNano())))
}

// traceOf returns the trace of what a function began to do in a thread at a time: its own, or that of the
// span that the thread was in, if the engine or the values of an event have it.
func (p *Printer) traceOf(pid, tid uint32, cpu uint16, start uint64, name string, engine *bpf.Parent, events ...*event.Event) (t trace) {
	b := binary.LittleEndian.AppendUint32(append(p.id[:0], p.machine...), pid)
	b = binary.LittleEndian.AppendUint32(b, tid)
	b = binary.LittleEndian.AppendUint16(b, cpu) // idle threads have one number on all CPUs
	b = append(binary.LittleEndian.AppendUint64(b, start), name...)
	p.id = b
	sum := sha256.Sum256(b)
	copy(t.id[:], sum[:])
	t.seed = binary.LittleEndian.Uint64(t.id[8:])
	t.id[0] |= 1 // no number is 0
	if r, ok := p.parent(engine, events...); ok {
		t.id, t.parent = r.trace, r.span
	}
	return t
}

// span returns the number of a span of the trace.
func (t trace) span(n int) (id [8]byte) {
	x := t.seed + uint64(n+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // the end of splitmix64: different numbers stay different
	x = (x ^ x>>27) * 0x94d049bb133111eb
	if x ^= x >> 31; x == 0 {
		x = 1
	}
	binary.LittleEndian.PutUint64(id[:], x)
	return id
}
