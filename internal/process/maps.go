// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/timeout"
)

// mostSpaces is how many processes are remembered.
const mostSpaces = 4096

// mostKept bounds what is remembered of mapped files and of generated code, in bytes. One file
// more may be read.
const mostKept = 512 << 20

// mostMaps bounds what is read of one process's maps, in bytes: lines may be long.
const mostMaps = 16 << 20

var errCutMaps = errors.New("maps: too long to be read whole")

// A mapping is an executable line of /proc/PID/maps.
type mapping struct {
	start, end, offset uint64
	file               fileID
}

// A fileID identifies a mapped file. A file of the same name in another container has
// another inode. Where the kernel tells the build ID, it tells no inode.
type fileID struct{ device, inode, path, buildID string }

// anonymous is what perf_event_open calls a mapping of no file, as of generated code. /proc/PID/maps has no name for it.
const anonymous = "//anon"

// vdso is the code that the kernel maps into every process.
const vdso = "[vdso]"

// vsyscall is at the same place in each process, and perf_event_open does not tell of it.
const vsyscall = "[vsyscall]"

// parseMaps returns the executable mappings, sorted; with errCutMaps, some of them. Lines look like
//
//	7f2c1a028000-7f2c1a1bd000 r-xp 00028000 fe:01 131  /usr/lib/libc.so.6
func parseMaps(r io.Reader) ([]mapping, error) {
	var maps []mapping
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	size := 0
	for size < mostMaps && in.Scan() {
		line := in.Text()
		size += len(line)
		fields := strings.Fields(line)
		if len(fields) < 5 || len(fields[1]) < 4 {
			return nil, fmt.Errorf("maps: not a mapping: %.80q", line)
		}
		if fields[1][2] != 'x' {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		m := mapping{file: fileID{device: fields[3], inode: fields[4], path: anonymous}}
		for _, n := range []struct {
			to   *uint64
			text string
		}{{&m.start, from}, {&m.end, to}, {&m.offset, fields[2]}} {
			v, err := strconv.ParseUint(n.text, 16, 64)
			if err != nil {
				return nil, fmt.Errorf("maps: %w", err)
			}
			*n.to = v
		}
		if len(fields) > 5 { // a path may contain blanks
			path := unescape(line[strings.Index(line, fields[5]):])
			m.file.path = path[:min(len(path), unix.PathMax)] // a longer one opens nothing
		}
		if strings.HasPrefix(m.file.path, "[anon:") { // with a name of its own (PR_SET_VMA_ANON_NAME)
			m.file.path = anonymous
		}
		if n := len(maps); n > 0 && maps[n-1].file == m.file {
			m.file = maps[n-1].file // the same strings
		} else { // without the rest of the line, which they are parts of
			m.file = fileID{device: strings.Clone(m.file.device), inode: strings.Clone(m.file.inode), path: strings.Clone(m.file.path)}
		}
		maps = append(maps, m)
	}
	slices.SortFunc(maps, func(a, b mapping) int { return cmp.Compare(a.start, b.start) })
	if size >= mostMaps || errors.Is(in.Err(), bufio.ErrTooLong) {
		return maps, errCutMaps
	}
	return maps, in.Err()
}

// unescape restores newlines in paths, which the kernel escapes.
func unescape(path string) string { return strings.ReplaceAll(path, `\012`, "\n") }

// baseName is the last part of the path, which does not depend on whose root it is seen from.
func (m *mapping) baseName() string { return strings.TrimSuffix(path.Base(m.file.path), " (deleted)") }

// mappingAt returns the mapping that has addr, or nil.
func mappingAt(maps []mapping, addr uint64) *mapping {
	i, found := slices.BinarySearchFunc(maps, addr, func(m mapping, a uint64) int { return cmp.Compare(m.start, a) })
	if !found {
		i--
	}
	if i < 0 || addr >= maps[i].end {
		return nil
	}
	return &maps[i]
}

// An identity distinguishes successive programs with the same process number: each exec
// makes a new address space at new random addresses.
type identity struct{ code, stack string }

// executing reports whether the address space is not complete yet, and has no code but the vsyscall page (load_elf_binary of
// fs/binfmt_elf.c sets start_code when all is mapped).
func (id identity) executing() bool { return id.code == "0" }

// parseStat reads a thread's name and the identity of its address space from
// /proc/PID/task/TID/stat. The name is in parentheses and may contain some itself.
func parseStat(text []byte) (comm string, id identity, ok bool) {
	const startCode, startStack = 26 - firstField, 28 - firstField
	comm, fields := statFields(text)
	if len(fields) <= startStack {
		return "", id, false
	}
	return comm, identity{fields[startCode], fields[startStack]}, true
}

// firstField is what proc(5) counts the first field of stat behind the name as.
const firstField = 3

// statFields returns the name in stat and the fields behind it.
func statFields(text []byte) (comm string, fields []string) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return "", nil
	}
	return string(text[open+1 : end]), strings.Fields(string(text[end+1:]))
}

// otherThreads returns the threads of a process but the main one. Those that are about to end, and may have been told
// to have ended, are left out; those of which this is not known, for lack of descriptors, are not. It fails if /proc
// does not tell the threads of a process that is there.
func otherThreads(root fs.FS, pid uint32) (map[uint32]struct{}, error) {
	others := map[uint32]struct{}{}
	dir := procOf(pid) + "/task"
	threads, err := fs.ReadDir(root, dir)
	if err != nil && !gone(err) {
		return nil, err
	}
	for _, e := range threads {
		tid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || uint32(tid) == pid {
			continue
		}
		text, err := fs.ReadFile(root, dir+"/"+e.Name()+"/stat")
		if err == nil && exits(text) || err != nil && gone(err) {
			continue
		}
		others[uint32(tid)] = struct{}{}
	}
	return others, nil
}

// gone reports whether /proc says by an error that a process or thread has ended.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// exits reports whether stat is that of a thread on its way out, which the kernel does not call a zombie yet.
func exits(stat []byte) bool {
	const pfExiting = 0x4 // PF_EXITING of include/linux/sched.h, set before perf tells of the end
	flags, ok := threadFlags(stat)
	return !ok || flags&pfExiting != 0
}

// ofKernel reports whether stat is that of a thread of the kernel.
func ofKernel(stat []byte) bool {
	const pfKernelThread = 0x200000 // PF_KTHREAD of include/linux/sched.h
	flags, _ := threadFlags(stat)
	return flags&pfKernelThread != 0
}

func threadFlags(stat []byte) (flags uint64, ok bool) {
	const at = 9 - firstField
	_, fields := statFields(stat)
	if len(fields) <= at {
		return 0, false
	}
	flags, err := strconv.ParseUint(fields[at], 10, 32)
	return flags, err == nil
}

// errNoMaps says that a process has ended, is in the middle of an exec, or is a thread of the kernel.
var errNoMaps = errors.New("maps: empty, as of a process that has ended")

func procOf(pid uint32) string { return "proc/" + strconv.FormatUint(uint64(pid), 10) }

// readMaps returns what code a process maps now; of maps that are too long, the beginning.
func readMaps(root fs.FS, pid uint32) ([]mapping, error) {
	maps, err := readSomeMaps(root, pid, mostLocked)
	if errors.Is(err, errCutMaps) {
		err = nil
	}
	return maps, err
}

// mapsReads are reads of mappings. They wait while a thread of the process keeps the mappings locked, as one may that waits for a
// file system of a user's.
var mapsReads = timeout.Calls{
	Most:   64,
	Late:   fmt.Errorf("its mappings were locked for more than %v", mostLocked),
	GoesOn: errors.New("its mappings are locked"),
	Many:   errors.New("the mappings of too many processes are locked"),
}

const mostLocked = time.Second

// readSomeMaps is readMaps, but returns errCutMaps with the beginning, and waits no longer than so long.
func readSomeMaps(root fs.FS, pid uint32, limit time.Duration) ([]mapping, error) {
	type some struct {
		maps []mapping
		err  error
	}
	read, err := timeout.Do(context.Background(), &mapsReads, limit, pid, func() (s some, err error) {
		s.maps, s.err = readMapsOf(root, procOf(pid))
		if !errors.Is(s.err, errNoMaps) && !gone(s.err) {
			return s, nil
		}
		others, _ := otherThreads(root, pid) // a process goes on when its main thread has ended, which has no maps then
		for tid := range others {
			maps, err := readMapsOf(root, fmt.Sprintf("%s/task/%d", procOf(pid), tid))
			if err == nil || errors.Is(err, errCutMaps) {
				return some{maps, err}, nil
			}
		}
		return s, nil
	})
	return read.maps, cmp.Or(err, read.err)
}

// readMapsOf returns what the process of a folder of /proc maps.
func readMapsOf(root fs.FS, folder string) ([]mapping, error) {
	f, err := root.Open(folder + "/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	maps, err := parseMaps(f)
	if err == nil && len(maps) == 0 {
		err = errNoMaps
	}
	return maps, err
}

// mostLockedBefore is how long the mappings of a process may be locked when a breakpoint is to be set.
const mostLockedBefore = 5 * time.Second

// CheckLocks returns an error if a process keeps its mappings locked. To set a breakpoint, the kernel waits for each process
// that has mapped the place, and lets nobody fork meanwhile (register_for_each_vma of kernel/events/uprobes.c, Linux 6.12).
func CheckLocks(ctx context.Context, root fs.FS) error {
	entries, err := fs.ReadDir(root, "proc")
	if err != nil {
		return fmt.Errorf("functions of programs take /proc, to see that no process keeps its memory mappings locked: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil {
			continue
		}
		_, err = timeout.Do(ctx, &mapsReads, mostLockedBefore, uint32(pid), func() (int, error) {
			f, err := root.Open(procOf(uint32(pid)) + "/maps")
			if err != nil {
				return 0, err
			}
			defer f.Close()
			return f.Read(make([]byte, 1)) // this takes the lock
		})
		if mapsReads.GaveUp(err) || ctx.Err() != nil {
			return cmp.Or(context.Cause(ctx), fmt.Errorf("process %d keeps its memory mappings locked: with a breakpoint the kernel would wait for it, and no process could fork", pid))
		}
	}
	return nil
}
