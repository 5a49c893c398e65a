# SPDX-License-Identifier: Apache-2.0
#
# Run in a guest: prints a tar archive of recordings in which a session, or a call, that fails follows
# its twin that does not; and of two runs of one command.
set -e
mkdir /tmp/pairs
cd /tmp/pairs
ip link set lo up

# record NAME ARGS... makes NAME.ks.
record() {
	name=$1
	shift
	ksnoop trace -s none -n workload --record "$name.ks" "$@" -- workload pairs >&2
}
record sys_bpf -T -S -e __sys_bpf -a 'map_create*' -a '*map_alloc*' -a trie_alloc -a 'bpf_prog_load*' -a bpf_obj_name_cpy -a bpf_check -a 'check_*' -a '__check_*' -a 'do_check*' -a bpf_map_area_alloc
record openat2 -T -S -e do_sys_openat2 -a path_openat -a 'do_*open*' -a may_open -a 'link_path_walk*' -a 'step_into*' -a 'walk_component*' -a lookup_fast -a vfs_open
record sys_bind -T -S -e __sys_bind -a 'inet_bind*' -a '__inet_bind' -a 'inet_addr_*'
record sys_setsockopt -T -S -e __sys_setsockopt -a '*_setsockopt' -a 'sock_set_*'
record sys_sendto -T -S -e __sys_sendto -a udp_sendmsg -a inet_sendmsg -a 'ip_route_output*'

# Some kernels let some of these not be traced.
paths=
for f in array_map_alloc_check htab_map_alloc_check queue_stack_map_alloc_check stack_map_alloc ringbuf_map_alloc trie_alloc; do
	if grep -qx $f /sys/kernel/tracing/available_filter_functions; then
		paths="$paths $f(path(),return)"
	fi
done
record path $paths

for i in 1 2; do
	ksnoop trace -T -S -A -s none -n workload --record "same$i.ks" -e __sys_bpf -a 'map_create*' -a '*map_alloc*' -a bpf_map_area_alloc -a 'bpf_map_init*' -- workload map-ok >&2
done
chmod 644 *
tar -cf - *
