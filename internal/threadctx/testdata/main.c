// SPDX-License-Identifier: Apache-2.0
//
// Two threads, of which each publishes spans and then opens a file that is not there. Its name has the span.
// main LIBRARY loads the library first; main LIBRARY wait tells where the variable is, and waits.
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef LOADED
#include <dlfcn.h>
static void (*publish)(uint64_t, uint64_t, int);
static void *(*address)(void);
#else
void publish(uint64_t trace, uint64_t span, int flags);
void *address(void);
#endif

enum { SPANS = 500 };

static void look(uint64_t trace, uint64_t span, int flags)
{
	char name[64];

	publish(trace, span, flags);
	snprintf(name, sizeof(name), "/absent/%llx-%llx-%x", (unsigned long long)trace, (unsigned long long)span, flags);
	close(open(name, O_RDONLY));
}

static void *requests(void *which)
{
	uint64_t trace = 0x1000 * (1 + (uintptr_t)which);

	look(trace, 0, 0); // it has published nothing yet
	for (uint64_t span = 1; span <= SPANS; span++)
		look(trace, span, 1);
	look(trace, SPANS + 1, 0); // not sampled
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

#ifdef LOADED
	void *library = dlopen(argv[1], RTLD_NOW);
	if (!library || !(publish = dlsym(library, "publish")) || !(address = dlsym(library, "address"))) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
#endif
	if (argc > 2) {
		publish(1, 2, 1);
		printf("%p %p\n", address(), __builtin_thread_pointer());
		fflush(stdout);
		pause();
	}
	for (int i = 0; i < 15; i++) { // ksnoop looks at it, and once more when it has all its libraries
		look(9, 1, 1);
		usleep(100000);
	}
	for (uintptr_t i = 0; i < 2; i++)
		if (pthread_create(&threads[i], 0, requests, (void *)i))
			return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	return 0;
}
