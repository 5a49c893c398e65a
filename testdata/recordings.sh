# SPDX-License-Identifier: Apache-2.0
#
# Run in a guest: prints a tar archive of recordings, and of what was printed while they
# were made.
set -e
mkdir /tmp/recordings
cd /tmp/recordings

# record NAME ARGS... makes NAME.ks, and NAME.txt of what ksnoop prints meanwhile.
record() {
	name=$1
	shift
	ksnoop trace -s none --attach=kprobe --record "$name.ks" --print "$@" >"$name.txt"
}
record calls --stack 'vfs_read(count == 33, file, return == 33)' -- sh -c 'workload read -size 33 -count 3 >/dev/null'
record sessions -T -A -e __sys_bpf -a array_map_alloc_check -- sh -c 'workload map-array-zero >/dev/null'
chmod 644 *
tar -cf - *
