// SPDX-License-Identifier: GPL-2.0
//
// Functions of exotic signatures, which are called with known values whenever
// /proc/ksnoop_values is read. What is read says what the compiler makes of
// expressions over parameters and results, for TestLiveValues to compare with what
// ksnoop says of them:
//
//	v FUNCTION EXPRESSION	HIGH LOW	a value, extended to 128 bits
//	d FUNCTION EXPRESSION	TRUTH	a decision
//	r FUNCTION WORD		the register that FUNCTION's narrow result came in
//
// RET stands for the result, which ksnoop calls return.

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#define F static noinline __attribute__((noipa)) // as it is written, whatever its callers pass

#define EACH_1(M, f, x) M(f, x)
#define EACH_2(M, f, x, ...) M(f, x) EACH_1(M, f, __VA_ARGS__)
#define EACH_3(M, f, x, ...) M(f, x) EACH_2(M, f, __VA_ARGS__)
#define EACH_4(M, f, x, ...) M(f, x) EACH_3(M, f, __VA_ARGS__)
#define EACH_5(M, f, x, ...) M(f, x) EACH_4(M, f, __VA_ARGS__)
#define EACH_6(M, f, x, ...) M(f, x) EACH_5(M, f, __VA_ARGS__)
#define EACH_7(M, f, x, ...) M(f, x) EACH_6(M, f, __VA_ARGS__)
#define EACH_8(M, f, x, ...) M(f, x) EACH_7(M, f, __VA_ARGS__)
#define EACH_9(M, f, x, ...) M(f, x) EACH_8(M, f, __VA_ARGS__)
#define EACH_10(M, f, x, ...) M(f, x) EACH_9(M, f, __VA_ARGS__)
#define EACH_11(M, f, x, ...) M(f, x) EACH_10(M, f, __VA_ARGS__)
#define EACH_12(M, f, x, ...) M(f, x) EACH_11(M, f, __VA_ARGS__)
#define NTH(a, b, c, d, e, f, g, h, i, j, k, l, n, ...) n
#define EACH(M, f, ...) \
	NTH(__VA_ARGS__, EACH_12, EACH_11, EACH_10, EACH_9, EACH_8, EACH_7, EACH_6, EACH_5, EACH_4, EACH_3, EACH_2, EACH_1, )(M, f, __VA_ARGS__)

static struct seq_file *out;

static void value(const char *f, const char *x, __int128 v)
{
	seq_printf(out, "v %s %s\t%llx %llx\n", f, x, (u64)(v >> 64), (u64)v);
}

#define VALUE(f, x) value(#f, #x, (__int128)(x));
#define DECISION(f, x) seq_printf(out, "d %s %s\t%d\n", #f, #x, !!(x));
#define V(f, ...) EACH(VALUE, f, __VA_ARGS__)
#define D(f, ...) EACH(DECISION, f, __VA_ARGS__)

#ifdef __x86_64__
#define RESULT_REGISTER "rax"
#else
#define RESULT_REGISTER "x0"
#endif

// Function f as if it were of another type.
#define AS(type, f) \
	({ \
		void *hidden = (f); \
		OPTIMIZER_HIDE_VAR(hidden); \
		(type)hidden; \
	})

// Returns all of word in the register, of which the type of the result has the lower part.
#define RETURN_DIRTY(type, word) \
	do { \
		register u64 r asm(RESULT_REGISTER) = (word); \
		asm volatile("" : "+r"(r)); \
		return (type)r; \
	} while (0)

enum small { SMALL_MINUS = -2, SMALL_ONE = 1, SMALL_MOST = 100 } __packed;
enum wide { WIDE_ONE = 1, WIDE_MOST = 0xfedcba9876543210ULL };
struct pair { long a, b; };
struct ints { int a, b; };
struct three { s8 a, b, c; };
struct one { u8 a; };
struct triple { int a, b, c; };
struct nine { long a; s8 b; };
struct iter { u32 id; const struct pair *at; };
struct big { long a, b, c; };
struct large { u8 v[17]; };
struct huge { int a; struct big in; short v[5]; };
struct sevens { u16 v[7]; };
struct __packed packed9 { s8 a; long b; };
struct __packed packed5 { s8 a; int b; };
struct __packed packed12 { long a; int b; };
struct __packed odd { short a; s8 b; };
struct odds { struct odd v[2]; };
struct bits { int a : 3; unsigned b : 5; int c : 13; u64 d : 40; };
struct bits16 { u64 a : 60; u64 b : 4; s64 c : 33; u64 d : 31; };
struct __packed bits9 { u64 a : 61; s64 b : 9; u8 c : 2; };
struct __packed crossing { u8 a; u32 b : 30; s64 c : 50; u16 d; u8 e : 3; u64 f : 62; s64 g : 63; };
struct flex { int n; short v[]; };
struct wrapped { __int128 v; };
struct empty { };
union either { long a; int v[4]; struct { short x, y; } in; };
struct nested { u8 tag; union { struct ints i; u64 whole; }; u8 v[3]; };
struct node { int v; struct node *next; struct pair p; char name[8]; };
typedef const struct ints fixed_ints;

static struct pair at = {11, -12};
static struct node third = {.v = -30, .p = {31, 32}, .name = "third"};
static struct node second = {.v = 20, .next = &third, .p = {-21, 22}, .name = "second"};
static struct node first = {.v = 10, .next = &second, .p = {1, 2}, .name = "first"};
static struct {
	int n;
	short v[4];
} flexible = {4, {-1, 2, -3, 400}};
static struct crossing across = {0xff, 0x2fedcba9, -0x1234567890abLL, 0xbeef, 5, 0x2fedcba987654321, -0x123456789abcdefLL};
static struct node nodes[3] = {{.v = 1}, {.v = -2, .p = {5, 6}}, {.v = 3}};

// Results in memory: on amd64 the address of the result is the first argument.

F struct big kv_rs24(int a, int b) { return (struct big){a, b, (long)a * b}; }
static void call_rs24(void)
{
	int a = 3, b = -4;
	struct big RET = kv_rs24(a, b);

	V(kv_rs24, a, b, a * b, RET.a, RET.b, RET.c, RET.c - a)
	D(kv_rs24, a == 3, b < 0, a + b == -1, b > a, RET.c == -12, RET.a == a, RET.b == 4)
}

F struct huge kv_rs_six(long a, s8 b, u16 c, int d, long e, s16 f)
{
	return (struct huge){d, {a, b, c}, {1, -2, f, 4, -5}};
}
static void call_rs_six(void)
{
	long a = 0x123456789abcdefL, e = -1;
	s8 b = -8;
	u16 c = 0xfff0;
	int d = -70000;
	s16 f = -600;
	struct huge RET = kv_rs_six(a, b, c, d, e, f);

	V(kv_rs_six, a, b, c, d, e, f, RET.a, RET.in.a, RET.in.b, RET.in.c, RET.v[2], RET.v[4])
	D(kv_rs_six, b == -8, c > 65000, f == -600, d < f, e == -1, RET.v[2] == f, RET.in.b == -b)
}

F struct large kv_rs17(u8 a) { return (struct large){{1, 2, a, [16] = 0xfe}}; }
static void call_rs17(void)
{
	u8 a = 200;
	struct large RET = kv_rs17(a);

	V(kv_rs17, a, RET.v[0], RET.v[2], RET.v[16], RET.v[15])
	D(kv_rs17, RET.v[16] == 254, RET.v[2] == a, a < 0)
}

F struct packed9 kv_rpacked9(long a, s8 b) { return (struct packed9){b, a}; }
static void call_rpacked9(void)
{
	long a = -0x123456789abcdefL;
	s8 b = -5;
	struct packed9 RET = kv_rpacked9(a, b);

	V(kv_rpacked9, a, b, RET.a, RET.b)
	D(kv_rpacked9, RET.a == b, RET.b == a, b == -5, a > 0, RET.a == 5)
}

F struct big kv_rs24_big(struct big p, long n) { return (struct big){p.c, p.b + n, p.a}; }
static void call_rs24_big(void)
{
	struct big p = {1, -2, 3};
	long n = 1000;
	struct big RET = kv_rs24_big(p, n);

	V(kv_rs24_big, p.a, p.b, p.c, n, RET.a, RET.b, RET.c)
	D(kv_rs24_big, p.b == -2, n == 1000, RET.b == p.b + n, RET.a == p.a, RET.c == 1)
}

F struct big kv_rs24_seven(long a, long b, long c, long d, long e, long f, long g)
{
	return (struct big){a + g, b + f, c + d + e};
}
static void call_rs24_seven(void)
{
	long a = 1, b = -2, c = 3, d = -4, e = 5, f = -6, g = 7;
	struct big RET = kv_rs24_seven(a, b, c, d, e, f, g);

	V(kv_rs24_seven, a, b, c, d, e, f, g, RET.a, RET.b, RET.c)
	D(kv_rs24_seven, e == 5, f == -6, g == 7, g < f, RET.a == a + g, RET.b == 8)
}

// Results in one or two registers.

F struct nine kv_rs9(int a) { return (struct nine){a * 10000000000L, -3}; }
static void call_rs9(void)
{
	int a = -9;
	struct nine RET = kv_rs9(a);

	V(kv_rs9, a, RET.a, RET.b, RET.a + RET.b)
	D(kv_rs9, RET.b == -3, RET.b < 0, RET.a == -90000000000, RET.b == 253)
}

F struct triple kv_rs12(int a, int b, int c) { return (struct triple){c, b, a}; }
static void call_rs12(void)
{
	int a = 1, b = -2, c = 0x7fffffff;
	struct triple RET = kv_rs12(a, b, c);

	V(kv_rs12, a, b, c, RET.a, RET.b, RET.c)
	D(kv_rs12, RET.c == a, RET.b == b, RET.b < 0, RET.a == 0x7fffffff, RET.c > 1)
}

F struct iter kv_riter(u32 id) { return (struct iter){id + 1, &at}; }
static void call_riter(void)
{
	u32 id = 0xfffffff0;
	struct iter RET = kv_riter(id);

	V(kv_riter, id, RET.id, (unsigned long)RET.at, RET.at->a, RET.at->b)
	D(kv_riter, RET.id == 0xfffffff1, RET.at->b == -12, RET.at != NULL, RET.at->a < 0, RET.id < id)
}

F struct pair kv_rpair(long a, long b) { return (struct pair){b, a}; }
static void call_rpair(void)
{
	long a = LONG_MAX, b = LONG_MIN;
	struct pair RET = kv_rpair(a, b);

	V(kv_rpair, a, b, RET.a, RET.b)
	D(kv_rpair, RET.a == b, RET.b == a, RET.a < RET.b, RET.b == -1, a > 0)
}

F struct ints kv_rints(int a, int b) { return (struct ints){b, a}; }
static void call_rints(void)
{
	int a = -1, b = 65536;
	struct ints RET = kv_rints(a, b);

	V(kv_rints, a, b, RET.a, RET.b, RET.a + RET.b)
	D(kv_rints, RET.b == -1, RET.b < 0, RET.a == b, RET.a == 0, RET.b > a)
}

F struct three kv_rthree(s8 a) { return (struct three){a, -a, 3}; }
static void call_rthree(void)
{
	s8 a = 100;
	struct three RET = kv_rthree(a);

	V(kv_rthree, a, RET.a, RET.b, RET.c)
	D(kv_rthree, RET.b == -100, RET.b > 0, RET.c == 3, RET.a == a)
}

F struct one kv_rone(u8 a) { return (struct one){a}; }
static void call_rone(void)
{
	u8 a = 0x80;
	struct one RET = kv_rone(a);

	V(kv_rone, a, RET.a)
	D(kv_rone, RET.a == 128, RET.a < 0, a == 128)
}

F struct packed12 kv_rpacked12(int a) { return (struct packed12){~0xffL, a}; }
static void call_rpacked12(void)
{
	int a = -77;
	struct packed12 RET = kv_rpacked12(a);

	V(kv_rpacked12, a, RET.a, RET.b)
	D(kv_rpacked12, RET.b == -77, RET.a == -256, RET.b > 0)
}

F struct bits kv_rbits(int a) { return (struct bits){-3, 17, a, 0xfedcba9876}; }
static void call_rbits(void)
{
	int a = -4000;
	struct bits RET = kv_rbits(a);

	V(kv_rbits, a, RET.a, RET.b, RET.c, RET.d)
	D(kv_rbits, RET.a == -3, RET.b == 17, RET.c == a, RET.d == 0xfedcba9876, RET.a > 0, RET.c == 4192)
}

F struct bits16 kv_rbits16(u64 a) { return (struct bits16){a, 9, -5000000000LL + (s64)(a & 1), 0x7edcba98}; }
static void call_rbits16(void)
{
	u64 a = 0xedcba9876543210;
	struct bits16 RET = kv_rbits16(a);

	V(kv_rbits16, a, RET.a, RET.b, (long)RET.c, RET.d)
	D(kv_rbits16, RET.a == a, RET.b == 9, RET.d == 0x7edcba98, RET.d < 5, RET.b > 9)
}

F struct bits9 kv_rbits9(u64 a) { return (struct bits9){a, -0xa5, 2}; }
static void call_rbits9(void)
{
	u64 a = 0x1edcba9876543210;
	struct bits9 RET = kv_rbits9(a);

	V(kv_rbits9, a, RET.a, RET.b, RET.c)
	D(kv_rbits9, RET.a == a, RET.b == -0xa5, RET.c == 2, RET.b > 0)
}

F __int128 kv_rint128(long a) { return ((__int128)a << 64) | 0x1122334455667788; }
static void call_rint128(void)
{
	long a = -2;
	__int128 RET = kv_rint128(a);

	V(kv_rint128, a, RET)
	D(kv_rint128, a == -2)
}

F struct wrapped kv_rwrapped(int n, __int128 v) { return (struct wrapped){v + n}; }
static void call_rwrapped(void)
{
	int n = 1;
	__int128 v = ((__int128)0x123456789abcdef << 64) | 0xfedcba9876543210;
	struct wrapped RET = kv_rwrapped(n, v);

	V(kv_rwrapped, n, v, RET.v)
	D(kv_rwrapped, n == 1, n > 1)
}

F union either kv_reither(int a) { return (union either){.v = {a, 2, -3, 4}}; }
static void call_reither(void)
{
	int a = -1;
	union either RET = kv_reither(a);

	V(kv_reither, a, RET.a, RET.v[0], RET.v[1], RET.v[2], RET.v[3], RET.in.x, RET.in.y)
	D(kv_reither, RET.v[2] == -3, RET.v[3] == 4, RET.in.y == -1, RET.a == 0x2ffffffff, RET.v[2] > 0)
}

F struct sevens kv_rsevens(u16 a) { return (struct sevens){{1, a, 3, 4, 5, 6, 0xffff}}; }
static void call_rsevens(void)
{
	u16 a = 0x8000;
	struct sevens RET = kv_rsevens(a);

	V(kv_rsevens, a, RET.v[0], RET.v[1], RET.v[3], RET.v[4], RET.v[6])
	D(kv_rsevens, RET.v[6] == 65535, RET.v[1] == a, RET.v[4] == 5, RET.v[6] < 0)
}

F struct odds kv_rodds(short a) { return (struct odds){{{a, 1}, {-a, -2}}}; }
static void call_rodds(void)
{
	short a = 3000;
	struct odds RET = kv_rodds(a);

	V(kv_rodds, a, RET.v[0].a, RET.v[0].b, RET.v[1].a, RET.v[1].b)
	D(kv_rodds, RET.v[1].a == -3000, RET.v[1].b == -2, RET.v[0].a == a, RET.v[1].b > 0)
}

F struct nested kv_rnested(u8 tag) { return (struct nested){tag, {{-5, 6}}, {7, 8, 9}}; }
static void call_rnested(void)
{
	u8 tag = 250;
	struct nested RET = kv_rnested(tag);

	V(kv_rnested, tag, RET.tag, RET.i.a, RET.i.b, RET.whole, RET.v[0], RET.v[2])
	D(kv_rnested, RET.tag == tag, RET.i.a == -5, RET.v[2] == 9, RET.i.b < 0)
}

// Results that are narrower than their register, whose upper part holds something else.

#define DIRTY(name, type, word, ...) \
	F type name(u64 w) { RETURN_DIRTY(type, w); } \
	static void call_##name(void) \
	{ \
		u64 w = (word); \
		type RET = name(w); \
		seq_printf(out, "r %s\t%llx\n", #name, AS(u64 (*)(u64), name)(w)); \
		V(name, w, RET, RET + 1) \
		D(name, __VA_ARGS__) \
	}

DIRTY(kv_rbool, bool, 1, RET == true, RET && true, !RET)
DIRTY(kv_rs8, s8, 0xdeadbeefcafe0180, RET == -128, RET < 0, RET == 128, RET > 0)
DIRTY(kv_ru8, u8, 0xdeadbeefcafe01ff, RET == 255, RET < 0, RET == 511)
DIRTY(kv_rs16, s16, 0xdeadbeef7777fffe, RET == -2, RET < 0, RET > 0)
DIRTY(kv_ru16, u16, 0xdeadbeef7777fffe, RET == 65534, RET < 0, RET > 65534)
DIRTY(kv_rint, int, 0xdeadbeeffffffff3, RET == -13, RET < 0, RET > 0, RET == -12)
DIRTY(kv_ru32, u32, 0xdeadbeef80000001, RET == 0x80000001, RET > 0x80000000, RET < 0)
DIRTY(kv_rsmall, enum small, 0xdeadbeefcafe01fe, RET == SMALL_MINUS, RET < 0, RET == SMALL_ONE)
DIRTY(kv_rwide, enum wide, 0xfedcba9876543210, RET == WIDE_MOST, RET == WIDE_ONE, RET > WIDE_ONE)

F struct node *kv_rnode(struct node *n, int more) { return more > 1 ? n->next->next : n->next; }
static void call_rnode(void)
{
	struct node *n = &first;
	int more = 2;
	struct node *RET = kv_rnode(n, more);

	V(kv_rnode, more, n->v, n->next->v, n->next->p.a, RET->v, RET->p.b, RET->name[1], (unsigned long)RET->next)
	D(kv_rnode, n->v == 10, n->next->v == 20, RET->v == -30, RET->next == NULL, RET == n, RET->p.a == 31, n->next->next == RET)
}

F void kv_void(struct node *n, int v) { n->v = v; }
static void call_void(void)
{
	struct node *n = &nodes[0];
	int v = 1;

	kv_void(n, v);
	V(kv_void, n->v, n[1].v, n[2].v, v, (n + 1)->p.a, (long)(n + 2) - (long)n)
	D(kv_void, n->v == v, n[1].v == -2, n[2].v < 0, n[1].p.b == 6)
}

// Parameters.

F long kv_seven(int a, int b, int c, int d, int e, int f, int g) { return a + b + c + d + e + f + g; }
static void call_seven(void)
{
	int a = -1, b = 2, c = -3, d = 4, e = -5, f = 6, g = -7;
	long RET = kv_seven(a, b, c, d, e, f, g);

	V(kv_seven, a, b, c, d, e, f, g, RET, RET + g)
	D(kv_seven, f == 6, g == -7, g < 0, RET == -4, e > 0, RET == g + 3)
}

F int kv_mixed(s8 a, u8 b, s16 c, u16 d, int e, u32 f, s8 g, u8 h, s16 i, u16 j, bool k)
{
	return a + b + c + d + e + f + g + h + i + j + k;
}
static void call_mixed(void)
{
	s8 a = -1, g = -7;
	u8 b = 255, h = 254;
	s16 c = -300, i = -301;
	u16 d = 65535, j = 65534;
	int e = INT_MIN;
	u32 f = UINT_MAX;
	bool k = true;
	int RET = kv_mixed(a, b, c, d, e, f, g, h, i, j, k);

	V(kv_mixed, a, b, c, d, e, f, g, h, i, j, k, RET)
	D(kv_mixed, g == -7, h == 254, i == -301, j == 65534, k && true, !k, g > 0, h < 0, i * 2 == -602, e < a, f > 0)
}

F long kv_twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l)
{
	return a - b + c - d + e - f + g - h + i - j + k - l;
}
static void call_twelve(void)
{
	long a = 1, b = 22, c = 333, d = 4444, e = 55555, f = 666666, g = -7, h = -88, i = -999, j = -1010, k = -11111, l = -121212;
	long RET = kv_twelve(a, b, c, d, e, f, g, h, i, j, k, l);

	V(kv_twelve, a, d, f, g, h, i, j, k, l, RET, k * l)
	D(kv_twelve, g == -7, h == -88, i == -999, j == -1010, k == -11111, l == -121212, l > 0, RET == a + l)
}

// Called with registers whose upper parts hold something else.
F long kv_dirty(s8 a, u8 b, s16 c, u16 d, int e, u32 f) { return a + b + c + d + e + f; }
static void call_dirty(void)
{
	s8 a = -1;
	u8 b = 2;
	s16 c = -3;
	u16 d = 4;
	int e = -5;
	u32 f = 6;
	long RET = AS(long (*)(u64, u64, u64, u64, u64, u64), kv_dirty)(0xdeadbeefcafe01ff, 0xdeadbeefcafe0102, 0xdeadbeef7777fffd,
		0xdeadbeef77770004, 0xdeadbeeffffffffb, 0xdeadbeef00000006);

	V(kv_dirty, a, b, c, d, e, f, a + b, RET)
	D(kv_dirty, a == -1, b == 2, c == -3, d == 4, e == -5, f == 6, a > 0, e > 0, c < d, f > 6)
}

// The same on the stack.
F long kv_dirty_stack(long a, long b, long c, long d, long e, long f, s8 g, u16 h, int i) { return g + h + i; }
static void call_dirty_stack(void)
{
	s8 g = -1;
	u16 h = 2;
	int i = -3;
	long RET = AS(long (*)(u64, u64, u64, u64, u64, u64, u64, u64, u64), kv_dirty_stack)(1, 2, 3, 4, 5, 6, 0xdeadbeefcafe01ff,
		0xdeadbeef77770002, 0xdeadbeeffffffffd);

	V(kv_dirty_stack, g, h, i, g + h + i, RET)
	D(kv_dirty_stack, g == -1, h == 2, i == -3, i > 0, g < i)
}

F long kv_pair(int n, struct pair p, int m) { return p.a + p.b + n + m; }
static void call_pair(void)
{
	int n = -1, m = 5;
	struct pair p = {-0x100000000L, 0x7fffffffffffffffL};
	long RET = kv_pair(n, p, m);

	V(kv_pair, n, p.a, p.b, m, p.a + m, RET)
	D(kv_pair, p.a == -0x100000000, p.b > 0, m == 5, m == n, p.a < p.b)
}

F int kv_ints(struct ints p, fixed_ints q) { return p.a + q.b; }
static void call_ints(void)
{
	struct ints p = {-1, 2};
	fixed_ints q = {3, -4};
	int RET = kv_ints(p, q);

	V(kv_ints, p.a, p.b, q.a, q.b, p.b * q.b, RET)
	D(kv_ints, p.a == -1, p.b == 2, q.b == -4, q.b > 0, RET == p.a + q.b)
}

F long kv_straddling(long a, long b, long c, long d, long e, struct pair p, long f) { return p.b - f; }
static void call_straddling(void)
{
	long a = 1, b = 2, c = 3, d = 4, e = 5, f = 66;
	struct pair p = {-7, 8};
	long RET = kv_straddling(a, b, c, d, e, p, f);

	V(kv_straddling, a, e, p.a, p.b, f, RET)
	D(kv_straddling, p.a == -7, p.b == 8, f == 66, f == -7, RET == p.b - f)
}

F long kv_big(struct big p, long n, struct huge q) { return p.c + n + q.v[4]; }
static void call_big(void)
{
	struct big p = {1, -2, 3};
	long n = 44;
	struct huge q = {-5, {6, -7, 8}, {9, -10, 11, -12, 13}};
	long RET = kv_big(p, n, q);

	V(kv_big, p.a, p.b, p.c, n, q.a, q.in.b, q.v[1], q.v[4], RET)
	D(kv_big, p.b == -2, n == 44, q.a == -5, q.in.b < 0, q.v[3] == -12, q.v[4] > 13, RET == 60)
}

F long kv_int128(int n, __int128 p, long m) { return (long)(p >> 64) + n + m; }
static void call_int128(void)
{
	int n = 3;
	__int128 p = ((__int128)-2 << 64) | 0x8000000000000001;
	long m = -4, RET = kv_int128(n, p, m);

	V(kv_int128, n, p, m, RET)
	D(kv_int128, n == 3, m == -4, m > 0, RET == n + m - 2)
}

F long kv_int128_stack(long a, long b, long c, long d, long e, long f, long g, __int128 p, long m) { return (long)p + m; }
static void call_int128_stack(void)
{
	long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, m = -8;
	__int128 p = ((__int128)0x1234 << 64) | 0x5678;
	long RET = kv_int128_stack(a, b, c, d, e, f, g, p, m);

	V(kv_int128_stack, g, p, m, RET)
	D(kv_int128_stack, g == 7, m == -8, m > 0)
}

F long kv_packed9(int n, struct packed9 p, int m) { return p.b + p.a + n + m; }
static void call_packed9(void)
{
	int n = 1, m = -3;
	struct packed9 p = {-2, 0x123456789abcdefL};
	long RET = kv_packed9(n, p, m);

	V(kv_packed9, n, p.a, p.b, m, RET)
	D(kv_packed9, n == 1, p.a == -2, p.b == 0x123456789abcdef, m == -3, m > 0)
}

F int kv_packed5(struct packed5 p, int m, struct packed12 q) { return p.b + m + q.b; }
static void call_packed5(void)
{
	struct packed5 p = {-2, 100000};
	int m = -3;
	struct packed12 q = {-4, 5};
	int RET = kv_packed5(p, m, q);

	V(kv_packed5, p.a, p.b, m, q.a, q.b, RET)
	D(kv_packed5, p.a == -2, p.b == 100000, m == -3, q.a == -4, q.b == 5, p.b < 0)
}

F int kv_narrow(struct three p, struct one q, struct odds r, struct sevens s) { return p.c + q.a + r.v[1].b + s.v[6]; }
static void call_narrow(void)
{
	struct three p = {1, -2, 3};
	struct one q = {255};
	struct odds r = {{{-300, 4}, {500, -6}}};
	struct sevens s = {{1, 2, 3, 4, 5, 6, 0xfff9}};
	int RET = kv_narrow(p, q, r, s);

	V(kv_narrow, p.a, p.b, p.c, q.a, r.v[0].a, r.v[1].a, r.v[1].b, s.v[1], s.v[6], RET)
	D(kv_narrow, p.b == -2, q.a == 255, q.a < 0, r.v[0].a == -300, r.v[1].b == -6, s.v[6] == 0xfff9)
}

F int kv_empty(int a, struct empty e, int b) { return a - b; }
static void call_empty(void)
{
	int a = 5, b = -6, RET = kv_empty(a, (struct empty){}, b);

	V(kv_empty, a, b, RET)
	D(kv_empty, a == 5, b == -6, b > 0, RET == a - b)
}

F int kv_flex(struct flex *p, int n) { return p->v[n]; }
static void call_flex(void)
{
	struct flex *p = (struct flex *)&flexible;
	int n = 2, RET = kv_flex(p, n);

	V(kv_flex, p->n, p->v[0], p->v[1], p->v[3], p->v[n], n, RET)
	D(kv_flex, p->n == 4, p->v[2] == -3, p->v[n] < 0, p->v[3] == 400, RET == p->v[n])
}

F int kv_flex_value(struct flex p, int n) { return p.n + n; }
static void call_flex_value(void)
{
	struct flex p = {-9};
	int n = 2, RET = kv_flex_value(p, n);

	V(kv_flex_value, p.n, n, RET)
	D(kv_flex_value, p.n == -9, n == 2, n > 2)
}

F long kv_either(union either p, short n) { return p.v[3] + n; }
static void call_either(void)
{
	union either p = {.v = {-1, 2, -3, 4}};
	short n = -5;
	long RET = kv_either(p, n);

	V(kv_either, p.a, p.v[0], p.v[1], p.v[2], p.v[3], p.in.x, p.in.y, n, RET)
	D(kv_either, p.v[2] == -3, p.in.y == -1, n == -5, p.v[3] < 0)
}

F long kv_bits(struct bits p, struct bits16 q, struct bits9 r) { return p.c + q.b + r.b; }
static void call_bits(void)
{
	struct bits p = {-4, 31, -4096, 0xffffffffff};
	struct bits16 q = {1, 15, -1, 0x7fffffff};
	struct bits9 r = {5, 255, 3};
	long RET = kv_bits(p, q, r);

	V(kv_bits, p.a, p.b, p.c, p.d, q.a, q.b, (long)q.c, q.d, r.a, r.b, r.c, RET)
	D(kv_bits, p.a == -4, p.b == 31, p.c < 0, q.b == 15, r.b == 255, r.c == 3, p.a > 0, q.a == 2)
}

F int kv_crossing(struct crossing *p) { return p->d; }
static void call_crossing(void)
{
	struct crossing *p = &across;
	int RET = kv_crossing(p);

	V(kv_crossing, p->a, p->b, (long)p->c, p->d, p->b >> 4, p->e, (unsigned long)p->f, (long)p->g, RET)
	D(kv_crossing, p->b == 0x2fedcba9, p->c < 0, p->d == 0xbeef, p->b > 0x2fedcba9, p->f == 0x2fedcba987654321, p->g < 0, RET == p->d)
}

F int kv_nested(struct nested p, struct iter q) { return p.i.b; }
static void call_nested(void)
{
	struct nested p = {200, {{-5, 6}}, {7, 8, 9}};
	struct iter q = {77, &at};
	int RET = kv_nested(p, q);

	V(kv_nested, p.tag, p.i.a, p.i.b, p.whole, p.v[1], q.id, q.at->b, RET)
	D(kv_nested, p.tag == 200, p.i.a == -5, p.v[1] == 8, q.at->a == 11, q.id != 77)
}

F long kv_enums(enum small a, enum wide b, enum small *p) { return a + *p; }
static void call_enums(void)
{
	enum small a = SMALL_MINUS, at_p = SMALL_MOST, *p = &at_p;
	enum wide b = WIDE_MOST;
	long RET = kv_enums(a, b, p);

	V(kv_enums, (int)a, (unsigned long)b, (int)*p, RET)
	D(kv_enums, a == SMALL_MINUS, a < 0, b == WIDE_MOST, *p == SMALL_MOST, *p < 0, b == WIDE_ONE)
}

F long kv_pointers(struct node **p, const volatile int *v, void *data, long (*fn)(long)) { return *v; }
static void call_pointers(void)
{
	struct node *n = &second, **p = &n;
	const volatile int *v = &second.v;
	void *data = &third;
	long (*fn)(long) = NULL;
	long RET = kv_pointers(p, v, data, fn);

	V(kv_pointers, (*p)->v, (*p)->next->v, *v, *v + 1, ((struct node *)data)->v, (unsigned long)fn, (unsigned long)data, RET)
	D(kv_pointers, *v == 20, (*p)->v == *v, ((struct node *)data)->p.a == 31, fn != NULL, (*p)->next == data)
}

static int show(struct seq_file *m, void *unused)
{
	out = m;
	call_rs24();
	call_rs_six();
	call_rs17();
	call_rpacked9();
	call_rs24_big();
	call_rs24_seven();
	call_rs9();
	call_rs12();
	call_riter();
	call_rpair();
	call_rints();
	call_rthree();
	call_rone();
	call_rpacked12();
	call_rbits();
	call_rbits16();
	call_rbits9();
	call_rint128();
	call_rwrapped();
	call_reither();
	call_rsevens();
	call_rodds();
	call_rnested();
	call_kv_rbool();
	call_kv_rs8();
	call_kv_ru8();
	call_kv_rs16();
	call_kv_ru16();
	call_kv_rint();
	call_kv_ru32();
	call_kv_rsmall();
	call_kv_rwide();
	call_rnode();
	call_void();
	call_seven();
	call_mixed();
	call_twelve();
	call_dirty();
	call_dirty_stack();
	call_pair();
	call_ints();
	call_straddling();
	call_big();
	call_int128();
	call_int128_stack();
	call_packed9();
	call_packed5();
	call_narrow();
	call_empty();
	call_flex();
	call_flex_value();
	call_either();
	call_bits();
	call_crossing();
	call_nested();
	call_enums();
	call_pointers();
	return 0;
}

static int values_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, show, NULL, 256 << 10); // room for all: show is called once
}

static const struct proc_ops values_ops = {
	.proc_open = values_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static int __init values_init(void)
{
	return proc_create("ksnoop_values", 0400, NULL, &values_ops) ? 0 : -ENOMEM;
}

static void __exit values_exit(void)
{
	remove_proc_entry("ksnoop_values", NULL);
}

module_init(values_init);
module_exit(values_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("functions of exotic signatures for the tests of ksnoop");
