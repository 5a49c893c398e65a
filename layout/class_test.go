// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"testing"

	"github.com/cilium/ebpf/btf"
)

func TestErrorClass(t *testing.T) {
	typedef := func(t btf.Type) btf.Type { return &btf.Typedef{Name: "t", Type: t} }
	const minusEINVAL = 1<<64 - 22
	dentry := &btf.Pointer{Target: &btf.Struct{Name: "dentry"}}
	for _, c := range []struct {
		name   string
		result btf.Type
		class  ErrorClass
		failed map[uint64]bool
	}{
		{"void", nil, NeverFails, map[uint64]bool{minusEINVAL: false, 0: false}},
		{"bool", &btf.Int{Size: 1, Encoding: btf.Bool}, NeverFails, map[uint64]bool{0: false, 0xffffff01: false}},
		{"int", &btf.Int{Size: 4, Encoding: btf.Signed}, FailsInt32, map[uint64]bool{
			0: false, 22: false, minusEINVAL: true, 0xffffffea: true, 0xdead_ffffffea: true, // upper bits mean nothing
			0xfffff001: true, 0xfffff000: false, 0x80000000: false,
		}},
		{"long", typedef(&btf.Int{Size: 8, Encoding: btf.Signed}), FailsInt64, map[uint64]bool{
			0: false, minusEINVAL: true, 0xffffffea: false, 1<<64 - 4095: true, 1<<64 - 4096: false,
		}},
		{"pointer", &btf.Const{Type: &btf.Pointer{}}, FailsPointer, map[uint64]bool{
			0: true, minusEINVAL: true, 0xffff888000000000: false, 1<<64 - 4096: false,
		}},
		// include/linux/fs.h and Documentation/filesystems/vfs.rst, of the lookup method
		{"simple_lookup", typedef(dentry), FailsInt64, map[uint64]bool{0: false, minusEINVAL: true, 0xffff888000000000: false}},
		{"d_alloc", dentry, FailsPointer, map[uint64]bool{0: true, minusEINVAL: true}},
		// mm/vma.c: NULL if there is nothing to merge with. kernel/fork.c: NULL if there is no memory.
		{"vma_merge_new_range", &btf.Pointer{Target: &btf.Struct{Name: "vm_area_struct"}}, FailsInt64, map[uint64]bool{0: false, minusEINVAL: true}},
		{"vm_area_alloc", &btf.Pointer{Target: &btf.Struct{Name: "vm_area_struct"}}, FailsPointer, map[uint64]bool{0: true}},
		{"d_inode", &btf.Pointer{Target: &btf.Struct{Name: "inode"}}, FailsPointer, map[uint64]bool{0: true}},
		{"enum", &btf.Enum{Size: 4}, FailsInt32, map[uint64]bool{0: false, minusEINVAL: true}},
		// mm/mmap.c: IS_ERR_VALUE tells errors of what returns addresses.
		{"do_mmap", typedef(&btf.Int{Name: "long unsigned int", Size: 8}), FailsInt64, map[uint64]bool{
			0: false, minusEINVAL: true, 0x7f00_0000_0000: false, 1<<64 - 4096: false,
		}},
		{"get_jiffies_64", &btf.Int{Name: "long long unsigned int", Size: 8}, NeverFails, map[uint64]bool{minusEINVAL: false}},
		{"unsigned", &btf.Int{Name: "unsigned int", Size: 4}, NeverFails, map[uint64]bool{minusEINVAL: false}},
		{"short", &btf.Int{Size: 2, Encoding: btf.Signed}, NeverFails, map[uint64]bool{minusEINVAL: false}},
	} {
		if got := ClassOf(c.name, c.result); got != c.class {
			t.Errorf("%s: class %d, want %d", c.name, got, c.class)
		}
		for result, want := range c.failed {
			if got := c.class.Failed(result); got != want {
				t.Errorf("%s: %#x failed: %t", c.name, result, got)
			}
		}
	}
}
