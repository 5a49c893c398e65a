// SPDX-License-Identifier: Apache-2.0

package process

import (
	"io"
	"io/fs"

	"github.com/ksnoop/ksnoop/internal/regular"
	"github.com/ksnoop/ksnoop/internal/unwind"
)

// NoCaller reports whether an address is known to be no return address: no call is before it in the mapped file. A stack by frame
// pointers comes to such an address where a function has used the register for something else.
func (p *Process) NoCaller(addr uint64) bool {
	if p.symbols == nil || addr == 0 {
		return false
	}
	p.symbols.mu.Lock()
	defer p.symbols.mu.Unlock()
	n := p.name(addr, true)
	return p.noCaller(&n)
}

// silent reports whether a file was asked for and has not answered.
func silent(err error) bool { return regular.Unanswered(err) && !regular.Refused(err) }

// noCaller is NoCaller of what is known of a return address. The file may have been read when the process lived, and not be there any
// more, or another one be there: then nothing is known.
func (p *Process) noCaller(n *named) bool {
	// Go's code keeps frame pointers, and its runtime makes frames that no call has made: that of goexit, and those of
	// functions that were preempted by a signal.
	if n.image == nil || n.image.silent || n.image.goCode || !n.mapping.file.named() {
		return false
	}
	at := n.offset + 1
	if no, known := n.image.noCallers[at]; known {
		return no
	}
	// The image is of a file that was the mapped one: which it is tells its version. To read its build ID again may take long.
	f, err := openIf(p.symbols.root, p.inProc(), n.mapping, func(f fs.File) bool {
		of, err := VersionOf(f)
		return err == nil && of == n.image.of || err != nil && n.mapping.file.is(f)
	})
	if f == nil {
		n.image.silent = silent(err)
		return false
	}
	defer func() {
		n.image.silent = silent(unanswered(f))
		f.Close()
	}()
	r, ok := f.(io.ReaderAt)
	if !ok || at > 1<<62 {
		return false
	}
	ahead := min(at, unwind.CallSize)
	code := make([]byte, ahead+unwind.RestorerSize)
	size, _ := r.ReadAt(code, int64(at-ahead)) // a file that is shorter has less code
	if uint64(size) < ahead {
		return false
	}
	no := !unwind.Called(n.image.machine, code[:ahead], code[ahead:size])
	const most = 1 << 12
	before := n.image.keptRows()
	if n.image.noCallers == nil || len(n.image.noCallers) >= most {
		n.image.noCallers = map[uint64]bool{}
	}
	n.image.noCallers[at] = no
	p.symbols.keepRows(n.image, n.image.keptRows()-before)
	return no
}
