// SPDX-License-Identifier: Apache-2.0
/*
 * Prints values with libbpf, for the tests of package btfprint.
 *
 *   oracle BTF dump       reads lines `ID BYTES FLAGS` and answers each with
 *                         `RESULT LENGTH\n`, the text, and a newline
 *   oracle BTF bench N    reads one such line, prints the value N times and
 *                         answers with the nanoseconds per value
 *
 * BYTES is `full` or `sparse`, filled in by the recipe below, FLAGS any of the
 * letters c (compact), n (skip names), z (emit zeroes) or a dash.
 */
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_VALUE = 1 << 16, MAX_TEXT = 1 << 24 };

static char *text;
static size_t text_len;

static void collect(void *ctx, const char *fmt, va_list args)
{
	int n;

	(void)ctx;
	if (text_len >= MAX_TEXT)
		return;
	n = vsnprintf(text + text_len, MAX_TEXT - text_len, fmt, args);
	if (n > 0)
		text_len += n;
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list args)
{
	(void)level;
	(void)fmt;
	(void)args;
	return 0;
}

static uint64_t next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

/* Bytes that depend on the type's id and on nothing else. */
static void fill(unsigned char *data, size_t size, uint32_t id, int sparse)
{
	uint64_t s = id * 0x9E3779B97F4A7C15ULL + 0x0123456789ABCDEFULL, r = 0;

	if (!s)
		s = 1;
	for (size_t i = 0; i < size; i++) {
		if (sparse) {
			r = next(&s);
			data[i] = (r & 15) == 0 ? r >> 8 : 0;
			continue;
		}
		if (i % 8 == 0)
			r = next(&s);
		data[i] = r >> (i % 8 * 8);
	}
}

struct request {
	uint32_t id;
	size_t size;
	struct btf_dump_type_data_opts opts;
};

static unsigned char data[2 * MAX_VALUE] __attribute__((aligned(64)));

static int read_request(const struct btf *btf, struct request *r)
{
	char bytes[16], flags[16];
	long long size;

	if (scanf("%u %15s %15s", &r->id, bytes, flags) != 3)
		return 0;
	size = btf__resolve_size(btf, r->id);
	r->size = size < 0 || size > MAX_VALUE ? 0 : size;
	memset(data, 0, sizeof(data));
	fill(data, r->size, r->id, !strcmp(bytes, "sparse"));
	memset(&r->opts, 0, sizeof(r->opts));
	r->opts.sz = sizeof(r->opts);
	r->opts.compact = strchr(flags, 'c') != NULL;
	r->opts.skip_names = strchr(flags, 'n') != NULL;
	r->opts.emit_zeroes = strchr(flags, 'z') != NULL;
	return 1;
}

static void bench(struct btf_dump *d, const struct request *r, long n)
{
	struct timespec a, b;
	double ns;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (long i = 0; i < n; i++) {
		text_len = 0;
		btf_dump__dump_type_data(d, r->id, data, r->size, &r->opts);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	ns = (b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec);
	printf("%.0f %zu\n", ns / n, text_len);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct btf_dump *d;
	struct request r;
	struct btf *btf;

	if (argc < 3)
		return 2;
	libbpf_set_print(quiet);
	text = malloc(MAX_TEXT);
	btf = btf__parse(argv[1], NULL);
	d = btf ? btf_dump__new(btf, collect, NULL, NULL) : NULL;
	if (!d || !text) {
		fprintf(stderr, "%s: cannot read BTF\n", argv[1]);
		return 1;
	}
	while (read_request(btf, &r)) {
		int err;

		if (argc > 3 && !strcmp(argv[2], "bench")) {
			bench(d, &r, atol(argv[3]));
			continue;
		}
		text_len = 0;
		err = btf_dump__dump_type_data(d, r.id, data, r.size, &r.opts);
		printf("%d %zu\n", err, text_len);
		fwrite(text, 1, text_len, stdout);
		putchar('\n');
	}
	btf_dump__free(d);
	btf__free(btf);
	return 0;
}
