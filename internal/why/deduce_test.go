// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// TestMayDeduce: where nothing can be deduced, no run is made for it. There is no kernel here that
// could be looked into, nor a command.
func TestMayDeduce(t *testing.T) {
	setns := func(e unix.Errno) Failure {
		f := call("setns", e, "")
		f.Params = []kernel.Field{{Decl: "int", Name: "fd"}}
		return f
	}
	inside := Place{Inside: "__do_sys_setns", Whole: true}
	part, open, none := inside, inside, inside
	part.Inside, open.Whole, none.Inside = "__do_sys_setns.part.0", false, ""
	for _, tt := range []struct {
		name   string
		arch   string
		place  Place
		failed unix.Errno
		want   bool
	}{
		{"the code tells", "x86_64", inside, unix.EINVAL, true},
		{"no code of arm64", "aarch64", inside, unix.EINVAL, false},
		{"a part of a function", "x86_64", part, unix.EINVAL, false},
		{"it may have been another function", "x86_64", open, unix.EINVAL, false},
		{"it takes a probe", "x86_64", none, unix.EINVAL, false},
		{"an error of what allocates", "x86_64", inside, unix.ENOMEM, false},
		{"an error of what waits", "x86_64", inside, unix.EINTR, false},
		{"another one", "x86_64", inside, unix.EAGAIN, false},
		{"an error of what copies", "x86_64", inside, unix.EFAULT, false},
	} {
		r := &Runner{Kernel: kernel.Open(fstest.MapFS{"proc/sys/kernel/arch": {Data: []byte(tt.arch + "\n")}})}
		f := setns(tt.failed)
		if got := r.mayDeduce(&f, &tt.place); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		if tt.want || tt.place.Inside == "" || tt.failed == unix.EFAULT {
			continue
		}
		if taken, _, err := r.Way(t.Context(), &Seen{Calls: []Failure{f}}, 0, &tt.place, nil); taken != nil || err != nil {
			t.Errorf("%s: %+v %v", tt.name, taken, err)
		}
	}
}
