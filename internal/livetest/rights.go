// SPDX-License-Identifier: Apache-2.0

package livetest

import "golang.org/x/sys/unix"

// A Right is what a feature needs besides CAP_BPF and CAP_PERFMON. It is a line of the
// table in docs/safety.md.
type Right struct {
	Feature string
	Needs   []uintptr // capabilities
	Args    string    // with which it is tried
	Shows   string    // what only one who has the right sees
	Lacks   string    // what the others are told
}

// Paranoid is the feature of which a sysctl of Debian and Ubuntu makes one more need.
const Paranoid = "kprobes and `tp:` where `kernel.perf_event_paranoid` is 3, as Debian and Ubuntu have it"

// CapabilityNames are those of all capabilities that the table has.
var CapabilityNames = map[uintptr]string{unix.CAP_SYSLOG: "CAP_SYSLOG", unix.CAP_DAC_READ_SEARCH: "CAP_DAC_READ_SEARCH",
	unix.CAP_DAC_OVERRIDE: "CAP_DAC_OVERRIDE", unix.CAP_SYS_ADMIN: "CAP_SYS_ADMIN"}

const readWork = " -- workload read -count 3 -size 37"

// Rights are tried by TestLiveRights. It is the same table that messages about what is
// lacking are held to.
var Rights = []Right{
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
	{Paranoid, []uintptr{unix.CAP_SYS_ADMIN}, "trace --attach=kprobe vfs_read(count==37)" + readWork, "workload", "with CAP_SYS_ADMIN"},
}
