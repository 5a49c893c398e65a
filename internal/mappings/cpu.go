// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A cpu is one that is on. Since is another number each time that it is switched on, also when the machine wakes up: the inode
// of its topology, which the kernel makes anew (drivers/base/topology.c); 0 without sysfs.
type cpu struct {
	number int
	since  uint64
}

const cpusDir = "/sys/devices/system/cpu/"

// onlineCPUs returns the CPUs that events can be opened on.
func onlineCPUs() ([]cpu, error) {
	text, err := os.ReadFile(cpusDir + "online")
	if errors.Is(err, os.ErrNotExist) {
		cpus := make([]cpu, runtime.NumCPU())
		for i := range cpus {
			cpus[i].number = i
		}
		return cpus, nil
	}
	if err != nil {
		return nil, err
	}
	numbers, err := parseList(string(text))
	cpus := make([]cpu, len(numbers))
	for i, n := range numbers {
		var topology unix.Stat_t
		if unix.Stat(fmt.Sprintf("%scpu%d/topology", cpusDir, n), &topology) == nil {
			cpus[i].since = topology.Ino
		}
		cpus[i].number = n
	}
	return cpus, err
}

// parseList reads a list as "0-3,8".
func parseList(text string) (list []int, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, err
		}
		last, err := strconv.Atoi(to)
		if err != nil || last-first > 1<<16 {
			return nil, fmt.Errorf("%q is no range of CPUs", part)
		}
		for ; first <= last; first++ {
			list = append(list, first)
		}
	}
	return list, nil
}
