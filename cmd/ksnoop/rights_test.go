// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A right is what a feature needs besides CAP_BPF and CAP_PERFMON. It is a line of the
// table in docs/safety.md.
type right struct {
	feature string
	needs   []uintptr
	args    string // with which it is tried
	shows   string // what only one who has the right sees
	lacks   string // what the others are told
}

// paranoid is the feature of which a sysctl of Debian and Ubuntu makes one more need.
const paranoid = "kprobes and `tp:` where `kernel.perf_event_paranoid` is 3, as Debian and Ubuntu have it"

var capabilityNames = map[uintptr]string{unix.CAP_SYSLOG: "CAP_SYSLOG", unix.CAP_DAC_READ_SEARCH: "CAP_DAC_READ_SEARCH",
	unix.CAP_DAC_OVERRIDE: "CAP_DAC_OVERRIDE", unix.CAP_SYS_ADMIN: "CAP_SYS_ADMIN"}

const readWork = " -- workload read -count 3 -size 37"

var rights = []right{
	{"calls and sessions by fentry and fexit, `rawtp:`, `--ustack` of processes of the same user", nil,
		"trace --attach=fentry vfs_read(count==37,return)" + readWork, "workload", ""},
	{"calls by a kprobe or kretprobe", nil, "trace --attach=kprobe vfs_read(return==37)" + readWork, "workload", ""},
	{"names of kernel functions in stacks and values", []uintptr{unix.CAP_SYSLOG},
		"trace -s none --stack vfs_read(count==37)" + readWork, "ksys_read+", "run as root or with CAP_SYSLOG to get addresses of functions"},
	{"kprobe.multi and kprobe.session", []uintptr{unix.CAP_SYSLOG}, "trace --attach=multi vfs_read(count==37)" + readWork, "workload",
		"run as root or with CAP_SYSLOG to get addresses of functions"},
	{"`tp:` tracepoints", []uintptr{unix.CAP_DAC_READ_SEARCH}, "trace tp:sched:sched_switch(prev_comm==\"workload\")" + readWork, "workload",
		"run as root or with CAP_DAC_READ_SEARCH to get the fields of a tracepoint"},
	{"kprobes at 16 functions or more", []uintptr{unix.CAP_SYSLOG, unix.CAP_DAC_OVERRIDE}, "trace --attach=kprobe -n workload vfs_*" + readWork, "vfs_read(", "with CAP_"},
	{paranoid, []uintptr{unix.CAP_SYS_ADMIN}, "trace --attach=kprobe vfs_read(count==37)" + readWork, "workload", "with CAP_SYS_ADMIN"},
}

// TestRightsDocumented: the table is what the live test tries.
func TestRightsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/safety.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rights {
		names := []string{"nothing"}
		for i, c := range r.needs {
			names = append(names[:i], capabilityNames[c])
		}
		if row := "| " + r.feature + " | " + strings.Join(names, ", ") + " |\n"; !strings.Contains(string(text), row) {
			t.Errorf("docs/safety.md lacks\n%s", row)
		}
	}
}

// TestLackingCapability: what a message says is lacking is what the table says is needed.
func TestLackingCapability(t *testing.T) {
	const tracefs = "/sys/kernel/tracing/"
	open := func(file string) error {
		return fmt.Errorf("attaching: %w", &fs.PathError{Op: "open", Path: tracefs + file, Err: fs.ErrPermission})
	}
	for feature, err := range map[string]error{
		"`tp:` tracepoints":               open("events/sched/sched_switch/id"),
		"kprobes at 16 functions or more": open("kprobe_events"),
		paranoid:                          fmt.Errorf("opening perf event: %w", unix.EACCES),
	} {
		i := slices.IndexFunc(rights, func(r right) bool { return r.feature == feature })
		if name := lackingCapability(err); i < 0 || !slices.ContainsFunc(rights[i].needs, func(c uintptr) bool { return capabilityNames[c] == name }) {
			t.Errorf("%s: %s", feature, name)
		}
	}
}
