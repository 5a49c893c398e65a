// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"errors"
	"fmt"

	"github.com/ksnoop/ksnoop/internal/code"
)

// mostCode bounds how much of a function is decoded.
const mostCode = 1 << 24

// Place returns where in the file the instruction is that begins so many bytes behind the
// beginning of a function. It is an error if none does.
func (f *File) Place(fn *Function, offset uint64) (uint64, error) {
	at, ok := f.offset(fn.Addr)
	if !ok {
		return 0, errors.New("it is not in the file's code")
	}
	if offset == 0 {
		return at, nil
	}
	if fn.Size != 0 && offset >= fn.Size {
		return 0, fmt.Errorf("it ends after %#x bytes", fn.Size)
	}
	if _, ok := f.offset(fn.Addr + offset); !ok || offset > mostCode {
		return 0, errors.New("it is not that long")
	}
	r, err := f.Identity.Reopen(f.Path)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	text := make([]byte, offset+code.Longest)
	n, err := r.ReadAt(text, int64(at))
	if uint64(n) <= offset {
		return 0, errors.Join(errors.New("the file ends before it"), err)
	}
	if err := code.Begins(f.arch, text[:n], offset); err != nil {
		return 0, err
	}
	return at + offset, nil
}
