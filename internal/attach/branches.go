// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BranchKinds is a set of kinds of branches that a CPU is to record, as in the
// branch_sample_type of perf_event_open(2).
type BranchKinds uint64

// AllBranches is every kind: no branch is missing between two others.
const AllBranches = BranchKinds(unix.PERF_SAMPLE_BRANCH_ANY)

// branchKinds is never changed.
var branchKinds = [...]struct {
	name string
	bits BranchKinds
}{
	{"any", AllBranches},
	{"any_call", unix.PERF_SAMPLE_BRANCH_ANY_CALL},
	{"any_return", unix.PERF_SAMPLE_BRANCH_ANY_RETURN},
	{"cond", unix.PERF_SAMPLE_BRANCH_COND},
	{"call", unix.PERF_SAMPLE_BRANCH_CALL},
	{"ind_call", unix.PERF_SAMPLE_BRANCH_IND_CALL},
	{"ind_jump", unix.PERF_SAMPLE_BRANCH_IND_JUMP},
	{"call_stack", unix.PERF_SAMPLE_BRANCH_CALL_STACK},
	{"abort_tx", unix.PERF_SAMPLE_BRANCH_ABORT_TX},
	{"in_tx", unix.PERF_SAMPLE_BRANCH_IN_TX},
	{"no_tx", unix.PERF_SAMPLE_BRANCH_NO_TX},
}

// DefaultBranches are returns: of those, one record tells most.
const DefaultBranches = "any_return"

// ParseBranchKinds reads kinds by name or number, separated by commas.
func ParseBranchKinds(text string) (BranchKinds, error) {
	var kinds BranchKinds
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if n, err := strconv.ParseUint(name, 0, 64); err == nil && n != 0 {
			kinds |= BranchKinds(n)
			continue
		}
		i := slices.IndexFunc(branchKinds[:], func(k struct {
			name string
			bits BranchKinds
		}) bool {
			return k.name == name
		})
		if i < 0 {
			var names []string
			for _, k := range branchKinds {
				names = append(names, k.name)
			}
			return 0, fmt.Errorf("%q is no kind of branch; there are %s, and numbers", name, strings.Join(names, ", "))
		}
		kinds |= branchKinds[i].bits
	}
	return kinds, nil
}

// A NoBranchesError says that no CPU records branches.
type NoBranchesError struct{ Err error }

func (e *NoBranchesError) Unwrap() error { return e.Err }

// errNoSnapshot says that it does not matter what the CPUs record.
var errNoSnapshot = errors.New("this kernel offers BPF no branch snapshot")

// Error says what it takes.
func (e *NoBranchesError) Error() string {
	if errors.Is(e.Err, errNoSnapshot) {
		return e.Err.Error()
	}
	text := fmt.Sprintf("the CPUs record no branches for us (%v): this takes Intel LBR or AMD LbrExtV2", e.Err)
	switch {
	case errors.Is(e.Err, unix.EACCES), errors.Is(e.Err, unix.EPERM):
		return text + "; and the right to use it: run as root"
	case errors.Is(e.Err, unix.EBUSY):
		return text + "; and that nobody else uses it"
	case errors.Is(e.Err, unix.EINVAL):
		return text + "; and it may not know these kinds of branches"
	}
	return text + ", which virtual machines seldom pass on"
}

// A Branches keeps the CPUs recording branches.
type Branches struct {
	fds []int
	// Failed are the CPUs that record none.
	Failed []CPUFailure
}

// A CPUFailure is a CPU that records no branches.
type CPUFailure struct {
	CPU int
	Err error
}

// errOffline is the failure of a CPU that is not running.
var errOffline = errors.New("it is offline")

// OpenBranches has every CPU record branches of some kinds, those in the kernel.
// A CPU that cannot does not keep others from it; if none can, or the kernel
// does not let programs have the records, the error is a *NoBranchesError.
func OpenBranches(kinds BranchKinds) (*Branches, error) {
	b, err := openBranches(kinds)
	var none *NoBranchesError
	if err == nil && runtime.GOARCH == "amd64" || err != nil && !errors.As(err, &none) {
		return b, err
	}
	// Linux 7.3 has a driver for Arm's BRBE, but no snapshot of what that records.
	if offered, e := offersSnapshot(os.DirFS("/proc")); e == nil && !offered {
		if b != nil {
			b.Close()
		}
		return nil, &NoBranchesError{errNoSnapshot}
	}
	return b, err
}

// offersSnapshot reports whether some driver of the kernel's takes the snapshots
// that bpf_get_branch_snapshot returns. That calls it through a static call, and
// nobody can see where this leads; what serves it has a name such as
// intel_pmu_snapshot_branch_stack.
func offersSnapshot(proc fs.FS) (bool, error) {
	f, err := proc.Open("kallsyms")
	if err != nil {
		return false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Bytes()
		if bytes.Contains(line, []byte("snapshot")) && bytes.Contains(line, []byte("branch_stack")) && !bytes.Contains(line, []byte(" __SC")) {
			return true, nil
		}
	}
	return false, lines.Err()
}

func openBranches(kinds BranchKinds) (*Branches, error) {
	online, present, err := cpus(os.DirFS("/sys/devices/system/cpu"))
	if err != nil {
		return nil, fmt.Errorf("finding the CPUs: %w", err)
	}
	b := &Branches{}
	for _, cpu := range present {
		if !slices.Contains(online, cpu) {
			b.Failed = append(b.Failed, CPUFailure{cpu, errOffline})
			continue
		}
		fd, err := openBranchEvent(cpu, kinds)
		if err != nil {
			b.Failed = append(b.Failed, CPUFailure{cpu, err})
			continue
		}
		b.fds = append(b.fds, fd)
	}
	if len(b.fds) == 0 {
		i := slices.IndexFunc(b.Failed, func(f CPUFailure) bool { return f.Err != errOffline })
		return nil, &NoBranchesError{b.Failed[max(i, 0)].Err}
	}
	return b, nil
}

// openBranchEvent opens an event that never fires. Recording is what it brings
// about, as long as it is open.
func openBranchEvent(cpu int, kinds BranchKinds) (int, error) {
	attr := unix.PerfEventAttr{
		Type:               unix.PERF_TYPE_HARDWARE,
		Size:               uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config:             unix.PERF_COUNT_HW_CPU_CYCLES,
		Sample:             1 << 40, // a period, in cycles
		Sample_type:        unix.PERF_SAMPLE_BRANCH_STACK,
		Branch_sample_type: uint64(kinds) | unix.PERF_SAMPLE_BRANCH_KERNEL,
	}
	return unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

// Close stops the recording.
func (b *Branches) Close() error {
	var errs []error
	for _, fd := range b.fds {
		errs = append(errs, unix.Close(fd))
	}
	b.fds = nil
	return errors.Join(errs...)
}

// cpus returns which CPUs run and which there are.
func cpus(sys fs.FS) (online, present []int, err error) {
	for _, list := range []struct {
		name string
		to   *[]int
	}{{"online", &online}, {"present", &present}} {
		text, err := fs.ReadFile(sys, list.name)
		if err != nil {
			return nil, nil, err
		}
		if *list.to, err = parseCPUs(strings.TrimSpace(string(text))); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", list.name, err)
		}
	}
	return online, present, nil
}

// parseCPUs reads a list such as "0-3,8".
func parseCPUs(text string) ([]int, error) {
	var cpus []int
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, err := strconv.ParseUint(from, 10, 16)
		if err != nil {
			return nil, err
		}
		hi, err := strconv.ParseUint(to, 10, 16)
		if err != nil {
			return nil, err
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}
