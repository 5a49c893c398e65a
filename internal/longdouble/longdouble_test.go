// SPDX-License-Identifier: Apache-2.0

package longdouble

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		name string
		size uint32
		want Format
	}{
		{"long double", 16, X87}, {"long double", 12, X87}, {"_Float64x", 16, X87}, {"long double", 8, None},
		{"_Float128", 16, Quad}, {"__float128", 16, Quad}, {"vector", 16, None}, {"double", 8, None},
	} {
		if got := Of(&btf.Float{Name: c.name, Size: c.size}); got != c.want {
			t.Errorf("%s of %d bytes: %d, want %d", c.name, c.size, got, c.want)
		}
	}
}

// x87 returns the memory of a long double, whose padding has garbage.
func x87(top uint16, m uint64) []byte {
	return append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint64(nil, m), top), 0x9e, 0x24, 0, 0xff, 1, 2)
}

func quad(high, low uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, low), high)
}

func TestAppend(t *testing.T) {
	for _, c := range []struct {
		format Format
		raw    []byte
		want   string
	}{
		{X87, x87(0x4000, 0xa000000000000000), "2.5"},
		{X87, x87(0xbfff, 0x8000000000000000), "-1"},
		{X87, x87(0x3ffb, 0xcccccccccccccccd), "0.1"},
		{X87, x87(0x3ffe, 0xffffffffffffffff), "0.99999999999999999995"},
		{X87, x87(0x7ffe, 0xffffffffffffffff), "1.189731495357231765e+4932"},  // LDBL_MAX
		{X87, x87(0x0001, 0x8000000000000000), "3.3621031431120935063e-4932"}, // LDBL_MIN
		{X87, x87(0, 0x8000000000000000), "3.3621031431120935063e-4932"},      // the same, as a pseudo-denormal
		{X87, x87(0, 1), "4e-4951"},                                           // LDBL_TRUE_MIN
		{X87, x87(0, 0), "0"},
		{X87, x87(0x8000, 0), "-0"},
		{X87, x87(0x7fff, 0x8000000000000000), "inf"},
		{X87, x87(0xffff, 0x8000000000000000), "-inf"},
		{X87, x87(0x7fff, 0xc000000000000000), "nan"},
		{X87, x87(0xffff, 0xc000000000000000), "-nan"},
		{X87, x87(0x4000, 0x2000000000000000), "nan"}, // an unnormal
		{X87, x87(0x7fff, 0), "nan"},                  // a pseudo-infinity
		{Quad, quad(0x4000400000000000, 0), "2.5"},
		{Quad, quad(0xbffb999999999999, 0x999999999999999a), "-0.1"},
		{Quad, quad(0x7ffeffffffffffff, 0xffffffffffffffff), "1.189731495357231765085759326628007e+4932"},
		{Quad, quad(0x0001000000000000, 0), "3.3621031431120935062626778173217526e-4932"},
		{Quad, quad(0, 1), "6e-4966"},
		{Quad, quad(1<<63, 0), "-0"},
		{Quad, quad(0xffff000000000000, 0), "-inf"},
		{Quad, quad(0x7fff800000000000, 0), "nan"},
	} {
		if got := string(c.format.Append(nil, c.raw)); got != c.want {
			t.Errorf("%x: %s, want %s", c.raw, got, c.want)
		}
	}
}

// TestShortest: numbers far from 1 have the digits that big.Float gives them, whose last one is the nearest.
func TestShortest(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 200 {
		m := new(big.Int).SetUint64(random.Uint64()>>random.UintN(64) | 1)
		if i%4 == 0 {
			m.Lsh(m, random.UintN(49))
		}
		e := 1000 + random.IntN(15000)
		if i%2 == 0 {
			e = -e
		}
		v := new(big.Float).SetPrec(uint(m.BitLen())).SetInt(m)
		want := v.SetMantExp(v, e).Text('e', -1)
		digits, power := shortest(m, e)
		if got := string(appendScientific(nil, digits, power)); got != want {
			t.Errorf("%d·2^%d: %s, want %s", m, e, got, want)
		}
	}
}

// The program reads lines of a value and our text for it. It prints whether C reads the text as the value, and takes
// a text with one digit less for another one; of nan and inf, whether C prints the same.
const program = `
#define __STDC_WANT_IEC_60559_TYPES_EXT__ 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
	static char text[256], c[256], how[16];
	unsigned long w[2];
	char format;

	while (scanf(" %c %lx %lx %255s", &format, &w[1], &w[0], text) == 4) {
		int same, shortest = 1, digits = strspn(text + strspn(text, "-0."), "0123456789.");
		digits -= strchr(text + strspn(text, "-0."), '.') != NULL;
		if (format == 'x') {
			long double v;
			memcpy(&v, w, sizeof v);
			if (digits > 1) {
				snprintf(c, sizeof c, "%.*Lg", digits - 1, v);
				shortest = strtold(c, NULL) != v;
			}
			snprintf(c, sizeof c, "%Lg", v);
			same = strtold(text, NULL) == v;
		} else {
			_Float128 v;
			memcpy(&v, w, sizeof v);
			if (digits > 1) {
				snprintf(how, sizeof how, "%%.%dg", digits - 1);
				strfromf128(c, sizeof c, how, v);
				shortest = strtof128(c, NULL) != v;
			}
			strfromf128(c, sizeof c, "%g", v);
			same = strtof128(text, NULL) == v;
		}
		puts((same || strstr(c, "nan") && !strcmp(c, text)) && shortest ? "yes" : c);
	}
	return 0;
}
`

// TestAgreesWithC: C reads a text as the value that it is of, and no shorter text.
func TestAgreesWithC(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs gcc of amd64: ", err)
	}
	file := filepath.Join(t.TempDir(), "c")
	build := exec.Command(gcc, "-O1", "-x", "c", "-o", file, "-")
	build.Stdin = strings.NewReader(program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var in bytes.Buffer
	var texts []string
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		high, low, format, name := random.Uint64(), random.Uint64(), Quad, 'q'
		exponent := 0x3fff - 100 + random.Uint64N(200)
		switch {
		case i%32 < 4:
			exponent = []uint64{0, 1, 0x7ffe, 0x7fff}[i%32]
		case i%4 == 0:
			exponent = random.Uint64N(0x7fff)
		}
		high = high&^(0x7fff<<48) | exponent<<48
		if i/32%2 == 0 {
			format, name, high = X87, 'x', high>>48|0xabcd<<16
			if low &^= 1 << 63; exponent != 0 {
				low |= 1 << 63
			}
		}
		texts = append(texts, string(format.Append(nil, quad(high, low))))
		fmt.Fprintf(&in, "%c %x %x %s\n", name, high, low, texts[i])
	}
	run := exec.Command(file)
	run.Stdin = &in
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	if len(lines) != len(texts) {
		t.Fatalf("%d lines for %d values", len(lines), len(texts))
	}
	for i, c := range lines {
		if c != "yes" {
			t.Errorf("%s, in C %s", texts[i], c)
		}
	}
}
