/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that gcc -O2 divides: what leads to a cold function is moved far away. */
struct request {
	int kind;
	unsigned long len;
};
__attribute__((cold, noinline)) void fails(struct request *r) { __asm__ volatile("" : : "r"(r) : "memory"); }
__attribute__((noinline)) long handle(struct request *r, const char *name)
{
	if (r->kind == 7) {
		fails(r);
		r->len *= 3;
		fails(r + 1);
		return -1;
	}
	return r->len + name[0];
}
__attribute__((noinline)) int whole(short a) { return a * 3; }
int main(int argc, char **argv)
{
	struct request r = { argc, 2 };
	return handle(&r, argv[0]) + whole(argc);
}
