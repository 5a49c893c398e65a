// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// describe writes what the checker made of an aggregation: its function, its value, and its keys.
func describe(g *Aggregation) string {
	s := fmt.Sprint(g.Fn)
	if g.Value != nil {
		s += " " + FormatTerm(g.Value, names)
	}
	s += [...]string{"", " ns", " bytes"}[g.Unit]
	if g.View != ViewDefault {
		s += fmt.Sprint(" view ", g.View)
	}
	switch g.Fn {
	case AggHist, AggQuantiles:
		s += fmt.Sprint(" sub ", g.Sub)
	case AggLHist:
		s += fmt.Sprintf(" %d to %d by %d", g.Low, g.High, g.Step)
	case AggTop:
		s += fmt.Sprint(" n ", g.N)
	}
	for _, k := range g.Keys {
		s += "; "
		switch t := k.Target.(type) {
		case nil:
			s += FormatTerm(k.Value, names)
		case *Text:
			s += fmt.Sprintf("%s:%d", FormatTerm(t, names), t.Max)
		default:
			s += FormatTerm(t, names)
		}
		if k.View != ViewDefault {
			s += fmt.Sprint(" view ", k.View)
		}
	}
	if g.Phase() == AtReturn {
		s += "; at return"
	}
	return s
}

func TestAggregations(t *testing.T) {
	const count, sum, least, most, avg, stats, hist, lhist, quantiles, top = "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"
	for _, tt := range []struct {
		text, want string
		keys       uint32
	}{
		{"count()", count, 0},
		{"(count())", count, 0},
		{"sum(flags)", sum + " flags", 0},
		{"sum(count)", sum + " count bytes", 0},
		{"sum(count + 1)", sum + " (count + 1)", 0},
		{"min(return)", least + " return bytes; at return", 0},
		{"max(exit(sk->family))", most + " *(sk+0:4); at return", 0},
		{"avg(sk->ok)", avg + " *(sk+13:1)", 0},
		{"stats($duration)", stats + " $duration ns; at return", 0},
		{"stats($duration / 1000)", stats + " ($duration / 1000); at return", 0},
		{"stats(exit($time) - entry($time))", stats + " ($time - $time) ns; at return", 0},
		{"hist(flags == 3)", hist + " (flags == 3) sub 0", 0},
		{"hist(count, 1)", hist + " count bytes sub 0", 0},
		{"hist(count, 2 * 16)", hist + " count bytes sub 5", 0},
		{"lhist($duration, 1ms, 10ms, 1ms)", lhist + " $duration ns 1000000 to 10000000 by 1000000; at return", 0},
		{"lhist(flags, -TCP_LISTEN, TCP_LISTEN, 5)", lhist + " flags -10 to 10 by 5", 0},
		{"lhist(flags, -0x7fffffffffffffff - 1, 0x7fffffffffffffff, 0x7fffffffffffffff / 7)", "", 0},
		{"quantiles(cpu)", quantiles + " cpu sub 5", 0},
		{"top(64, sk)", top + " sk n 64", 0},
		{"top(1, sym(sk->handler))", top + " *(sk+64:8) view 3 n 1", 0},
		{"top(5, ip(sk->addr))", top + " *(sk+4:4) view 4 n 5", 0},

		{"count()[flags]", count + "; flags", 8},
		{"count()[(flags), cpu]", count + "; flags; cpu", 16},
		{"count()[return]", count + "; return; at return", 8},
		{"count()[sk]", count + "; sk", 8}, // not what it points to
		{"count()[buf]", count + "; string at buf+0:64", 72},
		{"count()[hex(buf)]", count + "; buf view 1", 8},
		{"count()[str(sk)]", count + "; string at sk+0:64", 72},
		{"count()[ustr(exit(buf))]", count + "; string at buf+0:64; at return", 72},
		{"count()[sk->dev->name]", count + "; string at *(sk+16:8)+0:16", 24},
		{"count()[sk->dev->mac]", count + "; u8[6] at *(sk+16:8)+16", 16},
		{"count()[mac(sk->dev->mac)]", count + "; u8[6] at *(sk+16:8)+16 view 5", 16},
		{"count()[mac(buf)]", count + "; 6 bytes at buf view 5", 24},
		{"count()[t]", count + "; by-value struct tuple", 16},
		{"count()[t.tag]", count + "; by-value char[2]", 8},
		{"count()[t.ports[1]]", count + "; t+14", 8},
		{"count()[sk->ratio]", count + "; double at sk+24", 16},
		{"count()[sk->state, $comm]", count + "; *(sk+8:4); $comm:16", 32},
		{"count()[exit($comm)]", count + "; $comm:16; at return", 16},
		{"count()[$func, $stack, $ustack, $cgroup]", count + "; $func; $stack; $ustack; $cgroup", 40},
		{"count()[$container, ($pod), exit($pod)]", count + "; $cgroup view 6; $cgroup view 7; $cgroup view 7; at return", 24},
		{"count()[($func)]", count + "; $func", 8},
		{"count()[return < 0]", count + "; (return < 0); at return", 8},
		{"count()[$comm == \"x\"]", count + "; $comm == \"x\"", 8},
		{"count()[flags / 2]", count + "; (flags / 2)", 8},
		{"count()[2 / flags]", count + "; (2 / flags)", 16}, // by 0
		{"sum(sk->family)[flags]", sum + " *(sk+0:4); flags", 8},
		{"count()[buf(sk, 64)]", count + "; 64 bytes at sk", 80},
		{"count()[+$cgroup]", count + "; $cgroup", 8},
	} {
		items, err := check("send("+tt.text+")", &btf.Typedef{Name: "ssize_t", Type: &btf.Typedef{Name: "__kernel_ssize_t", Type: typeLong}})
		if tt.want == "" {
			if err == nil {
				t.Errorf("%s: no fault", tt.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s:\n%v", tt.text, err)
			continue
		}
		g := items[0].Aggregation
		if g == nil {
			t.Errorf("%s: no aggregation", tt.text)
			continue
		}
		if got := describe(g); got != tt.want {
			t.Errorf("%s is %s, want %s", tt.text, got, tt.want)
		}
		if got := g.KeySize(); got != tt.keys {
			t.Errorf("%s: keys of %d bytes, want %d", tt.text, got, tt.keys)
		}
	}
}

// Beside aggregations predicates decide, and show nothing.
func TestAggregationItems(t *testing.T) {
	const text = "send(hist($duration)[ flags ] , count == 3, return < 0, (count()) )"
	items, err := check(text, typeLong)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"hist($duration)[ flags ]", "count == 3", "return < 0", "(count())"} {
		it := items[i]
		if got := text[it.Pos.Start:it.Pos.End]; got != want {
			t.Errorf("item %d is %s, want %s", i, got, want)
		}
		if (it.Aggregation != nil) == (it.Predicate != nil) || it.Captures != nil {
			t.Errorf("%s: %+v", want, it)
		}
	}
	g := items[0].Aggregation
	if g.Label != "hist($duration)" || g.Of != "$duration" || g.Keys[0].Label != "flags" || items[0].Phase != AtReturn || items[3].Phase != AtEntry {
		t.Errorf("%+v", g)
	}
}

// Keys can be hidden, values not.
func TestWithholdAggregations(t *testing.T) {
	spec, err := Parse("send(max(count)[buf, flags, exit(sk->family)])")
	if err != nil {
		t.Fatal(err)
	}
	withhold := func(label string) (*Aggregation, error) {
		items, err := Check(spec, testScope(typeLong))
		if err != nil {
			t.Fatal(err)
		}
		err = Withhold(spec, items, func(l string) bool { return l == label })
		return items[0].Aggregation, err
	}
	g, err := withhold("buf")
	if err != nil || g.Keys[0].Withheld == nil || g.Keys[0].Target != nil || FormatTerm(g.Keys[0].Value, names) != "0" || g.Keys[1].Withheld != nil {
		t.Errorf("%+v, %v", g.Keys, err)
	}
	if g, err = withhold("exit(sk->family)"); err != nil || g.Phase() != AtReturn || CanFault(g.Keys[2].Value) {
		t.Errorf("%+v, %v", g.Keys, err)
	}
	for _, label := range []string{"count", "max(count)"} {
		if _, err = withhold(label); err == nil || !strings.Contains(err.Error(), "column 6: count is hidden, and so cannot be added up") {
			t.Errorf("%s: %v", label, err)
		}
	}
}
