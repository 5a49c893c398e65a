# SPDX-License-Identifier: Apache-2.0
#
# What `make demo` runs in the guest.

show() {
	printf '\n# ksnoop'
	for arg; do
		case $arg in
		*[!a-zA-Z0-9_-]*) printf " '%s'" "$arg" ;;
		*) printf ' %s' "$arg" ;;
		esac
	done
	printf '\n'
	ksnoop "$@" || failed=1
}

failed=0
show info ip_send_skb
show trace 'ip_send_skb(skb->len == 84, skb)' -- workload udp-send -size 56 -count 1
show trace 'ip_send_skb(skb->len == 84, skb)' -- workload udp-send -size 57 -count 1
show trace 'ip_send_skb(skb->len, return != 0)' -- workload udp-send -count 3
show trace 'vfs_read(count, return < 0)' -- workload read-dir -count 2
show trace 'array_map_alloc_check(attr, return != 0)' -- workload map-array-zero
exit $failed
