// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
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
		{"the code of arm64 tells", "aarch64", inside, unix.EINVAL, true},
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

// TestDeduceTaken: what the arguments do not tell is told by what the function has called, and said to be.
func TestDeduceTaken(t *testing.T) {
	// test %edi, %edi; js 1f; sub $8, %rsp; nop; call helper; add $8, %rsp; test %eax, %eax; je 1f; cmp $0, (%rax);
	// je 1f; xor %eax, %eax; ret; 1: mov $-22, %eax; ret
	text := []byte{0x85, 0xff, 0x78, 0x1a, 0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0xf2, 0x0f, 0x00, 0x00, 0x48, 0x83, 0xc4, 0x08, 0x85, 0xc0, 0x74, 0x08, 0x83, 0x38, 0x00, 0x74, 0x03, 0x31, 0xc0, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3}
	const entry, helper = 0x1000, 0x2000
	way, err := plan.NewWay(code.Function{Arch: "amd64", Parts: []code.Part{{Addr: entry, Bytes: text}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	way.Callees = code.Callees{{Addr: helper, Name: "helper", Kind: code.Returning, Result: code.Class{Size: 4, Signed: true}}}
	f := call("setns", unix.EINVAL, "")
	f.Params = []kernel.Field{{Decl: "int", Name: "fd"}}
	probe := &plan.Probe{Func: kernel.Function{Name: "__do_sys_setns", Addr: entry, Type: f.prototype("__do_sys_setns")}, Way: way}
	for _, tt := range []struct {
		name   string
		fd     int32
		called []code.Called
		note   string // "": nothing is told
		path   string
	}{
		{"by the argument", -3, nil, " not seen; this is what its code makes of the arguments:", "fd (-3) < 0"},
		{"not by the argument", 3, nil, "", ""},
		{"by what it has called", 3, []code.Called{{Addr: helper, Size: 4, Calls: 1}},
			" not seen; this is what its code makes of the arguments, and of what the functions returned that it has called:", "helper() (0) == 0"},
	} {
		f.Args[0] = uint64(uint32(tt.fd))
		taken := deduce(probe, &f, tt.called)
		if (taken != nil) != (tt.note != "") {
			t.Errorf("%s: %+v", tt.name, taken)
			continue
		}
		if taken != nil && (taken.Note != tt.note || !strings.Contains(strings.Join(taken.Path, "\n"), tt.path) || taken.Args[0].Text != strconv.Itoa(int(tt.fd))) {
			t.Errorf("%s: %+v", tt.name, taken)
		}
	}
}

// TestUntold: the note names all that was looked at.
func TestUntold(t *testing.T) {
	const begins = "which condition refused the call is not known: the kernel lets nobody put a probe on __do_sys_setns, and "
	for _, tt := range []struct {
		place Place
		want  string
	}{
		{Place{}, ""},
		{Place{Inside: "__do_sys_setns"}, begins + "the arguments of the call do not tell"},
		{Place{Inside: "__do_sys_setns", looked: true}, begins + "neither the arguments of the call nor what it has called tell"},
	} {
		if got := tt.place.Untold(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
