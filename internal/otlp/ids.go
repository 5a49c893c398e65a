// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/ksnoop/ksnoop/internal/output"
)

// A trace is the number of a trace.
type trace [16]byte

// machine tells a boot of a machine from all others.
func machine(r *output.Run) []byte {
	return fmt.Appendf(nil, "ksnoop %s\x00", cmp.Or(r.BootID, fmt.Sprintf("%s %d", r.Host, r.Boot.UnixNano())))
}

// traceOf returns the number of what a function began to do in a thread at a time.
func (p *Printer) traceOf(pid, tid uint32, cpu uint16, start uint64, name string) (t trace) {
	b := binary.LittleEndian.AppendUint32(append(p.id[:0], p.machine...), pid)
	b = binary.LittleEndian.AppendUint32(b, tid)
	b = binary.LittleEndian.AppendUint16(b, cpu) // idle threads have one number on all CPUs
	b = append(binary.LittleEndian.AppendUint64(b, start), name...)
	p.id = b
	sum := sha256.Sum256(b)
	copy(t[:], sum[:])
	t[0] |= 1 // no number is 0
	return t
}

// span returns the number of a span of the trace.
func (t trace) span(n int) (id [8]byte) {
	x := binary.LittleEndian.Uint64(t[8:]) + uint64(n+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // the end of splitmix64: different numbers stay different
	x = (x ^ x>>27) * 0x94d049bb133111eb
	if x ^= x >> 31; x == 0 {
		x = 1
	}
	binary.LittleEndian.PutUint64(id[:], x)
	return id
}
