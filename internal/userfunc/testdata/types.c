/* SPDX-License-Identifier: Apache-2.0 */
/* Types whose layout TestTypes compares with gdb's. */
enum color { RED, GREEN = 7, BLUE = -1 };
enum big { TOP = 1UL << 63, LOW = 1 };
enum least { LEAST = -1L << 63, MOST = 1 };
typedef unsigned long word;
union either {
	int number;
	double real;
	char text[12];
};
struct inner {
	unsigned a : 3, b : 11;
	signed c : 5;
	unsigned long far : 40, top : 24;
	_Bool flag : 1;
};
struct outer {
	char head;
	struct inner in, more[2][3];
	union either either;
	enum color color;
	struct {
		short anonymous;
		union {
			int left;
			float right;
		};
	};
	const volatile word *pointer;
	int (*call)(struct outer *, ...);
	struct outer *next;
	struct hidden *hidden;
	__int128 wide;
	enum big big;
	enum least least;
	struct {
		char name[16];
		unsigned named : 1;
	} first;
	long tail[];
};

long takes(struct outer *o, enum color c, const char *const *names, union either e, struct inner i, word w, double d, int (*f)(void), ...)
{
	return (long)o + c + (long)names + e.number + i.a + (long)w + (long)d + (long)f;
}
void nothing(void) {}
static struct inner gives(int n) { struct inner i = { n, 1, 2 }; return i; }
int main(int argc, char **argv) { nothing(); return gives(argc).b + !argv; }
