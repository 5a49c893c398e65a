/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and results whose places only the compiler knows, and complex numbers, for TestUnknownPlaces. */
#include <complex.h>
typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
struct holds { v4 v; };
struct dec { _Decimal64 d; };
union both { v4 v; int i; };
struct list { struct list *next; _Complex int odd; };
long vector(long a, v4 v, long b) { return a + b + (long)v[0]; }
long holder(long a, struct holds v, long b) { return a + b + (long)v.v[0]; }
long decimal(long a, _Decimal64 d, long b) { return a + b + (long)d; }
long decimals(long a, struct dec d, long b) { return a + b + (long)d.d; }
long unions(long a, union both d, long b) { return a + b + d.i; }
struct list *lists(long a, struct list *l, long b) { return l + a + b; }
v4 gives(long a) { return (v4){a}; }
__attribute__((vector_size(16))) float bare(long a) { return (v4){a}; }
v8 wide(long a) { return (v8){a}; }
double complex comp(long a, double complex z, float complex y, long double complex x, long b) { return z + y + x + a + b; }
int main(void) { return 0; }
