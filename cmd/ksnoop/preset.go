// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A preset is a ready-made choice of functions for one part of the kernel.
type preset struct {
	name, about        string
	entry, allow, deny string // globs
}

// presets is never changed. Globs that match nothing on some kernel do no harm.
var presets = [...]preset{
	{name: "bpf", about: "bpf(2): maps, programs, BTF, links",
		entry: "*sys_bpf",
		allow: "*bpf* *btf* map_create map_*_elem map_freeze array_map_* htab_* prealloc_* *_map_alloc* *_map_alloc_check bloom_map_* " +
			"trie_* queue_stack_map_* ringbuf_map_* stack_map_* dev_map_* cpu_map_* xsk_map_* sock_map_* sock_hash_* " +
			"do_check* check_* resolve_pseudo_ldimm64 add_subprog* *do_misc_fixups link_create tracing_* generic_map_* xdp_* " +
			"__check_* resolve_* convert_ctx_accesses adjust_*_vals adjust_subprog_starts sanitize_* update_alu_sanitation_state reg_bounds_sanity_check " +
			"process_*_func process_iter_* process_spin_lock prepare_func_exit setup_func_entry visit_insn visit_*_insn push_insn push_stack " +
			"add_kfunc_call fetch_kfunc_* *mark_chain_precision memdup_*",
		deny: "bpf_get_smp_processor_id check_zeroed_user *check_heap_object check_stack_object __check_object_size"},
	{name: "perf", about: "perf_event_open(2) and what is done with its events",
		entry: "*sys_perf_event_open perf_ioctl",
		allow: "*perf_event* perf_* *_pmu_* x86_pmu* x86_setup_perfctr x86_reserve_hardware *hw_perf* *_event_init *trace_kprobe* *trace_uprobe* " +
			"arm*pmu* security_perf_*"},
	{name: "net", about: "socket calls: TCP, UDP, Unix, netlink, filters, routes",
		entry: "*sys_socket *sys_socketpair *sys_bind *sys_listen *sys_connect *sys_accept *sys_accept4 *sys_sendto *sys_sendmsg *sys_sendmmsg " +
			"*sys_recvfrom *sys_recvmsg *sys_recvmmsg *sys_setsockopt *sys_getsockopt *sys_shutdown",
		allow: "sock_* __sock_* sk_* tcp_* __tcp_* udp_* __udp_* udpv6_* tcp_v6_* inet_* inet6_* __inet_* ip_* __ip_* ip6_* __ip6_* ipv4_* ipv6_* raw_* " +
			"unix_* netlink_* genl_* rtnl_* rtnetlink_* packet_* fib_* fib6_* arp_* neigh_* dev_* __dev_* nf_* nft_* xfrm_* security_socket_* " +
			"__sys_* ___sys_* ____sys_* do_sock_* sockfd_lookup* move_addr_to_* netdev_get_*"},
	{name: "fs", about: "files and directories: open, read, write, rename, mount, ...",
		entry: "*sys_open *sys_openat *sys_openat2 *sys_creat *sys_read *sys_write *sys_pread64 *sys_pwrite64 *sys_mkdir* *sys_rmdir *sys_unlink* " +
			"*sys_rename* *sys_link *sys_linkat *sys_symlink* *sys_readlink* *sys_statx *sys_newfstatat *sys_chmod *sys_fchmodat* *sys_chown *sys_fchownat " +
			"*sys_truncate *sys_ftruncate *sys_fallocate *sys_mount *sys_umount *sys_fsync *sys_getdents64",
		allow: "do_sys_open* do_filp_open do_file_open path_* link_path_walk* walk_component lookup_* filename_* may_* vfs_* generic_file_* generic_write_* " +
			"ext4_* xfs_* btrfs_* shmem_* ramfs_* simple_* proc_* kernfs_* nfs_* fuse_* ovl_* inode_* *_permission notify_change do_mount* path_mount " +
			"do_new_mount* security_inode_* security_file_* security_path_* iomap_* " +
			"step_into* pick_link open_last_lookups do_open lookup_open complete_walk *traverse_mounts do_dentry_open try_to_unlazy* legitimize_* getname* " +
			"rw_verify_area do_unlinkat do_mkdirat do_rmdir do_renameat2 do_linkat do_symlinkat do_truncate chmod_common chown_common " +
			"do_fchmodat do_fchownat fs_parse* __fs_parse fs_lookup_param *_parse_param get_tree_* *_get_tree sget* graft_tree do_add_mount " +
			"attach_recursive_mnt path_umount do_umount"},
	{name: "mm", about: "address spaces: mmap, mprotect, brk, mlock, madvise, ...",
		entry: "*sys_mmap *sys_munmap *sys_mprotect *sys_pkey_mprotect *sys_mremap *sys_brk *sys_madvise *sys_process_madvise *sys_mlock *sys_mlock2 " +
			"*sys_mlockall *sys_msync *sys_mincore *sys_mbind *sys_move_pages *sys_remap_file_pages",
		allow: "ksys_mmap_pgoff vm_mmap_pgoff do_mmap __do_mmap* mmap_* __mmap_* do_munmap __vm_munmap do_vmi_* do_brk* do_mprotect_pkey mprotect_* " +
			"vma_* __vma_* split_vma __split_vma get_unmapped_area *_get_unmapped_area* madvise_* do_madvise mlock_* do_mlock apply_vma_lock_flags " +
			"move_vma mremap_* may_expand_vm security_mmap_* security_vm_* security_file_mprotect __vm_enough_memory shmem_zero_setup hugetlb_* " +
			"*_mmap *_mmap_prepare vms_* vm_brk* check_brk_limits expand_* mlock_future_ok user_shm_lock do_mlockall apply_mlockall_flags do_mincore " +
			"*_mbind mpol_* kernel_move_pages memfd_*"},
}

func findPreset(name string) (*preset, bool) {
	for i := range presets {
		if presets[i].name == name {
			return &presets[i], true
		}
	}
	return nil, false
}

func presetNames() string {
	var names []string
	for _, p := range presets {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// A countFlag is -c: a number of records after which to stop or, as it is with
// retsnoop, the name of a preset.
type countFlag struct {
	count   *uint64
	presets *[]string
}

var _ pflag.Value = countFlag{}

// String implements pflag.Value.
func (f countFlag) String() string {
	if f.count != nil && *f.count > 0 {
		return strconv.FormatUint(*f.count, 10)
	}
	return presetFlag{f.presets}.String()
}

// Type implements pflag.Value.
func (countFlag) Type() string { return "N|PRESET" }

// Set implements pflag.Value.
func (f countFlag) Set(s string) error {
	switch {
	case strings.HasPrefix(s, "-"):
		return errors.New("a count is 0, for no end, or more, as in -c 5")
	case strings.HasPrefix(s, "+"), strings.HasPrefix(s, "."):
		return errors.New("a count is a whole number, as in -c 5")
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		*f.count = n
		return nil
	}
	if err := (presetFlag{f.presets}).Set(s); err != nil {
		return fmt.Errorf("%q is neither a number nor one of the presets %s", s, presetNames())
	}
	return nil
}

// A presetFlag is --preset.
type presetFlag struct{ names *[]string }

var _ pflag.Value = presetFlag{}

// String implements pflag.Value.
func (f presetFlag) String() string {
	if f.names == nil {
		return ""
	}
	return strings.Join(*f.names, ",")
}

// Type implements pflag.Value.
func (presetFlag) Type() string { return "PRESET" }

// Set implements pflag.Value.
func (f presetFlag) Set(s string) error {
	if _, ok := findPreset(s); !ok {
		return fmt.Errorf("there are %s", presetNames())
	}
	*f.names = append(*f.names, s)
	return nil
}
