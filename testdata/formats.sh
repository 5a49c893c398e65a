# SPDX-License-Identifier: Apache-2.0
#
# Run in a guest: prints the formats of tracepoints that tests read macros from, in the
# form of golang.org/x/tools/txtar.
set -e
cd /sys/kernel/tracing/events
for f in compaction/mm_compaction_try_to_compact_pages cxl/cxl_dram dma/dma_alloc filelock/break_lease_block kmem/kmalloc \
	skb/kfree_skb sock/inet_sock_set_state tcp/tcp_send_reset vmscan/mm_vmscan_lru_shrink_active vmscan/mm_vmscan_throttled \
	writeback/writeback_mark_inode_dirty; do
	echo "-- $f/format --"
	cat "$f/format"
done
