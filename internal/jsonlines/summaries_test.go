// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
)

// A userProcess names the addresses of a process.
type userProcess struct{}

func (userProcess) AppendFrame(dst []byte, addr uint64, _ bool) []byte { return append(dst, "main"...) }
func (userProcess) Missing() string                                    { return "" }

// summed prints what was added up for a SPEC, from its functions on.
func summed(t *testing.T, spec string, strings64 bool, fill func(s *formattest.Summed)) string {
	t.Helper()
	k := formattest.New(t, "t_")
	k.Calls(spec)
	k.Run.User = func(*bpf.Event, string) output.Process { return userProcess{} }
	p := New(k.Run, strings64)
	text, err := p.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := k.Summed()
	fill(s)
	if text, err = p.AppendSummary(text, s.Summary()); err != nil {
		t.Fatal(err)
	}
	check(t, text)
	_, lines, _ := strings.Cut(string(text), "\n")
	return lines
}

// TestSummary has rows of all kinds. What they must say was worked out by hand.
func TestSummary(t *testing.T) {
	const from = `"start":1000000000,`
	const loss = `,"cause":"fault","text":"calls left out because a predicate, or what is added up, met unreadable memory or divided by zero","count":2}` + "\n"
	for _, c := range []struct {
		name, spec string
		strings64  bool
		fill       func(s *formattest.Summed)
		want       string // from "start" on, with the stacks before
	}{
		{"counts", "t_read(count()[return, $comm, $func, quick])", false, func(s *formattest.Summed) {
			s.Add(0, []any{-2, "cat", 0, 1}, 0, 0)
			s.Add(0, []any{formattest.Unread{}, "a\x1b", 0, 0}, 0)
		}, from + `"spec":"t_read(count()[return, $comm, $func, quick])","item":"count()","keys":["return","$comm","$func","quick"],"functions":[0],"rows":[` +
			`{"keys":{"return":{"value":-2,"error":"ENOENT"},"$comm":"cat","$func":"t_read","quick":true},"calls":2},` +
			`{"keys":{"return":null,"$comm":"a\u001b","$func":"t_read","quick":false},"unreadable":{"return":"unreadable memory"},"calls":1}]}`},
		{"stats", "t_open(stats($duration), min(return), sum(flags))", true, func(s *formattest.Summed) {
			s.Add(0, nil, 10, 20, 60)
			s.Add(1, nil, 10, formattest.Errno(13))
			s.Add(2, nil, 10, formattest.Errno(13))
		}, `"item":"stats($duration)","keys":[],"functions":[0],"of":"$duration","type":"long unsigned int","unit":"ns","rows":[{"keys":{},"calls":3,"sum":"90","avg":30,"min":"10","max":"60"}]}
"item":"min(return)","keys":[],"functions":[0],"of":"return","type":"long int","rows":[{"keys":{},"calls":2,"min":{"value":"-13","error":"EACCES"}}]}
"item":"sum(flags)","keys":[],"functions":[0],"of":"flags","type":"int","rows":[{"keys":{},"calls":2,"sum":"-3"}]}`},
		{"buckets", "t_open(hist(flags), lhist(flags, 0, 10, 5))", false, func(s *formattest.Summed) {
			s.Add(0, nil, formattest.Errno(1), 0, 5, 6)
			s.Add(1, nil, formattest.Errno(1), 0, 5, 10)
		}, `"item":"hist(flags)","keys":[],"functions":[0],"of":"flags","type":"int","rows":[{"keys":{},"calls":4,"buckets":[{"high":-1,"calls":1},{"low":0,"high":0,"calls":1},{"low":4,"high":7,"calls":2}]}]}
"item":"lhist(flags, 0, 10, 5)","keys":[],"functions":[0],"of":"flags","type":"int","rows":[{"keys":{},"calls":4,"buckets":[{"high":-1,"calls":1},{"low":0,"high":4,"calls":1},{"low":5,"high":9,"calls":1},{"low":10,"calls":1}]}]}`},
		{"signed buckets of an unsigned value", "t_read(lhist(count, -5, 15, 10))", false, func(s *formattest.Summed) {
			s.Add(0, nil, 3, 5)
		}, `"item":"lhist(count, -5, 15, 10)","keys":[],"functions":[0],"of":"count","type":"unsigned int","rows":[{"keys":{},"calls":2,"buckets":[{"low":-5,"high":4,"calls":1},{"low":5,"high":14,"calls":1}]}]}`},
		{"quantiles and top", "t_open(quantiles(flags), top(1, flags))", false, func(s *formattest.Summed) {
			s.Add(0, nil, formattest.Errno(1), formattest.Errno(1), 5)
			s.Add(1, nil, 9, 9, 7)
		}, `"item":"quantiles(flags)","keys":[],"functions":[0],"of":"flags","type":"int","rows":[{"keys":{},"calls":3,"p50":null,"p90":5,"p99":5,"p99.9":5,"max":5}]}
"item":"top(1, flags)","keys":[],"functions":[0],"of":"flags","type":"int","rows":[{"keys":{},"values":[{"value":9,"calls":2}]}]}`},
		{"stacks", "t_read(sum(count)[$stack, $ustack])", false, func(s *formattest.Summed) {
			s.Add(0, []any{1, 1}, 5)
			s.Add(0, []any{0, 0}, 2)
		}, `{"kind":"stack","id":1,"frames":[{"addr":"0xffffffff81002000","symbol":"t_read","offset":0},{"addr":"0xffffffff81001050","symbol":"t_open","offset":80,"file":"fs/open.c","line":1400},` +
			`{"addr":"0xffffffff81000060","symbol":"do_syscall","file":"entry/common.c","line":81,"inlined":true},{"addr":"0xffffffff81000060","symbol":"entry_SYSCALL_64","offset":96,"file":"entry/entry.S","line":121}]}
` + `"item":"sum(count)","keys":["$stack","$ustack"],"functions":[0],"of":"count","type":"unsigned int","rows":[` +
			`{"keys":{"$stack":1,"$ustack":[{"addr":"0x401000","text":"main"},{"addr":"0x402000","text":"main"}]},"stack_cut":true,"calls":1,"sum":5},{"keys":{"$stack":null,"$ustack":null},"calls":1,"sum":2}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := summed(t, c.spec, c.strings64, c.fill)
			var kept []string
			for line := range strings.Lines(got) {
				if strings.Contains(line, `"kind":"loss"`) {
					if !strings.HasSuffix(line, loss) {
						t.Error(line)
					}
					continue
				}
				if !strings.Contains(line, `"kind":"stack"`) {
					at := strings.Index(line, `"start"`)
					if !strings.HasPrefix(c.want, from) {
						at = strings.Index(line, `"item"`)
					}
					if !strings.HasPrefix(line, `{"kind":"summary","seq":`) || !strings.Contains(line, `"time":2000000000,"wall":"2026-11-21T20:00:02.000000000Z",`+from) || at < 0 {
						t.Fatal(line)
					}
					line = line[at:]
				}
				kept = append(kept, line)
			}
			if diff := cmp.Diff(c.want+"\n", strings.Join(kept, "")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
