// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ownMemory returns how much memory this process may have, in bytes: that of the machine, or
// what its control groups allow, which count the memory of BPF maps, too.
func ownMemory() (uint64, error) {
	all, err := machineMemory()
	return min(all, groupMemory(os.DirFS("/"))), err
}

func machineMemory() (uint64, error) {
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		return 0, fmt.Errorf("asking for the machine's memory: %w", err)
	}
	return uint64(machine.Totalram) * uint64(machine.Unit), nil
}

// perCPUReturns is the Linux since which a kretprobe takes memory for each CPU that there may be, of pages of its own
// (lib/objpool.c). No control group accounts for it.
var perCPUReturns = version{6, 12}

// tooManyReturns refuses kretprobes that would take too much of a machine's memory, in bytes.
func tooManyReturns(functions, cpus, page int, memory uint64) error {
	const part = 8
	if need := uint64(functions) * uint64(cpus) * uint64(page); need > memory/part {
		return fmt.Errorf("kretprobes of %d functions take %d MiB for the %d CPUs that this machine may have, more than an eighth of the memory; trace fewer functions, or only their entries", functions, need>>20, cpus)
	}
	return nil
}

// groupMemory returns the least that a control group (of version 2) allows of those that this
// process is in, math.MaxUint64 if none has a limit that can be read.
func groupMemory(root fs.FS) uint64 {
	least := uint64(math.MaxUint64)
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		group, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			text, _ := fs.ReadFile(root, path.Join("sys/fs/cgroup", group, "memory.max"))
			if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil { // or it is "max"
				least = min(least, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

func mebibytes(n int) float64 { return float64(n) / (1 << 20) }
