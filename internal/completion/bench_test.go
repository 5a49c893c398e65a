// SPDX-License-Identifier: Apache-2.0

package completion_test

import (
	"os"
	"testing"

	"github.com/ksnoop/ksnoop/internal/completion"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// BenchmarkKey is one key on the kernel that runs, of which nothing was read before.
func BenchmarkKey(b *testing.B) {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		b.Skip("this kernel has no BTF")
	}
	for _, text := range []string{"v", "vfs_read(", "vfs_read(file->f_path.dentry->", "tcp_set_state(state == TCP_ES"} {
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				e := completion.Engine{View: kernel.Open(os.DirFS("/")), Arch: "amd64"}
				if len(e.Complete(text)) == 0 {
					b.Fatal("no candidates")
				}
			}
		})
	}
}
