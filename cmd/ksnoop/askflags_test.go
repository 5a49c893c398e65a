// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/record"
)

// recordedCalls is a recording of vfs_read(count == 33, file, return == 33), three calls.
const recordedCalls = "../../testdata/calls.ks"

// recordedSessions is one of a session that failed with EINVAL after 37 ms.
const recordedSessions = "../../testdata/sessions.ks"

func TestReplayAsks(t *testing.T) {
	for _, test := range []struct {
		args []string
		n    int    // calls or sessions
		want string // in the output of each
	}{
		{[]string{recordedCalls, "vfs_read(file->f_flags, return < 34)"}, 3, "file->f_flags = (unsigned int)32768"},
		{[]string{recordedCalls, "vfs_read(file->f_flags == 0)"}, 0, ""},
		{[]string{recordedCalls, "vfs_*"}, 3, "return = (ssize_t)33"},
		{[]string{recordedCalls, "-c", "2", `vfs_read(exit($comm) == "workload")`}, 2, "workload"},
		{[]string{recordedCalls, "-n", "work*", "-N", "sh"}, 3, "return = (ssize_t)33"},
		{[]string{recordedCalls, "-n", "sh"}, 0, ""},
		{[]string{recordedCalls, "--since", "+1us"}, 2, "return"},
		{[]string{recordedCalls, "--until", "+1us"}, 1, "return"},
		{[]string{recordedCalls, "--grep", "f_flags = (unsigned int)"}, 3, "f_flags"},
		{[]string{recordedCalls, "--grep", `/^ +return = \(ssize_t\)33$/`}, 3, "return"},
		{[]string{recordedCalls, "--grep", `/return = \(ssize_t\)3$/`}, 0, ""},
		{[]string{recordedCalls, "--grep", "count = (size_t)33", "vfs_read(return)"}, 0, ""},
		{[]string{recordedSessions, "-x", "EINVAL"}, 1, "__sys_bpf"},
		{[]string{recordedSessions, "-x", "any", "-L", "1", "-n", "workload"}, 1, "__sys_bpf"},
		{[]string{recordedSessions, "-x", "ENOENT"}, 0, ""},
		{[]string{recordedSessions, "-X", "EINVAL"}, 0, ""},
		{[]string{recordedSessions, "-L", "1s"}, 0, ""},
		{[]string{recordedSessions, "--grep", "BPF_MAP_CREATE"}, 1, "BPF_MAP_CREATE"},
		{[]string{recordedSessions, "--grep", "BPF_MAP_DELETE"}, 0, ""},
		{[]string{recordedSessions, "--until", "+1ms"}, 1, "__sys_bpf"},
		{[]string{recordedSessions, "--since", "+1m"}, 0, ""},
	} {
		stdout, stderr, status := ran(append([]string{"replay"}, test.args...)...)
		n := strings.Count(stdout, " vfs_read(")
		if test.args[0] == recordedSessions {
			n = strings.Count(stdout, " TID/PID ")
		}
		said := ""
		if test.n == 0 {
			said = "ksnoop: no recorded call or session matches: ksnoop replay --info says what there is\n"
		}
		if status != 0 || stderr != said || n != test.n || strings.Count(stdout, test.want) < test.n {
			t.Errorf("%q: status %d, %d shown, want %d with %q\n%s%s", test.args, status, n, test.n, test.want, stdout, stderr)
		}
	}
}

// TestReplayNoneWhole: what is said of a recording without a whole session does not speak of filters that nobody has given.
func TestReplayNoneWhole(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open")
	part := func(kind bpf.SessionRecordKind) []byte {
		return bpf.AppendSession(nil, &bpf.SessionHeader{Kind: kind, PID: 7, TID: 8, Start: 1000, End: 2000})
	}
	for _, c := range []struct {
		raw  [][]byte
		args []string
		want string
	}{
		{nil, nil, ""},
		{[][]byte{part(bpf.SessionChunk), part(bpf.SessionDrop)}, nil, "ksnoop: no whole call or session was recorded: ksnoop replay --info says what there is\n"},
		{[][]byte{part(bpf.SessionChunk)}, nil, "ksnoop: no whole call or session was recorded: ksnoop replay --info says what there is\n"},
		{[][]byte{part(bpf.SessionEnd)}, nil, ""},
		{[][]byte{part(bpf.SessionEnd)}, []string{"-p", "9"}, "ksnoop: no recorded call or session matches: ksnoop replay --info says what there is\n"},
		{[][]byte{part(bpf.SessionEnd)}, []string{"-L", "1s"}, "ksnoop: no recorded call or session matches: ksnoop replay --info says what there is\n"},
	} {
		name := filepath.Join(t.TempDir(), "recording")
		if err := os.WriteFile(name, k.Recording(&record.Sessions{Traced: true}, c.raw...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, stderr, status := ran(append([]string{"replay", name}, c.args...)...); stderr != c.want || status != 0 {
			t.Errorf("%d records, %q: status %d, %q, want %q", len(c.raw), c.args, status, stderr, c.want)
		}
	}
}

// A bare name of a function shows its calls exactly as they were recorded.
func TestReplayFunction(t *testing.T) {
	want, _, _ := ran("replay", recordedCalls)
	if got, errs, status := ran("replay", recordedCalls, "vfs_read"); got != want || errs != "" || status != 0 {
		t.Errorf("status %d, %s\n%s\nwant\n%s", status, errs, got, want)
	}
}

// What cannot be answered is refused before anything is printed, and before a file is made.
func TestReplayRefusesToAnswer(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{recordedCalls, "vfs_read(file->f_inode->i_ino)"}, "column 10: `file->f_inode->i_ino` was not captured; record `*file->f_inode` too\n"},
		{[]string{recordedCalls, "vfs_read(file->f_inode->i_ino == 7, exit(file->f_pos))"}, "2 faults in the SPEC\n"},
		{[]string{recordedCalls, "vfs_read(counter)"}, "column 10: vfs_read has no parameter \"counter\", and no enum has such a value; did you mean \"count\"?\n"},
		{[]string{recordedCalls, "vfs_read("}, "column 10: "},
		{[]string{recordedCalls, "vfs_write(count)"}, "column 1: no calls of vfs_write were recorded; "},
		{[]string{recordedCalls, "-x", "EINVAL"}, "-x, -X and -L are about sessions, and calls were recorded"},
		{[]string{recordedCalls, "--since", "soon"}, `--since "soon" is no time`},
		{[]string{recordedCalls, "--grep", "/(/"}, "--grep /(/: error parsing regexp"},
		{[]string{recordedCalls, "--info", "vfs_read"}, "--info says what is in the recording"},
		{[]string{recordedSessions, "__sys_bpf(return)"}, "`return` was not captured; record `return` too"},
		{[]string{recordedSessions, "-x", "EFOO"}, `"EFOO" is no error`},
	} {
		stdout, stderr, status := ran(append([]string{"replay", "-o", out}, test.args...)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: status %d, %s%s\nwant %s", test.args, status, stdout, stderr, test.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("%q left a file behind", test.args)
		}
	}
}

func TestReplayInfo(t *testing.T) {
	for name, lines := range map[string][]string{
		recordedCalls: {"writer     ksnoop ", "kernel     6.", "records    3\n", "SPEC       vfs_read(count == 33, file, return == 33)\n",
			"function          3  kprobe       vfs_read\n", "lost       nothing\n", "blocks     info                      1 block  ", "blocks     records ", "blocks     end "},
		recordedSessions: {"sessions   1, all calls, all arguments\n", "function          1  kprobe       __sys_bpf\n", "function          0  kprobe       array_map_alloc_check\n", "date       20"},
		nestedReads(t, event.Losses{Lost: [bpf.Counters]uint64{bpf.LostRingbuf: 3}}): {"records    4\n", "time       1.000000 to 4.000000: 3s\n", "lost       3 records lost because the ring buffer was full\n"},
	} {
		stdout, stderr, status := ran("replay", "--info", name)
		for _, line := range lines {
			if !strings.Contains("\n"+stdout, "\n"+line) {
				t.Errorf("%s has no line %q:\n%s", name, line, stdout)
			}
		}
		if status != 0 || stderr != "" {
			t.Errorf("%s: status %d: %s", name, status, stderr)
		}
	}
	whole, err := os.ReadFile(recordedCalls)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.ks")
	if err := os.WriteFile(cut, whole[:len(whole)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := ran("replay", "--info", cut)
	if status != exitFailed || !strings.Contains(stdout, "records    3\n") || strings.Contains(stdout, "lost  ") || !strings.Contains(stderr, "the recording was cut off") {
		t.Errorf("of a recording that was cut off: status %d\n%s%s", status, stdout, stderr)
	}
}

// TestAskOwner: recordings without owners are not asked for them, and a cgroup is meant by its
// path below the mount.
func TestAskOwner(t *testing.T) {
	for _, args := range [][]string{{"--uid", "0"}, {"--cgroup", "/a"}} {
		_, stderr, status := ran(append([]string{"replay", "../../testdata/calls.ks"}, args...)...)
		if want := args[0] + ": the recording does not have the "; status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
	for name, want := range map[string]string{"": "", "a": "/a", "/a/": "/a", "/sys/fs/cgroup": "/", "/sys/fs/cgroup/a/../b": "/b", "/sys/fs/cgroups/a": "/sys/fs/cgroups/a", "/sys/fs/cgroup/unified/x": "/x"} {
		if got := cgroupPath(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
