// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/seccomp"
)

// A thread gives up its filters by this function when it ends. That is where they are read: the
// parameter leads to them, and nothing has to be stopped, as PTRACE_SECCOMP_GET_FILTER takes.
const releaseFunction = "seccomp_filter_release"

const (
	// mostFilters is how many filters of a thread are read, the newest ones; of each the first 4096 bytes, as much as
	// buf() takes.
	mostFilters = 6
	// mostThreads is how many threads' filters are kept.
	mostThreads = 200
)

// filterItems are the items that ask for the filters of a task, with the length before each.
func filterItems(task string) (lengths, programs []string, left string) {
	filter := task + "->seccomp.filter"
	for range mostFilters {
		program := filter + "->prog->orig_prog"
		lengths = append(lengths, program+"->len")
		programs = append(programs, fmt.Sprintf("buf(%s->filter, %s->len * 8)", program, program))
		filter += "->prev"
	}
	return lengths, programs, filter
}

// filterSpec asks for the filters of threads that end; "" if that is not to be had.
func (r *Runner) filterSpec() string {
	f, ok := r.function(releaseFunction)
	if !ok {
		return ""
	}
	params := f.Type.Type.(*btf.FuncProto).Params
	if len(params) == 0 || params[0].Name == "" {
		return ""
	}
	task := params[0].Name
	lengths, programs, left := filterItems(task)
	items := slices.Concat([]string{task + "->seccomp.filter != 0", task + "->pid", left}, lengths, programs)
	return releaseFunction + "(" + strings.Join(items, ", ") + ")"
}

// filtersOf returns what an event tells that has the items of filterItems of a task.
func filtersOf(task string, e *event.Event, v values) *filters {
	lengths, programs, left := filterItems(task)
	f := &filters{time: e.Time, more: v.number(left) != 0}
	for i, length := range lengths {
		text := v.text(programs[i])
		if text == nil {
			break
		}
		n := v.number(length)
		f.list = append(f.list, seccomp.Decode([]byte(*text)[:min(uint64(len(*text)), n*8)]))
	}
	return f
}
