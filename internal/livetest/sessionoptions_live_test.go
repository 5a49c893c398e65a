// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveSessionFilters: whose sessions are opened.
func TestLiveSessionFilters(t *testing.T) {
	guest.Require(t)
	root := t.TempDir()
	if err := unix.Mount("none", root, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(root, unix.MNT_DETACH) }()
	group := root + "/sessions"
	if err := os.Mkdir(group, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(group) // unmounting leaves it
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var st unix.Stat_t
	if err := unix.Stat(group, &st); err != nil {
		t.Fatal(err)
	}
	// Three processes make 1, 2 and 4 calls.
	for i, c := range []struct {
		name   string
		filter func(pids []uint32) bpf.Filter
		want   int
	}{
		{"processes", func(pids []uint32) bpf.Filter { return bpf.Filter{PIDs: pids, NotPIDs: pids[1:2]} }, 5},
		{"thread", func(pids []uint32) bpf.Filter { return bpf.Filter{TIDs: pids[1:2]} }, 2},
		{"user", func([]uint32) bpf.Filter { return bpf.Filter{UIDs: []uint32{nobody.Credential.Uid}} }, 4},
		{"name left out", func([]uint32) bpf.Filter { return bpf.Filter{NotComms: []string{"*load"}} }, 0},
		{"control group", func([]uint32) bpf.Filter { return bpf.Filter{Cgroup: bpf.Cgroup{ID: st.Ino, Level: 1}} }, 2},
		{"name and thread", func(pids []uint32) bpf.Filter {
			return bpf.Filter{Comms: []string{"work*"}, TIDs: pids[2:], NoIRQ: true}
		}, 4},
	} {
		if !livetest.Mine(t, i) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			shells := []*held{hold(t, "exec workload read -count 1 -size 37", nil), hold(t, "exec workload read -count 2 -size 37", nil),
				hold(t, "exec workload read -count 4 -size 37", nobody)}
			var pids []uint32
			for _, h := range shells {
				pids = append(pids, uint32(h.cmd.Process.Pid))
			}
			if err := os.WriteFile(group+"/cgroup.procs", fmt.Append(nil, pids[1]), 0); err != nil {
				t.Fatal(err)
			}
			r := sessionRun{entry: []string{"vfs_read(count == 37)"}, report: bpf.SessionSettings{Success: true}, settings: trace.Settings{Filter: c.filter(pids)}, during: noneOpen(t)}
			out, _ := r.sessions(t, func() {
				for _, h := range shells {
					h.run(t)
				}
			})
			if len(out) != c.want {
				t.Errorf("%d sessions, want %d: %q", len(out), c.want, out)
			}
		})
	}
}

// detached is what sessions end with.
var detached = regexp.MustCompile(`(?m)^Detaching\.\.\. done in \d+ ms\n\z`)

// TestLiveSessionFollow: a shell's children have sessions with --follow only.
func TestLiveSessionFollow(t *testing.T) {
	guest.Require(t)
	h := hold(t, "(workload read -count 2 -size 31; workload read -count 3 -size 31); true", nil)
	pid := fmt.Sprint(h.cmd.Process.Pid)
	with := startSessions(t, "-S", "-e", "vfs_read(count == 31)", "-p", pid, "--follow")
	without := startSessions(t, "-S", "-e", "vfs_read(count == 31)", "-p", pid)
	h.run(t)
	for trace, want := range map[*running]int{with: 5, without: 0} {
		out, status := trace.wait(t)
		if n := strings.Count(out, "(workload/workload):"); n != want || status != 0 {
			t.Errorf("status %d, %d sessions, want %d:\n%s", status, n, want, out)
		}
		if errs := trace.errs.String(); !detached.MatchString(errs) {
			t.Errorf("the end is not announced: %q", errs)
		}
	}
}

// TestLiveLonger: only sessions that took longer are reported.
func TestLiveLonger(t *testing.T) {
	guest.Require(t)
	for longer, want := range map[time.Duration]int{livetest.Patience(200 * time.Millisecond): 2, livetest.Patience(20 * time.Second): 0} {
		r := sessionRun{entry: []string{"vfs_read(count == 1)"}, report: bpf.SessionSettings{Success: true, Longer: uint64(longer)},
			settings: trace.Settings{Filter: bpf.Filter{Comms: []string{"workload"}}}}
		out, counts := r.sessions(t, func() {
			workload(t, "pipe-wait", "-for", livetest.Patience(300*time.Millisecond).String(), "-count", "2")
			workload(t, "read", "-size", "1") // which does not take long
		})
		if len(out) != want {
			t.Errorf("longer than %v: %d sessions, want %d: %q", longer, len(out), want, out)
		}
		if n := counts[bpf.LeftShort]; n != uint64(3-want) {
			t.Errorf("longer than %v: %d sessions counted as too short, want %d", longer, n, 3-want)
		}
	}
}

// TestLiveInterim: an exec tries the loader of scripts before the one of
// programs, which takes care of its failure; an ioctl fails for another reason than
// that the socket does not know it.
func TestLiveInterim(t *testing.T) {
	guest.Require(t)
	for _, c := range []struct {
		call    string
		allow   []string
		interim bool
		work    []string
		want    string
	}{
		{"ioctl", []string{"inet_ioctl", "netdev_get_name"}, true, []string{"fail", "ioctl"}, " | interim " + sys + "ioctl=-19 ~inet_ioctl=-515 |"},
		{"execve", []string{"load_script"}, true, []string{"exec", "read"}, " | interim " + sys + "execve=0 load_script=-8 |"},
		{"execve", []string{"load_script", "load_elf_binary"}, true, []string{"exec", "read"}, " | interim " + sys + "execve=0 ~load_script=-8 |"},
		{"execve", []string{"load_script"}, false, []string{"exec", "read"}, ""},
	} {
		r := sessionRun{entry: []string{sys + c.call}, allow: c.allow, report: bpf.SessionSettings{Interim: c.interim}, during: noneOpen(t),
			settings: trace.Settings{Filter: bpf.Filter{Comms: []string{"workload"}}}}
		out, _ := r.sessions(t, func() { workload(t, c.work...) })
		if c.want == "" && len(out) != 0 || c.want != "" && (len(out) != 1 || !strings.Contains(out[0], c.want)) {
			t.Errorf("%q: sessions %q, want one with %q", c.allow, out, c.want)
		}
	}
}
