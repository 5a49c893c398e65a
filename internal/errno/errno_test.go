// SPDX-License-Identifier: Apache-2.0

package errno

import "testing"

// The names are checked against the C compiler's headers in btfprint and
// against include/linux/errno.h in expr; here is what they do not say.
func TestName(t *testing.T) {
	for n, want := range map[uint64]string{22: "EINVAL", 11: "EAGAIN", 35: "EDEADLK", 95: "EOPNOTSUPP", 524: "ENOTSUPP",
		0: "", 41: "", 520: "", 4000: "", ^uint64(21): ""} {
		if got := Name(n); got != want {
			t.Errorf("Name(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, name := range All() {
		n, ok := Number(name)
		if !ok || Name(uint64(n)) != name {
			t.Errorf("Number(%q) = %d, %v, which is %q", name, n, ok, Name(uint64(n)))
		}
	}
	for name, want := range map[string]int{"EWOULDBLOCK": 11, "EDEADLOCK": 35, "ENOTSUP": 95} { // asm-generic/errno.h; ENOTSUP of the C library
		if n, ok := Number(name); n != want || !ok {
			t.Errorf("Number(%q) = %d, %v, want %d", name, n, ok, want)
		}
	}
	for _, name := range []string{"", "EWHATEVER", "einval"} {
		if n, ok := Number(name); ok {
			t.Errorf("Number(%q) = %d", name, n)
		}
	}
}
