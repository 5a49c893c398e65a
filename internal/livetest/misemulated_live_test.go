// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// codeOf returns the symbol of a function and its code.
func codeOf(t *testing.T, view *kernel.View, text *attach.Text, name string) (kernel.Symbol, []byte) {
	t.Helper()
	named, _ := view.SymbolNamed(name, "")
	s, ok := view.Symbol(named.Addr) // with its size
	if !ok {
		t.Fatalf("no symbol %s", name)
	}
	raw, err := text.Read(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, raw
}

// TestLiveMisemulated: a kprobe on a call with a prefix is refused. The kernel would go on inside of
// the instruction behind it: such a probe in do_dentry_open made Linux 6.12 panic.
func TestLiveMisemulated(t *testing.T) {
	guest.Require(t)
	view := kernel.Open(os.DirFS("/"))
	text, err := attach.OpenText()
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	probed := 0
	for _, name := range []string{"do_dentry_open", "vfs_read", "vfs_write", "vfs_mkdir", "path_openat"} {
		s, raw := codeOf(t, view, text, name)
		for _, c := range code.Calls(view.Arch(), raw, s.Addr) {
			if at := c.From - s.Addr; view.Arch() == "amd64" && code.Misemulated(raw[at:]) && probed == 0 {
				probed++
				out, errs, status := printedOnce(t, "ksnoop", "trace", fmt.Sprintf("kprobe:%s+%#x", name, at), "--", "cat", "/etc/passwd")
				if status != 1 || !strings.Contains(errs, "it is a call with a prefix") {
					t.Errorf("status %d:\n%s%s", status, out, errs)
				}
			}
		}
	}
	switch {
	case probed == 0 && view.Arch() == "amd64":
		t.Error("no such call in these functions")
	case probed == 0:
		t.Skipf("on %s no call has a prefix", view.Arch())
	}
}

// TestLivePointer: on arm64 a kprobe on the pointer that the kernel keeps before the next function is refused, and the way
// through a function has none there. Such a probe made Linux 7.3 panic.
func TestLivePointer(t *testing.T) {
	guest.Require(t)
	view := kernel.Open(os.DirFS("/"))
	if view.Arch() != "arm64" {
		t.Skip("only arm64 keeps pointers among code")
	}
	text, err := attach.OpenText()
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	for _, name := range []string{"do_mprotect_pkey", "do_dentry_open", "vfs_read", "vfs_write", "vfs_mkdir", "path_openat"} {
		s, raw := codeOf(t, view, text, name)
		if uint64(len(raw)) == s.Size {
			continue // the next function cannot be traced
		}
		for _, at := range []int{len(raw), len(raw) + 4} {
			out, errs, status := printedOnce(t, "ksnoop", "trace", fmt.Sprintf("kprobe:%s+%#x", name, at), "--", "cat", "/etc/passwd")
			if status != 1 || !strings.Contains(errs, "it is a pointer that the kernel keeps for the next function") {
				t.Errorf("%s+%#x: status %d:\n%s%s", name, at, status, out, errs)
			}
		}
		return
	}
	t.Error("no such pointer behind any of these functions")
}
