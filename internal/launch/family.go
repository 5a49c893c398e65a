// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"fmt"
	"io/fs"
	"strconv"
)

// Descendants returns processes and all that they have started, directly or
// not, as far as it runs. proc is /proc.
func Descendants(proc fs.FS, pids []int) ([]int, error) {
	entries, err := fs.ReadDir(proc, ".")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := fs.ReadFile(proc, e.Name()+"/stat")
		if err != nil {
			continue // it has ended
		}
		if parent, ok := parentOf(stat); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	seen := map[int]bool{}
	var all []int
	for todo := append([]int{}, pids...); len(todo) > 0; todo = todo[1:] {
		pid := todo[0]
		if seen[pid] {
			continue
		}
		seen[pid] = true
		all = append(all, pid)
		todo = append(todo, children[pid]...)
	}
	return all, nil
}

// parentOf reads the parent out of /proc/PID/stat: "12 (name) S 1 ...". A name
// can hold anything, parentheses included.
func parentOf(stat []byte) (int, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
