// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

var errStack = errors.New("the expression needs more than the 512 bytes of stack that the kernel gives; make it shorter or nest it less")

// Linked are the programs of a probe, ready to load. A field is nil if there is no such
// program; Both excludes the others.
type Linked struct{ Entry, Return, Both asm.Instructions }

// Link links the programs with the engine.
func (out *Programs) Link() (l Linked, err error) {
	switch {
	case out.Joined:
		l.Both, err = bpf.LinkJoined(*out.Either, out.Entry, out.Return)
		return l, err
	case out.Either != nil:
		l.Both, err = bpf.LinkEnds(*out.Either, out.Entry, out.Return)
		return l, err
	}
	if out.Entry != nil {
		if l.Entry, err = bpf.Link(out.Entry...); err != nil {
			return l, err
		}
	}
	if out.Return != nil {
		l.Return, err = bpf.Link(out.Return...)
	}
	return l, err
}

// checkStack returns an error if a program needs more stack than the verifier allows.
// Linking takes time, so it skips programs whose own functions have small frames: the
// engine's functions leave room for those.
func (out *Programs) checkStack(p *layout.Probe) error {
	if largestFrame(out.Entry) <= smallFrame && largestFrame(out.Return) <= smallFrame {
		return nil
	}
	l, err := out.Link()
	if err != nil {
		return err
	}
	for _, insns := range []asm.Instructions{l.Entry, l.Return, l.Both} {
		if len(insns) > 0 && bpf.StackDepth(insns) > bpf.MaxStack {
			return fmt.Errorf("%s: %w", p.Name, errStack)
		}
	}
	return nil
}

// smallFrame is the frame size, in bytes, of a function that spills next to nothing.
const smallFrame = 64

func largestFrame(funcs []bpf.Subprogram) int {
	largest := 0
	for _, f := range funcs {
		largest = max(largest, bpf.FunctionStack(f.Insns))
	}
	return largest
}
