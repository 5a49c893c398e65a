// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// printed prints what is added up for SPECs, and has Prometheus's own parser read it.
func printed(t *testing.T, k *formattest.Trace, specs []string, fill func(s *formattest.Summed)) (string, map[string]*dto.MetricFamily) {
	t.Helper()
	k.Calls(specs...)
	p := New(k.Run)
	s := k.Summed()
	for range 2 { // the end has the sum of all times
		fill(s)
		if text, err := p.AppendSummary(nil, s.Summary()); len(text) > 0 || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
	}
	totals := &output.Totals{}
	totals.Lost[bpf.LostRingbuf] = 3
	text, err := p.AppendEnd(nil, totals)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	lost := families["ksnoop_lost_total"]
	if lost.GetType() != dto.MetricType_COUNTER || len(lost.Metric) != 1 || lost.Metric[0].Counter.GetValue() != 3 {
		t.Errorf("lost: %v", lost)
	}
	delete(families, "ksnoop_lost_total")
	return string(text), families
}

func labels(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.Label {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// TestCounters: keys are labels, by valid and different names.
func TestCounters(t *testing.T) {
	spec := "t_read(count()[return, $comm, exit(return), quick, $func])"
	_, families := printed(t, formattest.New(t, "t_"), []string{spec}, func(s *formattest.Summed) {
		s.Add(0, []any{-2, "a\"b\\c\n\xff", -2, 1, 0}, 0, 0, 0)
		s.Add(0, []any{5, "", 5, 0, 0}, 0)
	})
	f := families["ksnoop_calls_total"]
	if len(families) != 1 || f.GetType() != dto.MetricType_COUNTER || len(f.Metric) != 2 {
		t.Fatal(families)
	}
	want := map[string]string{"table": "0", "spec": spec, "item": "count()", "return": "-ENOENT", "comm": `a"b\c\n\xff`, "exit_return": "-ENOENT", "quick": "1", "func": "t_read"}
	if diff := cmp.Diff(want, labels(f.Metric[0])); diff != "" || f.Metric[0].Counter.GetValue() != 6 {
		t.Errorf("%s%v", diff, f.Metric[0])
	}
}

// TestNumbers has the functions that are no histograms.
func TestNumbers(t *testing.T) {
	_, families := printed(t, formattest.New(t, "t_"), []string{"t_open(sum(flags), min(flags), max(flags), stats($duration), avg(flags), top(2, return), quantiles($duration))", "t_read(sum(count))"}, func(s *formattest.Summed) {
		for i := range 7 {
			s.Add(i, nil, 10, 20, 20)
		}
		s.Add(7, nil, 4)
	})
	got := map[string]string{}
	for name, f := range families {
		for _, m := range f.Metric {
			text := fmt.Sprint(f.GetType())
			switch {
			case m.Counter != nil:
				text += fmt.Sprint(" ", m.Counter.GetValue())
			case m.Gauge != nil:
				text += fmt.Sprint(" ", m.Gauge.GetValue())
			case m.Summary != nil:
				text += fmt.Sprintf(" sum %g of %d, %d quantiles", m.Summary.GetSampleSum(), m.Summary.GetSampleCount(), len(m.Summary.Quantile))
			}
			got[name+labels(m)["value"]] = text
		}
	}
	want := map[string]string{"ksnoop_flags_sum": "GAUGE 100", "ksnoop_flags_min": "GAUGE 10", "ksnoop_flags_max": "GAUGE 20", "ksnoop_duration_nanoseconds_stats": "SUMMARY sum 100 of 6, 0 quantiles",
		"ksnoop_duration_nanoseconds_stats_min": "GAUGE 10", "ksnoop_duration_nanoseconds_stats_max": "GAUGE 20", "ksnoop_flags_stats": "SUMMARY sum 100 of 6, 0 quantiles",
		"ksnoop_return_top20": "GAUGE 4", "ksnoop_return_top10": "GAUGE 2", "ksnoop_return_top_too_many20": "GAUGE 0", "ksnoop_return_top_too_many10": "GAUGE 0",
		"ksnoop_duration_nanoseconds_quantiles": "SUMMARY sum 0 of 6, 4 quantiles", "ksnoop_duration_nanoseconds_quantiles_max": "GAUGE 20", "ksnoop_count_total": "COUNTER 8"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, q := range families["ksnoop_duration_nanoseconds_quantiles"].Metric[0].Summary.Quantile {
		if q.GetValue() != 20 {
			t.Errorf("quantile %g is %g", q.GetQuantile(), q.GetValue())
		}
	}
}

// TestHistograms holds every bucket to a count of the values.
func TestHistograms(t *testing.T) {
	for spec, name := range map[string]string{"t_read(hist(count))": "ksnoop_count_hist", "t_open(hist(flags, 4))": "ksnoop_flags_hist", "t_open(lhist(flags, -20, 40, 10))": "ksnoop_flags_lhist", "t_open(hist($duration))": "ksnoop_duration_nanoseconds_hist"} {
		var values []int64
		_, families := printed(t, formattest.New(t, "t_"), []string{spec}, func(s *formattest.Summed) {
			for range 500 {
				v := rand.Int64N(1 << rand.Int64N(31))
				if strings.HasPrefix(spec, "t_open") && !strings.Contains(spec, "duration") && v%3 == 0 {
					v = -v
				}
				s.Add(0, nil, uint64(v))
				values = append(values, v)
			}
		})
		f := families[name]
		if f.GetType() != dto.MetricType_HISTOGRAM || len(f.Metric) != 1 {
			t.Fatalf("%s: %v", spec, families)
		}
		h := f.Metric[0].Histogram
		for _, b := range h.Bucket {
			var n uint64
			for _, v := range values {
				if float64(v) <= b.GetUpperBound() {
					n++
				}
			}
			if b.GetCumulativeCount() != n {
				t.Errorf("%s: %d values up to %g, want %d", spec, b.GetCumulativeCount(), b.GetUpperBound(), n)
			}
			if le := b.GetUpperBound(); strings.HasSuffix(spec, "hist(count))") && le != math.Inf(1) && (uint64(le)+1)&uint64(le) != 0 {
				t.Errorf("%s: le %g is not 2^k - 1", spec, le)
			}
		}
		if last := h.Bucket[len(h.Bucket)-1]; len(h.Bucket) < 5 || last.GetUpperBound() != math.Inf(1) || h.GetSampleCount() != 1000 {
			t.Errorf("%s: %v", spec, h)
		}
	}
}

// TestStacks: rows whose stacks read alike are one series, and hostile names are text.
func TestStacks(t *testing.T) {
	k := formattest.New(t, formattest.Evil)
	text, families := printed(t, k, []string{"*read(count()[$stack])"}, func(s *formattest.Summed) {
		s.Add(0, []any{1}, 0)
		s.Add(0, []any{0}, 0)
		s.Add(0, []any{9}, 0, 0)
	})
	if raw := formattest.Unsafe(text); raw != "" {
		t.Errorf("%q is in %q", raw, text)
	}
	m := families["ksnoop_calls_total"].Metric
	if len(m) != 2 || labels(m[0])["stack"] != "" || m[0].Counter.GetValue() != 6 || !strings.HasSuffix(labels(m[1])["stack"], ";do_syscall;entry_SYSCALL_64+0x60") {
		t.Error(m)
	}
	if _, err := New(k.Run).AppendCall(nil, nil); err == nil {
		t.Error("calls are taken")
	}
	if _, err := New(k.Run).AppendSession(nil, nil); err == nil {
		t.Error("sessions are taken")
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{"$comm": "comm", "s->object_size": "s_object_size", "(u32)x & 0xff": "u32_x_0xff", "": "x", "7": "x7", "«é»": "x"} {
		if got := summary.ValidName(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLabelNames(t *testing.T) {
	g := &expr.Aggregation{Keys: []expr.Capture{{Label: "le"}, {Label: "$pid"}, {Label: "pid"}, {Label: "(pid)"}}}
	if got := strings.Join(labelNames(g), " "); got != "le_2 pid pid_2 pid_3" {
		t.Error(got)
	}
}

// TestEachTime: the text of each time has the sum so far, and that of the end once more the sum of all.
func TestEachTime(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count())")
	p := New(k.Run)
	p.EachTime()
	s := k.Summed()
	for i := range 4 {
		s.Add(0, nil, 0, 0, 0)
		x := s.Summary()
		x.Lost, x.Last = []event.Loss{{Cause: bpf.LostKey, Count: 2}}, i == 3
		text, err := p.AppendSummary(nil, x)
		if x.Last && len(text) == 0 && err == nil {
			totals := &output.Totals{}
			totals.Lost[bpf.LostKey] = 8
			text, err = p.AppendEnd(nil, totals)
		}
		for _, want := range []string{fmt.Sprintf("} %d\n", 3*(i+1)), fmt.Sprintf("} %d\n", 2*(i+1)), "ksnoop_lost_total"} {
			if err != nil || strings.Count(string(text), want) < 1 || strings.Count(string(text), "# HELP ksnoop_calls_total") != 1 {
				t.Errorf("time %d has no %q: %v\n%s", i, want, err, text)
			}
		}
	}
}

// TestFull: when a table is full, the text of the next time has nothing of the times before but what was lost.
func TestFull(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count()[count])")
	p := New(k.Run)
	p.EachTime()
	s := k.Summed()
	const keys = 1 << 16
	for i, want := range []string{`count="7"} 1`, `count="7"} 1`, `count="7"} 2`} {
		if s.Add(0, []any{7}, 0); i == 0 {
			for n := range keys {
				if n != 7 {
					s.Add(0, []any{n}, 0)
				}
			}
		}
		x := s.Summary()
		x.Last = false
		text, err := p.AppendSummary(nil, x)
		if err != nil || !strings.Contains(string(text), want+"\n") || !strings.Contains(string(text), fmt.Sprintf("} %d\n", 2*(i+1))) {
			t.Errorf("time %d has no %s: %v\n%.500s", i, want, err, text)
		}
		if rows := strings.Count(string(text), "ksnoop_calls_total{"); rows != map[bool]int{true: keys, false: 1}[i == 0] {
			t.Errorf("time %d has %d rows", i, rows)
		}
	}
}
