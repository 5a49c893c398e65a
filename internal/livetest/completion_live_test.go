// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// completions are SPECs up to the cursor, and a line of the reply to bash: with what it inserts.
var completions = []struct{ text, want string }{
	{"vfs_readl", "vfs_readlink"},
	{"v", "vfs_"},
	{"vfs_read(fi", "vfs_read(file"},
	{"vfs_read(file->f_fl", "vfs_read(file->f_flags"},
	{"vfs_read(file->f_inode->i_sb->s_type->nam", "vfs_read(file->f_inode->i_sb->s_type->name"},
	{"vfs_*(fil", "vfs_*(file"},
	{"vfs_read(return == -ENOTB", "vfs_read(return == -ENOTBLK"},
	{"tcp_set_state(state == TCP_ESTAB", "tcp_set_state(state == TCP_ESTABLISHED"},
	{"vfs_read(hist($dur", "vfs_read(hist($duration"},
	{"syscall:openat", "syscall:openat2"},
	{"syscall:openat(filen", "syscall:openat(filename"},
	{"tp:sched:sched_swi", "tp:sched:sched_switch"},
	{"tp:sched:sched_switch(prev_c", "tp:sched:sched_switch(prev_comm"},
	{"rawtp:task_newt", "rawtp:task_newtask"},
	{"kprobe:vfs_read+0x9($pi", "kprobe:vfs_read+0x9($pid"},
	{"vfs_read((struct sk_buff_h", "vfs_read((struct sk_buff_head"},
}

// pressTab completes a SPEC as the script for bash does.
func pressTab(text string) ([]byte, error) {
	return exec.Command("ksnoop", "__line", "bash", "80", "ksnoop trace '"+text, text, "9").CombinedOutput()
}

// TestLiveCompletion: what the kernel of the guest has can be completed.
func TestLiveCompletion(t *testing.T) {
	guest.Require(t)
	for _, c := range completions {
		out, err := pressTab(c.text)
		for start := time.Now(); err == nil && len(out) == 0 && time.Since(start) < livetest.Patience(10*time.Second); {
			out, err = pressTab(c.text) // a key that takes long is given up
		}
		if err != nil || !strings.Contains(string(out), "\n"+c.want+"\n") {
			t.Errorf("%s: %v; no %s in %q", c.text, err, c.want, out)
		}
	}
}

// BenchmarkLiveCompletion measures how long a key takes: a start of ksnoop each, which keeps nothing. Seconds are
// those of BenchmarkLiveStart.
func BenchmarkLiveCompletion(b *testing.B) {
	guest.Require(b)
	for _, c := range completions {
		b.Run(c.text, func(b *testing.B) {
			for b.Loop() {
				if _, err := pressTab(c.text); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/key")
		})
	}
}
