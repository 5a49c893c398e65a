# SPDX-License-Identifier: Apache-2.0
#
# Run in a guest: prints a tar archive of recordings in which a session, or a call, that fails follows
# its twin that does not.
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
record sys_bpf -T -S -e __sys_bpf -a 'map_*' -a '*map_alloc*' -a trie_alloc -a '*_alloc_check' -a 'bpf_prog_*' -a 'bpf_obj_*' -a 'bpf_check*' -a '*check_*' -a 'bpf_map_*'
record sys_bind -T -S -e __sys_bind -a 'inet_*' -a '__inet_*' -a 'udp_*'
record sys_setsockopt -T -S -e __sys_setsockopt -a '*setsockopt' -a 'sock_*' -a 'sk_*'
record sys_sendto -T -S -e __sys_sendto -a 'inet_*' -a 'udp_*' -a 'ip_*' -a 'sock_*'
record path 'array_map_alloc_check(path(), return)' 'htab_map_alloc_check(path(), return)' 'queue_stack_map_alloc_check(path(), return)' 'stack_map_alloc(path(), return)' \
	'ringbuf_map_alloc(path(), return)' 'trie_alloc(path(), return)'
chmod 644 *
tar -cf - *
