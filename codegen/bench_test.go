// SPDX-License-Identifier: Apache-2.0

package codegen_test

import (
	"os"
	"testing"

	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// tenItems is a SPEC of ten items, with all that takes time: names to look up
// in enums, casts, strings, values to keep.
const tenItems = `vfs_read(count > 4096 && count < 0x123456789a, file->f_flags & O_NONBLOCK, file->f_path.dentry->d_name.name ~ "*.log",
	return < 0 || return == count, *pos, ((struct inode *)file->f_inode)->i_mode, file->f_path.dentry->d_parent->d_name.name,
	$comm == "cat", exit(*pos) - entry(*pos), file->f_inode->i_sb->s_dev)`

// Once BTF is loaded, a SPEC of ten items is to be parsed, checked, planned and
// compiled in a millisecond.
func BenchmarkTenItems(b *testing.B) {
	view := kernel.Open(os.DirFS("/"))
	if _, err := view.BTF(); err != nil {
		b.Skip("needs the BTF of a running kernel: ", err)
	}
	found, err := view.Match("vfs_read", "")
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		spec, err := expr.Parse(tenItems)
		if err != nil {
			b.Fatal(err)
		}
		probe, err := plan.NewProbe(view, spec, found[0], plan.Options{Arch: "amd64"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := codegen.Compile(&probe.Probe, codegen.Options{Arch: "amd64"}); err != nil {
			b.Fatal(err)
		}
	}
}
