// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// A life is what a process maps from an exec or a fork to the next exec.
type life struct {
	from  uint64
	maps  []timed // in order of time
	array *array  // of maps, which the parent and children may have, too

	looked looked

	executed bool // it began with an exec: before anything mapped is known, what /proc has at another time says nothing of it
	refused  refused

	// A process goes on when its main thread has ended, as long as there is another one.
	others    map[uint32]struct{} // threads but the main one
	unlisted  bool                // it was there before, and /proc has not told its threads yet
	mainEnded bool

	doubtful uint64 // from when on it may have executed another program, unseen; 0: there is no doubt
	sure     uint64 // when it was known last that it has not
	denied   bool   // what it maps may not be read

	generates bool      // code of no file is mapped
	held      *held     // where its map is; nil if that is not known
	tried     time.Time // when it was tried last to keep that
	over      bool
}

// ownCode is how many bytes the mappings of a life may take, even if others take too many.
const ownCode = 64 << 10

// An array is the memory of mappings, which several lives may have.
type array struct {
	size   int // bytes
	lives  int // that have it
	living int // that are not over
}

// counts returns the bytes that an array takes, and those that its living lives take beyond what each may have.
func (a *array) counts() (size, large int) {
	if a.lives > 0 {
		size = a.size
	}
	if a.living > 0 {
		large = max(0, a.size-ownCode)
	}
	return size, large
}

// A timed is a mapping and since when it is there. What was unmapped is not known; a later
// mapping hides it.
type timed struct {
	mapping
	from uint64
}

// starts takes note of a thread.
func (n *life) starts(tid uint32) {
	if n.others == nil {
		n.others = map[uint32]struct{}{}
	}
	n.others[tid] = struct{}{}
}

// behind returns how many mappings were there at a time.
func (n *life) behind(time uint64) int {
	i, _ := slices.BinarySearchFunc(n.maps, time+1, func(a timed, t uint64) int { return cmp.Compare(a.from, t) })
	return i
}

// has reports whether a mapping is the newest at its place already. The kernel tells of it again
// when its protection changes, which compilers at run time do all the time. It looks at the last
// mappings only: this must be cheap, since a process can map as fast as it likes.
func (n *life) has(m *timed) bool {
	const last = 1 << 10
	for i := len(n.maps) - 1; i >= max(0, len(n.maps)-last); i-- {
		if old := &n.maps[i]; old.from <= m.from && old.start < m.end && m.start < old.end {
			return old.mapping == m.mapping
		}
	}
	return false
}

// A refused bounds the mappings for which there was no room, in address and in time: what is older within these bounds may be hidden by one
// of them. Where there is none it is zero.
type refused struct{ Start, End, First, Last uint64 }

func refusedOnly(m *timed) refused { return refused{m.start, m.end, m.from, m.from} }

// everywhere returns r for a life that has more such mappings than are told apart.
func (r refused) everywhere() refused { return refused{0, math.MaxUint64, r.First, math.MaxUint64} }

func (r *refused) merge(more refused) {
	switch {
	case more.End == 0:
	case r.End == 0:
		*r = more
	default:
		*r = refused{min(r.Start, more.Start), max(r.End, more.End), min(r.First, more.First), max(r.Last, more.Last)}
	}
}

// hides reports whether what was mapped at an address since a time may have been hidden at another time.
func (r *refused) hides(addr, since, time uint64) bool {
	return addr >= r.Start && addr < r.End && r.First <= time && since <= r.Last
}

// executedAnother reports whether a new mapping says that the process has executed another program, unseen: the kernel maps the vDSO for
// each program anew.
func (n *life) executedAnother(m *timed) bool {
	return m.file.path == vdso && slices.ContainsFunc(n.maps, func(old timed) bool {
		return old.file.path == vdso && (old.end <= m.start || m.end <= old.start)
	})
}

// find returns the mapping that an address was in at a time, the newest, and since when; nil if none is known.
func (n *life) find(addr, time uint64) (m *mapping, since uint64) {
	for i := len(n.maps) - 1; i >= 0; i-- {
		if m := &n.maps[i]; m.from <= time && addr >= m.start && addr < m.end {
			if n.refused.hides(addr, m.from, time) {
				break
			}
			return &m.mapping, m.from
		}
	}
	return nil, 0
}

// doubtAt reports whether another program may have been executed before a time.
func (n *life) doubtAt(time uint64) bool { return n.doubtful != 0 && n.doubtful <= time }

// same reports whether all code in maps is where a life has it. more has what it lacks and may have: generated code, and parts of a file
// that is mapped there with other bounds. The kernel puts the vDSO elsewhere each time that a program is executed. /proc may show a file's
// path as it is seen from another root. maps are in order, and do not overlap.
func (n *life) same(maps []mapping) (more []mapping, same bool) {
	newest := n.newest(maps)
	for i := range maps {
		m, was := &maps[i], newest[i]
		there := was != nil && was.baseName() == m.baseName() && (was.offset+(m.start-was.start) == m.offset || !m.file.named())
		switch {
		case there && was.start == m.start && was.end == m.end || m.file.path == vsyscall:
		case there && m.file.named() || m.file.path == anonymous:
			more = append(more, *m)
		default:
			return nil, false
		}
	}
	return more, true
}

// newest returns, of each of maps, the newest mapping of a life that is where it is, or where a part of it is: that is what find
// returns. maps are in order, and do not overlap.
func (n *life) newest(maps []mapping) []*mapping {
	newest := make([]*mapping, len(maps))
	next := make([]int, len(maps)+1) // leads from each to the first one, at it or behind, whose newest mapping is not known yet
	for i := range next {
		next[i] = i
	}
	unknown := func(i int) int {
		for next[i] != i {
			next[i] = next[next[i]]
			i = next[i]
		}
		return i
	}
	for k := len(n.maps) - 1; k >= 0; k-- {
		m := &n.maps[k].mapping
		first, _ := slices.BinarySearchFunc(maps, m.start, func(a mapping, start uint64) int {
			if a.end <= start {
				return -1
			}
			return 1
		})
		for i := unknown(first); i < len(maps) && maps[i].start < m.end; i = unknown(i) {
			newest[i], next[i] = m, i+1
		}
	}
	return newest
}

// unseenProgram is why a process has no names that is in doubt.
func unseenProgram(pid uint32) string {
	return fmt.Sprintf("process %d may have executed another program, which was not seen", pid)
}
