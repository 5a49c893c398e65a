// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/vm"
)

// The functions whose ways are compared: what system calls of testdata/ways/random.c reach.
var wayFunctions = strings.Fields(`array_map_alloc_check htab_map_alloc_check map_create __sys_bpf bpf_map_alloc
	do_fcntl ksys_lseek vfs_llseek __x64_sys_fcntl __x64_sys_dup3 ksys_dup3 do_pipe2 create_pipe_files __sys_socket __sock_create
	__sys_bind __sys_setsockopt __sys_getsockopt __sys_listen sk_setsockopt sk_getsockopt do_mprotect_pkey do_madvise __x64_sys_mremap __x64_sys_msync
	do_sched_setscheduler __x64_sys_sched_getparam __x64_sys_setpriority __x64_sys_getpriority do_prlimit __x64_sys_prlimit64 do_epoll_create do_epoll_ctl
	__x64_sys_timerfd_create do_eventfd __x64_sys_memfd_create do_inotify_init ksys_semget ksys_shmget ksys_msgget ipcget newque newseg newary
	do_sys_ftruncate ksys_fallocate vfs_fallocate do_faccessat do_sys_openat2 build_open_flags path_openat link_path_walk.part.0.constprop.0 do_mkdirat do_unlinkat
	filename_parentat filename_lookup do_renameat2 do_statx do_readlinkat do_fchmodat do_utimes __x64_sys_getrusage getrusage ksys_umask
	__x64_sys_personality __x64_sys_getitimer do_timer_create __x64_sys_clock_gettime __x64_sys_clock_getres __x64_sys_membarrier do_mlock __x64_sys_mincore
	kernel_get_mempolicy do_tkill do_send_specific __x64_sys_rt_sigprocmask sigprocmask do_sigaltstack __x64_sys_capget __x64_sys_keyctl
	keyctl_get_keyring_ID keyctl_join_session_keyring lookup_user_key alloc_fd alloc_empty_file getname_flags getname_flags.part.0 strncpy_from_user
	find_vma find_task_by_vpid inet_create inet_bind unix_create cap_capable security_capable generic_permission inode_permission
	walk_component step_into lookup_fast complete_walk path_init terminate_walk set_nameidata path_lookupat may_open do_open
	vfs_statx vfs_fstatat cp_statx user_path_at filename_create start_dir_add d_lookup __d_lookup copy_from_sockptr_offset sockfd_lookup_light
	rw_verify_area fget_raw __fget_light fdget_pos expand_files do_dup2 filp_flush filp_close fput locks_remove_posix
	mas_walk vma_merge mlock_fixup apply_vma_lock_flags untagged_addr security_file_open check_fsmapping`)

// waysScript traces each batch of functions, and before it runs the same without. All output but
// the recordings goes to standard error.
const waysScript = `cd /tmp
n=0
while read -r names; do
	specs=
	for f in $names; do
		grep -qx "$f" /sys/kernel/tracing/available_filter_functions && specs="$specs $f(path())"
	done
	[ -n "$specs" ] || continue
	random mark
	random $1 $2
	random mark
	IFS=' '
	ksnoop trace --yes -s none --ringbuf 64M --record /tmp/$n.ks $(echo $specs | sed 's/^ //') -- random $1 $2 >&2
	random mark
	n=$((n + 1))
done < /batches
tar cf - *.ks
`

// TestWaysQEMU compares ways with what QEMU says it has executed, of the same calls: it logs each
// piece of code that it enters.
func TestWaysQEMU(t *testing.T) {
	if os.Getenv("KSNOOP_SOAK") == "" {
		t.Skip("KSNOOP_SOAK is not set: a guest takes minutes")
	}
	cache, err := vm.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	root, err := cache.DebugInfo(context.Background(), "6.12")
	if err != nil {
		t.Skip(err)
	}
	files, _ := filepath.Glob(filepath.Join(root, "usr/lib/debug/boot/vmlinux-*"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	wanted := wayFunctions
	if some := os.Getenv("KSNOOP_WAYS"); some != "" {
		wanted = strings.Fields(some)
	}
	names, ranges, mark := wayRanges(t, files[0], wanted)
	dir := t.TempDir()
	log := filepath.Join(dir, "qemu.log")
	archive := runWays(t, dir, log, names, ranges)
	segments := executed(t, log, mark)
	calls, wrong, unknown, blocks, functions := 0, 0, 0, 0, map[string]bool{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSuffix(h.Name, ".ks"))
		if err != nil || 3*n+2 >= len(segments) {
			t.Fatalf("%s: %d segments, %v", h.Name, len(segments), err)
		}
		c := comparison{t: t, functions: functions, truth: segments[3*n+2]}
		c.recording(r)
		calls, wrong, unknown, blocks = calls+c.calls, wrong+c.wrong, unknown+c.unknown, blocks+c.blocks
	}
	t.Logf("%d functions, %d calls, %d wrong; %d of %d blocks unknown (%.2f %%)", len(functions), calls, wrong, unknown, blocks, 100*float64(unknown)/float64(max(blocks, 1)))
	if wrong > 0 || calls == 0 || unknown*20 > blocks {
		t.Error("wrong ways, or too much that is unknown")
	}
}

// wayRanges returns those of the wanted functions that the kernel has, the filter of their code for QEMU, and
// the address of the mark.
func wayRanges(t *testing.T, vmlinux string, wanted []string) (names, ranges []string, mark uint64) {
	t.Helper()
	f, err := elf.Open(vmlinux)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, s := range symbols {
		count[s.Name]++
	}
	for _, s := range symbols {
		base, cold := strings.CutSuffix(s.Name, ".cold")
		switch {
		case s.Name == "__x64_sys_sethostname":
			mark = s.Value
			ranges = append(ranges, fmt.Sprintf("%#x+1", s.Value))
		case count[base] == 1 && slices.Contains(wanted, base) && elf.ST_TYPE(s.Info) == elf.STT_FUNC:
			ranges = append(ranges, fmt.Sprintf("%#x+%#x", s.Value, s.Size))
			if !cold {
				names = append(names, s.Name)
			}
		}
	}
	slices.Sort(names)
	return names, ranges, mark
}

// runWays runs the script in a guest whose QEMU logs. It returns the archive of recordings.
func runWays(t *testing.T, dir, log string, names, ranges []string) []byte {
	t.Helper()
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip(err)
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" -d exec,nochain -dfilter %s -D %s\n", qemu, strings.Join(ranges, ","), log)
	batches := ""
	for batch := range slices.Chunk(names, 20) {
		batches += strings.Join(batch, " ") + "\n"
	}
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("qemu-system-x86_64", wrapper, 0o700)
	program := filepath.Join(dir, "random")
	if out, err := exec.Command("gcc", "-O1", "-static", "-o", program, "testdata/ways/random.c").CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	seed, count := "1", "2000"
	if s := os.Getenv("KSNOOP_SEED"); s != "" {
		seed = s
	}
	cmd := exec.Command("go", "run", "../vm/guestrun", "-kernel", "6.12", "-cpus", "1", "-timeout", "60m", "-append", "nokaslr",
		"-file", program+":/bin/random", "-file", write("batches", batches, 0o600)+":/batches", "-file", write("ways.sh", waysScript, 0o600)+":/ways.sh", "sh", "/ways.sh", seed, count)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	t.Logf("%s", errs.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// executed reads QEMU's log: where it entered code, between marks.
func executed(t *testing.T, log string, mark uint64) (segments [][]uint64) {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	segments = [][]uint64{nil}
	s := bufio.NewScanner(f)
	for s.Scan() {
		_, inside, _ := strings.Cut(s.Text(), "[")
		fields := strings.Split(inside, "/")
		if len(fields) < 3 {
			continue
		}
		pc, err := strconv.ParseUint(fields[1], 16, 64)
		if err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		if pc == mark {
			segments = append(segments, nil)
			continue
		}
		last := &segments[len(segments)-1]
		*last = append(*last, pc)
	}
	return segments
}

// A comparison compares a recording with what was executed.
type comparison struct {
	t                             *testing.T
	truth                         []uint64
	functions                     map[string]bool
	calls, wrong, unknown, blocks int
}

func (c *comparison) recording(in io.Reader) {
	r, err := record.NewReader(in)
	if err != nil {
		c.t.Fatal(err)
	}
	ways := make([][]*event.Path, len(r.Plan().Probes))
	for e, err := range event.All(r.Plan(), r.Records()) {
		if err != nil {
			c.t.Fatal(err)
		}
		if e.Probe == nil {
			continue
		}
		path, ok := e.Path()
		if !ok || path.Way == nil {
			c.t.Errorf("%s: a call without its way", e.Probe.Name)
			continue
		}
		ways[e.Event.Probe] = append(ways[e.Event.Probe], &path)
	}
	for i, p := range r.Plan().Probes {
		c.function(p, ways[i], waysOf(p, c.truth))
	}
}

// function compares the calls of one function. The executed ways are those of all processes, in
// the same order: as many calls as possible are paired.
func (c *comparison) function(p *plan.Probe, calls []*event.Path, truth [][]bool) {
	if len(calls) == 0 {
		return
	}
	c.functions[p.Name] = true
	c.calls += len(calls)
	for _, path := range calls {
		c.blocks += len(path.Way.Blocks)
		for _, s := range path.Way.Blocks {
			if s == code.Unsure {
				c.unknown++
			}
		}
	}
	best := make([][]int, len(calls)+1) // pairs of the calls from one on and the ways from another on
	for i := range best {
		best[i] = make([]int, len(truth)+1)
	}
	for i := len(calls) - 1; i >= 0; i-- {
		for j := len(truth) - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if fits(calls[i].Way.Blocks, truth[j]) {
				best[i][j] = max(best[i][j], 1+best[i+1][j+1])
			}
		}
	}
	wrong := len(calls) - best[0][0]
	c.wrong += wrong
	if wrong == 0 {
		return
	}
	c.t.Errorf("%s: %d of %d calls do not fit what was executed, %d ways", p.Name, wrong, len(calls), len(truth))
	for i, j := 0, 0; i < len(calls); {
		switch {
		case j < len(truth) && best[i][j] == best[i][j+1]:
			j++
		case j < len(truth) && fits(calls[i].Way.Blocks, truth[j]):
			i, j = i+1, j+1
		default:
			c.t.Logf("%s: call %d, broken %d, missing %d; nearest: %s", p.Name, i, calls[i].Way.Broken, calls[i].Missing, nearest(p.Way, calls[i].Way.Blocks, truth))
			i++
		}
	}
}

func fits(states []code.State, way []bool) bool {
	for i, s := range states {
		if s == code.Passed && !way[i] || s == code.NotPassed && way[i] {
			return false
		}
	}
	return true
}

// nearest says where the executed way that differs least from another differs.
func nearest(w *plan.Way, states []code.State, truth [][]bool) (text string) {
	least := len(states) + 1
	for _, way := range truth {
		n, differs := 0, ""
		for i, s := range states {
			if s == code.Passed && !way[i] || s == code.NotPassed && way[i] {
				n++
				differs += fmt.Sprintf(" %s (executed: %v)", w.Code.Place(w.Graph().Blocks[i].Start), way[i])
			}
		}
		if n < least {
			least, text = n, differs
		}
	}
	return text
}

// waysOf returns which blocks each call of a function entered, in order.
func waysOf(p *plan.Probe, pcs []uint64) (ways [][]bool) {
	if p.Way == nil {
		return nil
	}
	g := p.Way.Graph()
	for _, pc := range pcs {
		n := slices.IndexFunc(g.Blocks, func(b code.Block) bool { return b.Start <= pc && pc < b.End })
		if n < 0 {
			continue
		}
		if pc == p.Way.Code.Parts[0].Addr {
			ways = append(ways, make([]bool, len(g.Blocks)))
		}
		if len(ways) == 0 {
			continue
		}
		for way := ways[len(ways)-1]; n != code.None && !way[n]; n = fallsInto(p.Way, n) {
			way[n] = true
		}
	}
	return ways
}

// fallsInto returns the block that is entered from another without a jump, or None.
func fallsInto(w *plan.Way, block int) int {
	g := w.Graph()
	b := &g.Blocks[block]
	for i := range g.Instructions {
		in := &g.Instructions[i]
		if in.End() == b.End && in.Addr >= b.Start && strings.HasPrefix(w.Code.Mnemonic(in.Addr), "j") {
			return code.None
		}
	}
	if b.Fault != code.None {
		return code.None
	}
	return b.Next
}
