// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// describeArgs names the arguments that are captured of a function: the word of each
// and, of what it points to, the size.
func describeArgs(f *Probe) string {
	var b strings.Builder
	for _, a := range f.Args {
		fmt.Fprintf(&b, "%s=%d", a.Param.Name, a.Word)
		if a.Target != nil {
			fmt.Fprintf(&b, " to %d", a.Size)
		}
		if a.Text {
			b.WriteString(" text")
		}
		b.WriteString("; ")
	}
	return b.String()
}

// TestSyscallArgs: of a function that serves a system call, the parameters of that are
// captured. They are those of its tracepoint.
func TestSyscallArgs(t *testing.T) {
	view := targetKernel(t)
	resolve := func(name string) *Probe {
		t.Helper()
		spec, err := expr.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := ResolveSession(view, SessionRequest{Entry: []*expr.Spec{spec}, Args: true}, Options{Arch: "amd64"})
		if err != nil {
			t.Fatal(err)
		}
		return s.Probes[0]
	}
	openat := resolve("__x64_sys_openat")
	want := "dfd=0; filename=1 to 256 text; sk=2 to 16; mode=3; "
	if got := describeArgs(openat); got != want {
		t.Errorf("openat: %s, want %s", got, want)
	}
	restored, err := Restore(view, []Recorded{{Func: openat.Func, Method: openat.Method, Role: layout.RoleEntry, Syscall: openat.Syscall}}, true, true, Options{Arch: "amd64"})
	if err != nil || describeArgs(restored.Probes[0]) != want {
		t.Errorf("restored: %v, %s", err, describeArgs(restored.Probes[0]))
	}
	if got := describeArgs(resolve("syscall:openat")); got != want {
		t.Errorf("syscall:openat: %s, want %s", got, want)
	}
	// Nothing is known of its parameters: there are the registers.
	if f := resolve("__x64_sys_newuname"); f.Syscall != nil || len(f.Args) != 6 {
		t.Errorf("newuname: %+v", f)
	}
	if got, want := describeArgs(resolve("send")), "sk=0 to 16; count=1; "; got != want {
		t.Errorf("send: %s, want %s", got, want)
	}
}
