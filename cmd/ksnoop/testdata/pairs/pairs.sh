# SPDX-License-Identifier: Apache-2.0
#
# Run in a guest: prints a tar archive of recordings in which a session, or a call, that fails follows
# its twin that does not; and of two runs of some commands. Arguments are names of recordings: only these are made.
set -e
only=" $* "
mkdir /tmp/pairs
cd /tmp/pairs
ip link set lo up

# wanted NAME reports whether NAME.ks is to be made.
wanted() {
	case $only in "  " | *" $1 "*) return 0 ;; esac
	return 1
}
# record NAME ARGS... makes NAME.ks.
record() {
	name=$1
	shift
	wanted "$name" || return 0
	ksnoop trace --yes -s none -n workload --record "$name.ks" "$@" -- workload pairs >&2
}
record sys_bpf -T -S -e __sys_bpf -a 'map_create*' -a '*map_alloc*' -a trie_alloc -a 'bpf_prog_load*' -a bpf_obj_name_cpy -a bpf_check -a 'check_*' -a '__check_*' -a 'do_check*' -a bpf_map_area_alloc
record openat2 -T -S -e do_sys_openat2 -a path_openat -a 'do_*open*' -a may_open -a 'link_path_walk*' -a 'step_into*' -a 'walk_component*' -a lookup_fast -a vfs_open
record sys_bind -T -S -e __sys_bind -a 'inet_bind*' -a '__inet_bind' -a 'inet_addr_*'
record sys_setsockopt -T -S -e __sys_setsockopt -a '*_setsockopt' -a 'sock_set_*'
record sys_sendto -T -S -e __sys_sendto -a udp_sendmsg -a inet_sendmsg -a 'ip_route_output*'

# Some kernels let some of these not be traced, and have only a part of link_path_walk. The duration tells what has called what.
paths=
for f in array_map_alloc_check htab_map_alloc_check queue_stack_map_alloc_check stack_map_alloc ringbuf_map_alloc trie_alloc bloom_map_alloc cpu_map_alloc map_create \
	bpf_obj_name_cpy bpf_check __check_reg_arg check_reg_arg bpf_prog_load do_sys_openat2 step_into step_into_slowpath link_path_walk path_openat may_open \
	inet_bind_sk __inet_bind sk_setsockopt udp_sendmsg; do
	f=$(grep -x -e "$f" -e "$f\.part\.[a-z0-9.]*" /sys/kernel/tracing/available_filter_functions | head -n 1)
	if [ -n "$f" ]; then
		paths="$paths $f(path(),return,\$duration)"
	fi
done
record path $paths

# twice NAME COMMAND ARGS... makes NAME1.ks and NAME2.ks of two runs of a command, which is a script.
twice() {
	name=$1 command=$2
	shift 2
	wanted "$name" || return 0
	sh -c "$command" >&2 # what is read and resolved once is in caches by then
	for i in 1 2; do
		ksnoop trace -T -S -A -s none --record "$name$i.ks" "$@" -- sh -c "$command" >&2
	done
}
twice same 'workload map-ok' -n workload -e __sys_bpf -a 'map_create*' -a '*map_alloc*' -a bpf_map_area_alloc -a 'bpf_map_init*'
chmod 644 *
tar -cf - *
