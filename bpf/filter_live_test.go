// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// filterProgram loads a program that returns what ks_filter says of the task
// that runs it.
func filterProgram(t *testing.T, f Filter) (*ebpf.Program, *ebpf.Collection) {
	t.Helper()
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	spec, err := Engine(Settings{Filter: f, RingSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	spec.Programs = nil
	engine, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	insns, err := Link(Subprogram{Name: "main", Args: 1, Insns: asm.Instructions{
		asm.Mov.Imm(asm.R1, 0), asm.Call.Label(FuncFilter), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range engine.Maps {
		_ = insns.AssociateMap(name, m) // it may not be used
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: insns, License: "GPL"})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { _ = prog.Close() })
	return prog, engine
}

func passes(t *testing.T, prog *ebpf.Program) bool {
	t.Helper()
	ret, err := prog.Run(&ebpf.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ret != 0
}

// setComm renames the calling thread.
func setComm(t *testing.T, name string) {
	t.Helper()
	b := append([]byte(name), 0)
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(unsafe.SliceData(b))), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
}

// globs is the definition of what a glob for names means.
func globs(glob, name string) bool {
	switch {
	case glob == "":
		return name == ""
	case glob[0] == '*':
		return globs(glob[1:], name) || name != "" && globs(glob, name[1:])
	case name == "":
		return false
	}
	return (glob[0] == '?' || glob[0] == name[0]) && globs(glob[1:], name[1:])
}

// TestLiveFilterComm compares the engine with globs on names and globs of few
// different bytes, of which many match.
func TestLiveFilterComm(t *testing.T) {
	guest.Require(t)
	runtime.LockOSThread() // and never unlock: the thread ends with its name
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(alphabet string, n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(alphabet[rng.IntN(len(alphabet))])
		}
		return b.String()
	}
	lists := [][]string{{"ab"}, {"ab*"}, {"*ab"}, {"*ab*"}, {"a*b"}, {"a?b"}, {"?"}, {"*"}, {"*?*"}, {"b", "*aa*", "a?"},
		{"aaaaaaaaaaaaaaa"}, {"aaaaaaaaaaaaaaaaaaaa"}, {"*aaaaaaaaaaaaaaa"}, {"?aaaaaaaaaaaaaa*"}, {"a*a*a*a*b"}}
	for range 20 {
		lists = append(lists, []string{random("ab?*", 1+rng.IntN(6))})
	}
	names := []string{"", "a", "b", "ab", "abab", "aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaab", "baaaaaaaaaaaaaa"}
	for range 40 {
		names = append(names, random("aab", rng.IntN(16)))
	}
	matched := 0
	for i, list := range lists {
		allow, _ := filterProgram(t, Filter{Comms: list})
		var deny *ebpf.Program
		if i < 5 {
			deny, _ = filterProgram(t, Filter{NotComms: list})
		}
		for _, name := range names {
			want := false
			for _, glob := range list {
				if !strings.ContainsAny(glob, "*?") {
					glob = glob[:min(len(glob), 15)]
				}
				want = want || globs(glob, name)
			}
			setComm(t, name)
			if got := passes(t, allow); got != want {
				t.Errorf("%d: %q matches %q: %v, want %v", i, name, list, got, want)
			}
			if deny != nil && passes(t, deny) == want {
				t.Errorf("%d: %q is let through when %q is denied: %v", i, name, list, !want)
			}
			if want {
				matched++
			}
		}
	}
	if matched < 300 {
		t.Errorf("only %d names match: the test shows little", matched)
	}
}

func TestLiveFilterIDs(t *testing.T) {
	guest.Require(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, tid, uid := uint32(os.Getpid()), uint32(unix.Gettid()), uint32(os.Getuid())
	many := func(last uint32) []uint32 {
		var ids []uint32
		for i := range MaxFilterIDs - 1 {
			ids = append(ids, uint32(100000+i))
		}
		return append(ids, last)
	}
	for _, c := range []struct {
		filter Filter
		want   bool
	}{
		{Filter{}, true},
		{Filter{PIDs: []uint32{pid}}, true},
		{Filter{PIDs: []uint32{pid + 1}}, false},
		{Filter{PIDs: many(pid)}, true},
		{Filter{PIDs: many(1)}, false},
		{Filter{PIDs: []uint32{pid}, NotPIDs: []uint32{pid}}, false},
		{Filter{NotPIDs: many(pid)}, false},
		{Filter{NotPIDs: []uint32{1}}, true},
		{Filter{TIDs: []uint32{tid}}, true},
		{Filter{TIDs: []uint32{pid + 100000}}, false},
		{Filter{UIDs: []uint32{uid}}, true},
		{Filter{UIDs: []uint32{uid + 1}}, false},
		{Filter{UIDs: []uint32{uid}, PIDs: []uint32{1}}, false},
	} {
		prog, _ := filterProgram(t, c.filter)
		if got := passes(t, prog); got != c.want {
			t.Errorf("%+v: %v, want %v", c.filter, got, c.want)
		}
	}
	prog, engine := filterProgram(t, Filter{Family: true})
	if passes(t, prog) {
		t.Error("a process that is in no family is let through")
	}
	// User space does not know where the kernel keeps what the threads of a process share; nothing is at ^0.
	for signal, want := range map[uint64]bool{0: true, ^uint64(0): false} {
		if err := engine.Maps[MapFamily].Put(pid, signal); err != nil {
			t.Fatal(err)
		}
		if got := passes(t, prog); got != want {
			t.Errorf("a process of the family with %#x is let through: %v", signal, got)
		}
		var is uint64
		if err := engine.Maps[MapFamily].Lookup(pid, &is); err != nil || is == 0 || want == (is == signal) {
			t.Errorf("what was added with %#x has %#x now; %v", signal, is, err)
		}
	}
}

// TestLiveFilterCgroup runs in a control group three levels below the root.
func TestLiveFilterCgroup(t *testing.T) {
	guest.Require(t)
	root := t.TempDir()
	if err := unix.Mount("none", root, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(root, unix.MNT_DETACH) }()
	id := func(dir string) uint64 {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	enter := func(dir string) {
		if err := os.WriteFile(dir+"/cgroup.procs", []byte(fmt.Sprint(os.Getpid())), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"/a", "/a/b", "/a/b/c", "/a/other"} {
		if err := os.Mkdir(root+dir, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(root + dir) // unmounting leaves it
	}
	enter(root + "/a/b/c")
	defer enter(root)
	for _, c := range []struct {
		dir   string
		level uint32
		want  bool
	}{{"", 0, true}, {"/a", 1, true}, {"/a/b", 2, true}, {"/a/b/c", 3, true}, {"/a/other", 2, false}} {
		prog, _ := filterProgram(t, Filter{Cgroup: Cgroup{ID: id(root + c.dir), Level: c.level}})
		if got := passes(t, prog); got != c.want {
			t.Errorf("in /a/b/c, asked for %q: %v, want %v", c.dir, got, c.want)
		}
	}
}
