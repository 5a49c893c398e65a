// SPDX-License-Identifier: Apache-2.0
//
// random SEED COUNT [wait] makes system calls with random arguments, the same for each seed.
// Before the first and behind the last it sets the host name, which nothing else does: marks in a
// trace. With "wait" it says so before each of them, and goes on when a byte comes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t state;

static uint64_t next(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % n;
}

// value is a number of the sizes that arguments have.
static long value(void)
{
	static const long some[] = {0, 1, 2, 3, 4, 8, 16, 64, 4096, 65536, -1, -100, 0x7fffffff, 0x80000};

	return next(3) ? some[next(sizeof(some) / sizeof(*some))] : (long)next(1 << next(20));
}

// stop says where it is, and waits until it may go on. The descriptors may have been made not to block.
static void stop(const char *line)
{
	char c;

	while (write(1, line, strlen(line)) < 0 && errno == EAGAIN)
		usleep(1000);
	while (read(0, &c, 1) < 0 && errno == EAGAIN)
		usleep(1000);
}

int main(int argc, char **argv)
{
	static const long calls[] = {SYS_fcntl, SYS_lseek, SYS_dup3, SYS_pipe2, SYS_socket, SYS_bind, SYS_setsockopt, SYS_getsockopt, SYS_listen,
		SYS_mprotect, SYS_madvise, SYS_mremap, SYS_msync, SYS_sched_setscheduler, SYS_sched_getparam, SYS_setpriority, SYS_getpriority, SYS_prlimit64,
		SYS_epoll_create1, SYS_epoll_ctl, SYS_timerfd_create, SYS_eventfd2, SYS_memfd_create, SYS_inotify_init1, SYS_semget, SYS_shmget, SYS_msgget,
		SYS_ftruncate, SYS_fallocate, SYS_faccessat2, SYS_openat, SYS_mkdirat, SYS_unlinkat, SYS_renameat2, SYS_statx, SYS_readlinkat, SYS_fchmodat,
		SYS_utimensat, SYS_getrusage, SYS_personality, SYS_umask, SYS_getitimer, SYS_timer_create, SYS_clock_gettime, SYS_clock_getres, SYS_membarrier,
		SYS_mlock2, SYS_mincore, SYS_get_mempolicy, SYS_tgkill, SYS_rt_sigprocmask, SYS_rt_sigpending, SYS_sigaltstack, SYS_capget, SYS_keyctl, SYS_bpf};
	static union {
		char bytes[4096];
		union bpf_attr attr;
	} memory;

	if (argc < 3)
		return 2;
	if (argc > 3)
		stop("begin\n");
	syscall(SYS_sethostname, "mark", 4);
	state = strtoull(argv[1], 0, 0) * 0x9E3779B97F4A7C15 | 1;
	for (long n = atol(argv[2]); n > 0; n--) {
		long args[6];

		for (int i = 0; i < 6; i++)
			args[i] = next(3) ? value() : (long)memory.bytes + (long)next(8) * 8;
		memset(&memory, 0, sizeof(memory));
		strcpy(memory.bytes, (const char *[]){"/tmp", "/dev/null", "/nope/x", "", "/proc/self/x", "x"}[next(6)]);
		if (next(2)) {
			memory.attr.map_type = next(8);
			memory.attr.key_size = value();
			memory.attr.value_size = value();
			memory.attr.max_entries = value() & 0xffff;
			memory.attr.map_flags = next(3) ? 0 : value();
		}
		long call = calls[next(sizeof(calls) / sizeof(*calls))];
		if (call == SYS_tgkill)
			args[2] = 0;
		if (call == SYS_bpf && next(4)) {
			args[0] = BPF_MAP_CREATE;
			args[1] = (long)&memory.attr;
			args[2] = 72;
		}
		if ((call == SYS_fcntl || call == SYS_lseek || call == SYS_dup3) && next(2))
			args[0] = 3 + next(20);
		if (call == SYS_dup3 || call == SYS_mremap || call == SYS_mprotect)
			args[1] = call == SYS_dup3 ? 20 + (long)next(20) : args[1];
		if (call == SYS_mprotect || call == SYS_mremap || call == SYS_madvise)
			args[0] = next(2) ? 0x10000000 : args[0] & 0xfff;
		syscall(call, args[0], args[1], args[2], args[3], args[4], args[5]);
	}
	syscall(SYS_sethostname, "mark", 4);
	if (argc > 3)
		stop("end\n");
	return 0;
}
