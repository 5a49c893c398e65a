// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/formattest"
)

// An arrived is an exponential histogram as a receiver reads it.
type arrived struct {
	scale, offset, zero, count int
	counts                     []int
}

// arrive reads the only data point of a metric.
func arrive(t *testing.T, line string) (h arrived) {
	t.Helper()
	if !strings.Contains(line, `metric {name="ksnoop.`) || !strings.Contains(line, ` exponential_histogram={data_points=[{attributes=[ksnoop.spec="t_`) || strings.Contains(line, "sum=") ||
		!strings.HasSuffix(line, " aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE}}") || !strings.Contains(line, " start_time_unix_nano="+at(1e9)+" time_unix_nano="+at(2e9)+" ") {
		t.Fatal(line)
	}
	for name, to := range map[string]*int{" scale=": &h.scale, "offset=": &h.offset, " zero_count=": &h.zero, " count=": &h.count} {
		if _, rest, ok := strings.Cut(line, name); ok { // 0 is left out
			*to = number(t, strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '}' })[0])
		}
	}
	_, rest, _ := strings.Cut(line, "bucket_counts=[")
	text, _, _ := strings.Cut(rest, "]")
	for _, n := range strings.Fields(text) {
		h.counts = append(h.counts, number(t, n))
	}
	return h
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// upTo returns how many numbers a bucket and all below it have, zeros among them, and where it ends.
func (h *arrived) upTo(bucket int) (n int, end float64) {
	n = h.zero
	for _, c := range h.counts[:bucket+1] {
		n += c
	}
	return n, math.Pow(2, float64(h.offset+bucket+1)/math.Pow(2, float64(h.scale))) // base^(index+1), as the data model has it
}

// TestExponential holds every bucket to a count of the values, by the boundaries of OpenTelemetry's data model: of hist(x)
// all are exact but powers of two, of hist(x, N) none is too high by more than 1/N of it.
func TestExponential(t *testing.T) {
	for _, c := range []struct {
		spec         string
		scale, parts int
	}{{"t_read(hist(count))", 0, 1}, {"t_read(hist(count, 4))", 2, 4}, {"t_open(hist(flags))", 0, 1}, {"t_open(hist(flags, 32))", 5, 32}} {
		var values []float64 // from 0
		negative := 0
		lines := summarizedAs(t, Options{Exponential: true}, c.spec, func(s *formattest.Summed) {
			for i := range 1000 {
				v := rand.Int64N(1 << rand.Int64N(31))
				if i < 3 {
					v = int64(i)
				}
				if v >= 2 && c.parts == 1 && v&(v-1) == 0 {
					v++
				}
				if strings.HasPrefix(c.spec, "t_open") && i%3 == 0 && v > 0 {
					v = -v
					negative++
				} else {
					values = append(values, float64(v))
				}
				s.Add(0, nil, uint64(v))
			}
		})
		if negative > 0 {
			if len(lines) != 2 || !strings.Contains(lines[0], `.negative" `) || !strings.Contains(lines[0], " as_int="+strconv.Itoa(negative)+" ") || !strings.Contains(lines[0], "is_monotonic=true") {
				t.Fatalf("%s: %d negative numbers: %q", c.spec, negative, lines)
			}
			lines = lines[1:]
		}
		if len(lines) != 1 {
			t.Fatalf("%s: %q", c.spec, lines)
		}
		h := arrive(t, lines[0])
		if all, _ := h.upTo(len(h.counts) - 1); h.scale != c.scale || h.count != len(values) || all != h.count || h.counts[0] == 0 {
			t.Errorf("%s: %+v, want scale %d and %d numbers", c.spec, h, c.scale, len(values))
		}
		for bucket := range h.counts {
			n, end := h.upTo(bucket)
			certain, possible := 0, 0
			for _, v := range values {
				if v <= end {
					possible++
				}
				if c.parts == 1 && v <= end || v*(1+1/float64(c.parts)) <= end {
					certain++
				}
			}
			if n < certain || n > possible {
				t.Errorf("%s: %d numbers up to %g, want %d to %d", c.spec, n, end, certain, possible)
			}
		}
	}
}

// TestPowersOfTwo: what the documentation says of them: 1 is exact, others are one bucket too high.
func TestPowersOfTwo(t *testing.T) {
	for v, index := range map[uint64]int{1: -1, 2: 1, 3: 1, 4: 2, 1 << 40: 40, 1<<64 - 1: 63} {
		lines := summarizedAs(t, Options{Exponential: true}, "t_read(hist($duration))", func(s *formattest.Summed) { s.Add(0, nil, v) })
		if h := arrive(t, lines[0]); h.offset != index || len(h.counts) != 1 || h.counts[0] != 2 || h.zero != 0 {
			t.Errorf("%d: %+v, want bucket %d", v, h, index)
		}
	}
	lines := summarizedAs(t, Options{Exponential: true}, "t_read(hist($duration))", func(s *formattest.Summed) { s.Add(0, nil, 0) })
	if h := arrive(t, lines[0]); h.zero != 2 || h.count != 2 || len(h.counts) != 0 {
		t.Errorf("0: %+v", h)
	}
	lines = summarizedAs(t, Options{Exponential: true}, "t_open(hist(flags))", func(s *formattest.Summed) { s.Add(0, nil, uint64(1<<64-5)) })
	if len(lines) != 1 || !strings.Contains(lines[0], `name="ksnoop.flags.negative"`) {
		t.Errorf("-5: %q", lines)
	}
}

// TestExponentialIndex: a bucket ends with its upper boundary, and begins behind the lower one.
func TestExponentialIndex(t *testing.T) {
	for k := range 64 {
		for scale := range 6 {
			v, parts := uint64(1)<<k, 1<<scale
			if got, want := exponentialIndex(v, scale), k*parts-1; got != want {
				t.Errorf("scale %d: 2^%d in bucket %d, want %d", scale, k, got, want)
			}
			if got, want := exponentialIndex(v+1, scale), k*parts; k > 7 && got != want {
				t.Errorf("scale %d: 2^%d + 1 in bucket %d, want %d", scale, k, got, want)
			}
			other := v | rand.Uint64N(v) // a logarithm tells, but where it is near a whole number
			if log := math.Log2(float64(other)) * float64(parts); math.Abs(log-math.Round(log)) > 1e-9 && exponentialIndex(other, scale) != int(math.Floor(log)) {
				t.Errorf("scale %d: %d in bucket %d, its logarithm is %g", scale, other, exponentialIndex(other, scale), log)
			}
		}
	}
}
