// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/session"
)

// TestSameArguments: numbers are compared by their width, and strings. What other pointers lead to is not known.
func TestSameArguments(t *testing.T) {
	text := func(s string) *string { return &s }
	f := func(fd, addr, size uint64, name *string) *Failure {
		return &Failure{Params: []kernel.Field{{Name: "fd", Decl: "int"}, {Name: "addr", Decl: "struct sockaddr *"}, {Name: "len", Decl: "size_t"}, {Name: "name", Decl: "const char *"}},
			Args: [words]uint64{fd, addr, size, 0x1000 + fd, 0xdead ^ fd}, Texts: [words]*string{3: name}}
	}
	first := f(3, 0x1000, 8, text("/a"))
	for name, tt := range map[string]struct {
		later *Failure
		want  bool
	}{
		"the same":                    {f(3, 0x1000, 8, text("/a")), true},
		"other memory":                {f(3, 0x2000, 8, text("/a")), true},
		"beyond the width":            {f(3|1<<32, 0x1000, 8, text("/a")), true},
		"another number":              {f(4, 0x1000, 8, text("/a")), false},
		"beyond the width of another": {f(3, 0x1000, 8|1<<32, text("/a")), false},
		"another string":              {f(3, 0x1000, 8, text("/b")), false},
		"a string that was not read":  {f(3, 0x1000, 8, nil), true},
	} {
		if got := first.sameArguments(tt.later); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
		if got := first.other(tt.later); (got == nil) != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if first.other(nil) != nil {
		t.Error("nothing is known of it")
	}
}

// TestTakes: a failure with other arguments is taken when there was none with the same ones for a while. From
// then on all are.
func TestTakes(t *testing.T) {
	first, same, other := number(0, 0, 0), number(0, 0, 0), number(0, ^uint64(0), 5)
	p := &Process{}
	now := time.Now()
	for i, tt := range []struct {
		later *Failure
		began time.Time
		want  bool
	}{{nil, now, true}, {same, now, true}, {other, now, false}, {other, now, false}, {same, now.Add(-patience), true}, {other, now.Add(-patience), true}, {other, now, true}, {same, now, true}} {
		if got := p.takes(first, tt.later, tt.began); got != tt.want {
			t.Errorf("%d: %t", i, got)
		}
	}
}

// number is a call of fallocate.
func number(mode, offset, size uint64) *Failure {
	return &Failure{PID: 7, Comm: "tool", Function: "__x64_sys_fallocate", Errno: uint64(unix.EINVAL), Args: [words]uint64{3, mode, offset, size},
		Params: []kernel.Field{{Name: "fd", Decl: "int"}, {Name: "mode", Decl: "int"}, {Name: "offset", Decl: "loff_t"}, {Name: "len", Decl: "loff_t"}}}
}

// TestLaterPage: a page tells of which call its functions are, if that is not the one above.
func TestLaterPage(t *testing.T) {
	link := Link{Function: kernel.Function{Name: "vfs_fallocate"}, Text: "-EINVAL"}
	contained := number(0, ^uint64(0), 5)
	contained.Inner = bpf.Inner{PID: 99, TID: 99}
	contained.madeBy(&session.Session{PID: 8, TID: 8, Comm: "tool", Inner: bpf.Inner{PID: 3, TID: 3}})
	for _, tt := range []struct {
		later *Failure
		want  string
	}{
		{nil, "refused in vfs_fallocate (2 more failures):\n"},
		{number(0, ^uint64(0), 5), "what follows is of a later failure, with other arguments:\n    fallocate(3, 0, -1, 5) = -EINVAL\n    by tool[7]\nrefused in vfs_fallocate (2 more failures):\n"},
		{contained, "what follows is of a later failure, with other arguments:\n    fallocate(3, 0, -1, 5) = -EINVAL\n    by tool[8 (own 3)]\nrefused in vfs_fallocate (2 more failures):\n"},
	} {
		p := NewProcessPage(7)
		p.SetPlace(&Place{Chain: []Link{link}, Runs: 2, Whole: true, later: tt.later})
		if got := string(p.AppendPlace(nil)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
