// SPDX-License-Identifier: Apache-2.0
//
// The variable of OTEP 4947, and what publishes a record in it: a program's own, or a library's.
#include <stdint.h>
#include <string.h>

struct record {
	uint8_t trace[16], span[8], valid, flags;
	uint16_t size;
} __attribute__((packed, aligned(2)));

__attribute__((visibility("default"))) __thread struct record *volatile otel_thread_ctx_v1;

#ifdef LARGE // more than the C library has room for in the threads that there are
__thread char large[LARGE];
#endif
static __thread struct record own;

// publish has the calling thread be in a span. 0: in none.
__attribute__((visibility("default"))) void publish(uint64_t trace, uint64_t span, int flags)
{
	otel_thread_ctx_v1 = 0;
	if (!span)
		return;
	own = (struct record){.valid = 1, .flags = flags};
	memcpy(own.trace + 8, &trace, 8);
	memcpy(own.span, &span, 8);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	otel_thread_ctx_v1 = &own;
}

__attribute__((visibility("default"))) void *address(void)
{
	return (void *)&otel_thread_ctx_v1;
}
