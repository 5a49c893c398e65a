// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// outline writes a tree with a parenthesis around every operator.
func outline(x Expr) string {
	switch x := x.(type) {
	case *Paren:
		return outline(x.X)
	case *Binary:
		return "(" + outline(x.X) + " " + x.Op.String() + " " + outline(x.Y) + ")"
	case *Unary:
		return "(" + x.Op.String() + outline(x.X) + ")"
	case *Cast:
		return "((" + string(appendType(nil, x.Type)) + ")" + outline(x.X) + ")"
	case *Member:
		op := "."
		if x.Arrow {
			op = "->"
		}
		return outline(x.X) + op + x.Name
	case *Index:
		return outline(x.X) + "[" + outline(x.I) + "]"
	}
	return Format(x)
}

// C's grammar (C11 6.5) is the oracle for how operators bind.
func TestParseShape(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"a & b == c", "(a & (b == c))"},
		{"a == b & c", "((a == b) & c)"},
		{"a | b ^ c & d", "(a | (b ^ (c & d)))"},
		{"a || b && c", "(a || (b && c))"},
		{"a && b || c", "((a && b) || c)"},
		{"a < b == c > d", "((a < b) == (c > d))"},
		{"a << b + c", "(a << (b + c))"},
		{"a + b << c < d", "(((a + b) << c) < d)"},
		{"a - b - c", "((a - b) - c)"},
		{"a / b * c % d", "(((a / b) * c) % d)"},
		{"a - b * c", "(a - (b * c))"},
		{"a * (b + c)", "(a * (b + c))"},
		{"!a == b", "((!a) == b)"},
		{"~a & b", "((~a) & b)"},
		{`a ~ "x*"`, `(a ~ "x*")`},
		{"-a - -b", "((-a) - (-b))"},
		{"- -a", "(-(-a))"},
		{"*p->q", "(*p->q)"},
		{"&p->q[3].r", "(&p->q[3].r)"},
		{"**p", "(*(*p))"},
		{"a & &b", "(a & (&b))"},
		{"(u32)a + b", "(((u32)a) + b)"},
		{"(u32)-a", "((u32)(-a))"},
		{"(foo)a", "((foo)a)"},
		{"(foo)-a", "(foo - a)"},
		{"(foo *)a", "((foo *)a)"},
		{"(struct foo *)a->b", "((struct foo *)a->b)"},
		{"((struct foo *)a)->b", "((struct foo *)a)->b"},
		{"(const struct foo **)a", "((struct foo **)a)"},
		{"(unsigned long int)a", "((unsigned long int)a)"},
		{"(size_t)a", "((size_t)a)"},
		{"sizeof(struct foo) + sizeof(a)", "(sizeof(struct foo) + sizeof(a))"},
		{"sizeof(foo *)", "sizeof(foo *)"},
		{"container_of(p, struct foo, a.b)->c", "container_of(p, struct foo, a.b)->c"},
		{"f(a, b + 1) == 2", "(f(a, b + 1) == 2)"},
		{"return < 0", "(return < 0)"},
		{"return->x", "return->x"},
		{"$comm == \"a\\\"b\"", `($comm == "a\"b")`},
		{"p->int", "p->int"},
		{"entry(return == 1)", "entry(return == 1)"},
		{"count()[a, b & c == d]", "count()[a, b & c == d]"},
		{"hist(a, 4)[ b[1] ]", "hist(a, 4)[b[1]]"},
		{"count()[a][b]", "count()[a][b]"},
		{"count + sum->max[min]", "(count + sum->max[min])"}, // names, unless they are called
	} {
		spec, err := Parse("f(" + tt.text + ")")
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if got := outline(spec.Items[0]); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.text, got, tt.want)
		}
	}
}

// C11 6.4.4.1 is the oracle for the type of a number.
func TestParseNumbers(t *testing.T) {
	for _, tt := range []struct {
		text     string
		value    uint64
		unsigned bool
		long     bool
	}{
		{"0", 0, false, false},
		{"84", 84, false, false},
		{"0x54", 84, false, false},
		{"0b101", 5, false, false},
		{"0o17", 15, false, false},
		{"017", 15, false, false},
		{"2147483647", 1<<31 - 1, false, false},
		{"2147483648", 1 << 31, false, true},
		{"0x7fffffff", 1<<31 - 1, false, false},
		{"0x80000000", 1 << 31, true, false},
		{"0xffffffff", 1<<32 - 1, true, false},
		{"0x100000000", 1 << 32, false, true},
		{"0x123456789a", 0x123456789a, false, true},
		{"0x7fffffffffffffff", 1<<63 - 1, false, true},
		{"0x8000000000000000", 1 << 63, true, true},
		{"18446744073709551615", 1<<64 - 1, true, true},
		{"5u", 5, true, false},
		{"5l", 5, false, true},
		{"5UL", 5, true, true},
		{"5llu", 5, true, true},
		{"4294967295u", 1<<32 - 1, true, false},
		{"4294967296u", 1 << 32, true, true},
		{"'a'", 'a', false, false},
		{`'\n'`, '\n', false, false},
		{`'\0'`, 0, false, false},
		{`'\x41'`, 'A', false, false},
		{`'\''`, '\'', false, false},
		{"10ms", uint64(10 * time.Millisecond), false, true},
		{"1.5s", uint64(1500 * time.Millisecond), false, true},
		{"3us", 3000, false, true},
		{"2m", uint64(2 * time.Minute), false, true},
		{"7ns", 7, false, true},
	} {
		spec, err := Parse("f(" + tt.text + ")")
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		x, ok := spec.Items[0].(*Int)
		if !ok || x.Value != tt.value || x.Unsigned != tt.unsigned || x.Long != tt.long {
			t.Errorf("%s: %+v", tt.text, spec.Items[0])
		}
	}
}

func TestParseSelector(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Selector
		par  bool
		n    int
	}{
		{"vfs_read", Selector{Name: "vfs_read", Span: Span{0, 8}}, false, 0},
		{" vfs_read ", Selector{Name: "vfs_read", Span: Span{1, 9}}, false, 0},
		{"vfs_*()", Selector{Name: "vfs_*", Span: Span{0, 5}}, true, 0},
		{"foo.isra.0(a, b)", Selector{Name: "foo.isra.0", Span: Span{0, 10}}, true, 2},
		{"f?o[nf_*](a)", Selector{Name: "f?o", Module: "nf_*", Span: Span{0, 9}}, true, 1},
		{":kernel/bpf/*.c", Selector{Path: "kernel/bpf/*.c", Span: Span{0, 15}}, false, 0},
	} {
		spec, err := Parse(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if diff := cmp.Diff(tt.want, spec.Selector); diff != "" || spec.Parens != tt.par || len(spec.Items) != tt.n {
			t.Errorf("%s: %+v\n%s", tt.text, spec, diff)
		}
	}
}

// Each node's span is the text that it was read from.
func TestParseSpans(t *testing.T) {
	const text = `f( a->b[ 1 ] , (u32) x + -3,  user( p ) ->q && $comm ~ "x*", (a ) , sizeof( struct s ) )`
	spec, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a->b[ 1 ]", "(u32) x + -3", `user( p ) ->q && $comm ~ "x*"`, "(a )", "sizeof( struct s )"}
	for i, x := range spec.Items {
		if at := x.Span(); text[at.Start:at.End] != want[i] {
			t.Errorf("%q, want %q", text[at.Start:at.End], want[i])
		}
	}
}

// What nobody types must be refused at once, in few words and little memory.
func TestParseLimits(t *testing.T) {
	for name, text := range map[string]string{
		"garbage":     strings.Repeat("\x00\xff(]}'\"é$", 12_000),
		"parentheses": "f" + strings.Repeat("(", 100_000),
		"brackets":    "f(" + strings.Repeat("a[", 100_000),
		"minus":       "f(" + strings.Repeat("-", 8_000),
		"stars":       "f((x" + strings.Repeat("*", 8_000) + ")y)",
		"long":        "f(" + strings.Repeat("a,", 50_000) + "a)",
		"quote":       "f(\"" + strings.Repeat("a", 8_000),
	} {
		start := livetest.CPUTime(t)
		_, err := Parse(text)
		var list *ErrorList
		if !errors.As(err, &list) || len(list.Errors) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if took := livetest.CPUTime(t) - start; took > 2*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if len(err.Error()) > 2000 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	// Length alone is no fault.
	for _, text := range []string{
		strings.Repeat("flags > 1 && ", 600) + "count", strings.Repeat("(u32)", 1_600) + "flags", strings.Repeat("flags - ", 1_000) + "count",
	} {
		if _, err := check("send("+text+")", nil); err != nil {
			t.Error(err)
		}
	}
}

// addSeeds adds SPECs to a fuzz target: good ones and every faulty one.
func addSeeds(f *testing.F) {
	for _, text := range []string{
		"syscall:*at(fd < 0)", "tp:sched:sched_switch", "rawtp:x()", "kprobe:f+0x1a($di)", "*(:struct sock *, return int)($any(struct sock *)->family)",
		"vfs_read", "ip_send_skb(skb->len == 84, return != 0, skb)", "f[mod]()", ":net/*.c",
		"send((struct tcp_sock *)sk, container_of(sk, struct tcp_sock, sk)->bytes >> 3, sizeof(u32), t.ports[1])",
		`send(sk->dev->name ~ "eth?*" || $comm != "x\n", entry(sk->state) == TCP_LISTEN, diff(sk->family), buf(buf, count))`,
		"send(-1u ^ ~0x7fffffffffffffff, - -3, 'a', 10ms, !flags, &sk->dev->ids[cpu & 3], *&sk->addr, ip(sk->addr), ntohs(sk->lo))",
		"send(count(), sum(count)[$func, $stack], hist($duration, 8)[sk->dev->name, buf], lhist(flags, -10, 10, 5), return < 0, top(3, sk)[t, $cgroup])",
		"send(min(flags)[exit(sk->family)], max(return), avg(count), stats(cpu), quantiles($duration)[str(sk), ip(sk->addr), hex(sk), sk->ok])",
		"send(return - (long)sk->dev, str(user(buf)) == \"x\", sym(sk->handler), (_Bool)count, a & &b, hex(return))",
	} {
		f.Add(text)
	}
	for _, x := range faulty {
		f.Add(x.text)
	}
}

// FuzzParse: any text is parsed or refused with faults that lie in it, and
// what was parsed is printed as a text that parses to the same.
func FuzzParse(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := Parse(text)
		if err != nil {
			checkFaults(t, text, err)
			return
		}
		printed := spec.String()
		again, err := Parse(printed)
		var list *ErrorList
		if errors.As(err, &list) && list.Errors[0].Code == CodeLimit {
			return // numbers may be longer in decimal
		}
		if err != nil {
			t.Fatalf("%q printed as %q: %v", text, printed, err)
		}
		if second := again.String(); second != printed {
			t.Fatalf("%q printed as %q, and that as %q", text, printed, second)
		}
		if len(spec.Items) != len(again.Items) {
			t.Fatalf("%q: %d items, printed %d", text, len(spec.Items), len(again.Items))
		}
		for i := range spec.Items {
			if a, b := outline(spec.Items[i]), outline(again.Items[i]); a != b {
				t.Fatalf("%q: %s, printed %s", text, a, b)
			}
		}
	})
}

// FuzzCheck: any SPEC is checked or refused; what comes out of it is whole:
// terms have types and texts, values are numbers, phases are right.
func FuzzCheck(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		items, err := check(text, typeLong)
		if err != nil {
			checkFaults(t, text, err)
			return
		}
		for _, it := range items {
			if it.Predicate != nil {
				checkTerm(t, it.Predicate)
				if PhaseOf(it.Predicate) != it.Phase {
					t.Fatalf("%q: phase %d", text, it.Phase)
				}
			}
			captures := it.Captures
			if g := it.Aggregation; g != nil {
				captures = g.Keys
				checkAggregation(t, text, &it)
			}
			for _, c := range captures {
				if c.Value == nil && c.Target == nil {
					t.Fatalf("%q: nothing is captured", text)
				}
				for _, term := range []Term{c.Value, c.Target} {
					if term != nil {
						checkTerm(t, term)
					}
				}
				if c.Value != nil {
					if _, _, ok := Number(c.Value.Type()); !ok {
						t.Fatalf("%q: the value is no number: %T", text, c.Value.Type())
					}
				}
			}
		}
	})
}

func checkAggregation(t *testing.T, text string, it *Item) {
	t.Helper()
	g := it.Aggregation
	if it.Predicate != nil || it.Captures != nil || it.Phase != g.Phase() || (g.Fn == AggCount) != (g.Value == nil) {
		t.Fatalf("%q: %+v", text, it)
	}
	if g.Value != nil {
		checkTerm(t, g.Value)
		if _, _, ok := Number(g.Value.Type()); !ok || g.Of == "" {
			t.Fatalf("%q: the value is no number: %T", text, g.Value.Type())
		}
	}
	if n := g.Words(); n < 1 || n > 1<<16 {
		t.Fatalf("%q: %d words", text, n)
	}
	for _, c := range g.Keys {
		if (c.Value == nil) == (c.Target == nil) || c.After != nil || c.Label == "" {
			t.Fatalf("%q: key %+v", text, c)
		}
	}
	if g.KeySize() > MaxKey {
		t.Fatalf("%q: keys of %d bytes", text, g.KeySize())
	}
	row := make([]uint64, g.Words())
	for _, x := range []uint64{0, 1, 1 << 63, ^uint64(0)} {
		if g.Value != nil {
			n, _ := number(g.Value.Type())
			x = n.extend(x)
		}
		g.Accumulate(row, x)
	}
}

func checkTerm(t *testing.T, term Term) {
	t.Helper()
	Walk(term, func(x Term) bool {
		if x.Type() == nil {
			t.Fatalf("%T has no type", x)
		}
		return true
	})
	FormatTerm(term, func(int) string { return "p" })
	if diff := cmp.Diff(FormatTerm(term, func(int) string { return "p" }), FormatTerm(Clone(term), func(int) string { return "p" })); diff != "" {
		t.Fatal(diff)
	}
}

func checkFaults(t *testing.T, text string, err error) {
	t.Helper()
	var list *ErrorList
	if !errors.As(err, &list) || len(list.Errors) == 0 {
		t.Fatalf("%q: %v is no list of faults", text, err)
	}
	for _, e := range list.Errors {
		if e.Span.Start < 0 || e.Span.Start > e.Span.End || e.Span.End > len(text) || e.Msg == "" || e.Code == "" {
			t.Fatalf("%q: %+v", text, e)
		}
	}
	if strings.ContainsAny(strings.ReplaceAll(err.Error(), "\n", ""), "\x00\x1b\r\t") {
		t.Fatalf("%q: control characters in %q", text, err)
	}
}

// TestStringBytes: a string has the bytes of the text, whatever they are in UTF-8.
func TestStringBytes(t *testing.T) {
	for literal, want := range map[string]string{"caf\xe9": "caf\xe9", `caf\xe9`: "caf\xe9", "café": "caf\xc3\xa9", `caf\u00e9`: "caf\xc3\xa9", "\xff\xfe\"": "",
		`a\tb\n\\\"`: "a\tb\n\\\"", "\xe2\x82": "\xe2\x82", `\101`: "A"} {
		spec, err := Parse(`f($comm == "` + literal + `")`)
		if want == "" {
			if err == nil {
				t.Errorf("%q is no literal", literal)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", literal, err)
			continue
		}
		if got := spec.Items[0].(*Binary).Y.(*String).Value; got != want {
			t.Errorf("%q is %q, want %q", literal, got, want)
		}
	}
}
