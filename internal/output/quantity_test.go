// SPDX-License-Identifier: Apache-2.0

package output

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/expr"
)

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		n     uint64
		unit  expr.Unit
		want  string
		bound string // exactly, with a scale
		plain string // and without one
	}{
		{0, expr.UnitNone, "0", "0", "0"}, {999, expr.UnitNone, "999", "999", "999"}, {1000, expr.UnitNone, "1,000", "1000", "1000"},
		{1023, expr.UnitNone, "1,023", "1023", "1023"}, {1024, expr.UnitNone, "1,024", "1K", "1024"}, {1536, expr.UnitNone, "1,536", "1.5K", "1536"},
		{math.MaxUint64, expr.UnitNone, "18,446,744,073,709,551,615", "", "18446744073709551615"}, {1 << 63, expr.UnitNone, "9,223,372,036,854,775,808", "8E", "9223372036854775808"},
		{999, expr.UnitNanos, "999ns", "999ns", "999ns"}, {1000, expr.UnitNanos, "1.000us", "1us", "1us"}, {1024, expr.UnitNanos, "1.024us", "1.024us", "1.024us"},
		{1 << 20, expr.UnitNanos, "1.049ms", "1.048576ms", "1.048576ms"}, {1 << 30, expr.UnitNanos, "1.074s", "1.073741824s", "1.073741824s"},
		{90e9, expr.UnitNanos, "90.000s", "90s", "90s"}, {1023, expr.UnitBytes, "1023B", "1023B", "1023B"}, {1 << 20, expr.UnitBytes, "1.000MiB", "1MiB", "1048576B"},
		{3 << 29, expr.UnitBytes, "1.500GiB", "1.5GiB", "1610612736B"},
	} {
		if got := string(appendQuantity(nil, c.n, c.unit)); got != c.want {
			t.Errorf("%d: %s, want %s", c.n, got, c.want)
		}
		if got := string(appendBound(nil, c.n, c.unit, true)); c.bound != "" && got != c.bound {
			t.Errorf("bound %d: %s, want %s", c.n, got, c.bound)
		}
		if got := string(appendBound(nil, c.n, c.unit, false)); got != c.plain {
			t.Errorf("bound %d without a scale: %s, want %s", c.n, got, c.plain)
		}
	}
	for _, c := range []struct {
		mean float64
		unit expr.Unit
		want string
	}{{0, expr.UnitNone, "0.00"}, {5.0 / 3, expr.UnitNone, "1.67"}, {-2.5, expr.UnitNone, "-2.50"}, {1234567.8, expr.UnitNone, "1,234,567"}, {1.5, expr.UnitNanos, "1.50ns"},
		{1234.4, expr.UnitNanos, "1.234us"}, {2048, expr.UnitBytes, "2.000KiB"}, {99.5, expr.UnitBytes, "99.50B"}, {math.MaxUint64, expr.UnitNone, "18,446,744,073,709,551,615"},
		{math.MaxUint64, expr.UnitNanos, "18446744073.710s"}, {-(1 << 63), expr.UnitNone, "-9,223,372,036,854,775,808"}} {
		if got := string(appendMean(nil, c.mean, c.unit)); got != c.want {
			t.Errorf("%g: %s, want %s", c.mean, got, c.want)
		}
	}
}

// TestBounds holds the decimals of bounds to rational numbers.
func TestBounds(t *testing.T) {
	for range 20000 {
		n := rand.Uint64() >> rand.UintN(64)
		for unit, scales := range map[expr.Unit][]scale{expr.UnitNone: plainScales, expr.UnitNanos: nanoScales, expr.UnitBytes: byteScales} {
			text := string(appendBound(nil, n, unit, true))
			digits := strings.TrimRight(text, "KMGTPEiBnums")
			got, ok := new(big.Rat).SetString(digits)
			if !ok {
				t.Fatalf("%d: %s", n, text)
			}
			for _, s := range scales {
				if s.name == text[len(digits):] {
					got.Mul(got, new(big.Rat).SetInt(new(big.Int).SetUint64(s.size)))
				}
			}
			if got.Cmp(new(big.Rat).SetInt(new(big.Int).SetUint64(n))) != 0 {
				t.Fatalf("%d: %s", n, text)
			}
		}
	}
}
