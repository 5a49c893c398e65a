// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// TestPresetReach: where the kernel's sources have the last check of some failure, a preset
// goes that far. What runs for every copy from user space is left out.
func TestPresetReach(t *testing.T) {
	for name, functions := range map[string]string{
		"bpf": "__x64_sys_bpf bpf_check __check_reg_arg __check_mem_access adjust_ptr_min_max_vals sanitize_ptr_alu process_dynptr_func fetch_kfunc_meta " +
			"array_map_alloc_check !__check_object_size !__check_heap_object",
		"perf": "perf_event_alloc perf_tp_event_init",
		"net":  "__x64_sys_connect __sys_connect_file sockfd_lookup_light move_addr_to_kernel udp_sendmsg dev_get_by_name_rcu netdev_get_name",
		// fs/namei.c: of a link to a link to ..., step_into has the loop.
		"fs": "__arm64_sys_openat path_openat link_path_walk step_into pick_link do_open __traverse_mounts rw_verify_area shmem_parse_one vfs_parse_fs_param __fs_parse",
		// mm/mmap.c calls the method of the file.
		"mm": "__x64_sys_mmap do_mmap __mmap_region kernfs_fop_mmap generic_file_mmap ext4_file_mmap_prepare vms_gather_munmap_vmas",
	} {
		p, ok := findPreset(name)
		if !ok {
			t.Fatalf("no preset %s", name)
		}
		any := func(globs, f string) bool {
			return slices.ContainsFunc(strings.Fields(globs), func(g string) bool { return glob.Match(g, f) })
		}
		for f := range strings.FieldsSeq(functions) {
			f, not := strings.CutPrefix(f, "!")
			if got := any(p.entry+" "+p.allow, f) && !any(p.deny, f); got == not {
				t.Errorf("%s: %s: %t", name, f, got)
			}
		}
	}
}
