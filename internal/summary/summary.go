// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
)

// A Summary is what was added up from Start to End, in ns of CLOCK_MONOTONIC.
type Summary struct {
	Start, End uint64
	Tables     []Filled
	// Lost are the calls that no row has, by cause. With several summaries in a run each has
	// those of its own time.
	Lost []event.Loss
	// Last says that no other summary follows.
	Last bool
	// Stacks has what keys of $stack and $ustack stand for; nil if there are none.
	Stacks Stacks
}

// All returns the tables without their rows. They are the same in all summaries of a run.
func (s *Summary) All() *Tables {
	t := &Tables{}
	for i := range s.Tables {
		t.List = append(t.List, s.Tables[i].Table)
	}
	return t
}

// A Filled is a table with its rows, in no order.
type Filled struct {
	*Table
	Rows []Row
}

// A Row is what was added up for one key.
type Row struct {
	Key    []byte   // where Table.Key says; empty for a table without keys
	Faults uint64   // bit i is set: key i could not be read, and its bytes are 0
	Words  []uint64 // as expr.Aggregation says
}

// Stacks resolve the numbers in keys of $stack and $ustack.
type Stacks interface {
	// Stack returns a stack by its number. ok is false if there is none, as for number 0.
	Stack(number uint64, user bool) (s Stack, ok bool)
}

// A Stack is a stack of the kernel or of a process.
type Stack struct {
	Addresses []uint64 // the innermost one first
	Cut       bool     // there are more
	// Task is a thread of the process that a stack in user space is of: its numbers and its name.
	Task bpf.Event
}
