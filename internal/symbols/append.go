// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/symname"
)

// Appender returns a function that appends the name of what lies at an address of a kernel,
// as in "tcp_v4_rcv+0x10", and nothing for an address that is not the kernel's or has no
// name.
func Appender(view *kernel.View) func(dst []byte, addr uint64) []byte {
	return func(dst []byte, addr uint64) []byte {
		if addr>>63 == 0 {
			return dst
		}
		s, ok := view.Symbol(addr)
		switch {
		case !ok:
			return dst
		case s.Offset == 0:
			return symname.Append(dst, s.Name, s.Module)
		}
		return symname.AppendAt(dst, s.Name, s.Offset, s.Module)
	}
}
