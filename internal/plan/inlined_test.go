// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// ops makes operations of codes and numbers in turn.
func ops(pairs ...uint64) (list []debuginfo.Op) {
	for pair := range slices.Chunk(pairs, 2) {
		list = append(list, debuginfo.Op{Code: debuginfo.OpCode(pair[0]), N: pair[1]})
	}
	return list
}

const (
	constant = uint64(debuginfo.OpConst)
	register = uint64(debuginfo.OpRegister)
	load     = uint64(debuginfo.OpLoad)
	add      = uint64(debuginfo.OpAdd)
)

var (
	intType  = debuginfo.Type{Name: "int", Size: 4, Signed: true}
	sockType = debuginfo.Type{Name: "struct sock *", Size: 8, Target: 16}
)

// inlinedSend is where a kernel has inlined send(struct sock *sk, int count),
// and inner(int a, pid_t b), which has no code of its own.
type inlinedSend struct{}

var _ Inlinings = inlinedSend{}

func (inlinedSend) Of(funcs []kernel.Function) (found []Inlined, err error) {
	for _, f := range funcs {
		places, _ := inlinedSend{}.Named(f.Name, nil)
		found = append(found, places...)
	}
	return found, nil
}

func (inlinedSend) Named(pattern string, _ []string) ([]Inlined, error) {
	after := kernel.Function{Name: "after", Addr: 0xffffffff81000040}
	var found []Inlined
	for _, at := range []Inlined{
		{"send", after, 0x10, []debuginfo.Param{
			{Name: "sk", Type: sockType, Place: debuginfo.Place{Ops: ops(register, 3)}},
			{Name: "count", Type: intType, Place: debuginfo.Place{Ops: ops(register, 7, constant, 8, add, 0), Memory: true}}}},
		{"send", after, 0x20, []debuginfo.Param{
			{Name: "sk", Type: sockType},
			{Name: "count", Type: intType, Place: debuginfo.Place{Ops: ops(constant, 5)}}}},
		{"inner", after, 0x30, []debuginfo.Param{
			{Name: "a", Type: intType, Place: debuginfo.Place{Ops: ops(register, 5, load, 8, constant, 4, add, 0)}},
			{Name: "b", Type: debuginfo.Type{Name: "pid_t", Size: 4, Signed: true}, Place: debuginfo.Place{Ops: ops(register, 1)}}}},
	} {
		if glob.Match(pattern, at.Name) {
			found = append(found, at)
		}
	}
	return found, nil
}

// somewhere has all functions inlined at the same places.
type somewhere struct {
	places []Inlined
	err    error
}

func (s somewhere) Named(string, []string) ([]Inlined, error) { return s.places, s.err }

func (s somewhere) Of([]kernel.Function) ([]Inlined, error) { return s.places, s.err }

func resolveInlined(t *testing.T, text string, deny ...string) (*Plan, []Skipped, error) {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Arch: "amd64", Inlinings: inlinedSend{}}
	for _, d := range deny {
		o.Deny = append(o.Deny, expr.Selector{Name: d})
	}
	return Resolve(targetKernel(t), []*expr.Spec{spec}, o)
}

// TestInlined tells for each place where a function was inlined what is loaded.
func TestInlined(t *testing.T) {
	for _, c := range []struct {
		spec string
		want []string
	}{
		{"send", []string{
			"send: fentry: store sk@0+8, sk@8+16, count@24+8",
			"send [inlined into after+0x10]: kprobe: store sk@0+8, sk@8+16, count@24+8",
			"send [inlined into after+0x20]: kprobe: store count@0+8, without sk"}},
		{"send(:struct sock *)(count == 1)", []string{
			"send: fentry: if (count == 1); store count@0+8",
			"send [inlined into after+0x10]: kprobe: if (*((*(record+152:8) + 8)+0:4) == 1); store count@0+8",
			"send [inlined into after+0x20]: kprobe: if (5 == 1); store count@0+8"}},
		{"send(count > 1)", []string{
			"send: fentry: if (count > 1); store count@0+8",
			"send [inlined into after+0x10]: kprobe: if (*((*(record+152:8) + 8)+0:4) > 1); store count@0+8",
			"send [inlined into after+0x20]: kprobe: if (5 > 1); store count@0+8"}},
		{"send(sk->len == 1)", []string{
			"send: fentry: if (*(sk+0:4) == 1); store sk->len@0+8",
			"send [inlined into after+0x10]: kprobe: if (*(*(record+40:8)+0:4) == 1); store sk->len@0+8",
			"not send [inlined into after+0x20]: sk is optimised out"}},
		{"inner(a == b)", []string{
			"inner [inlined into after+0x30]: kprobe: if ((*(*(record+112:8)+0:8) + 4) == *(record+96:4)); store a@0+8, b@8+8"}},
		{"send(return)", []string{"send: ",
			"not send [inlined into after+0x10]: only the beginning can be seen", "not send [inlined into after+0x20]: only the beginning can be seen"}},
	} {
		p, skipped, err := resolveInlined(t, c.spec)
		if err != nil {
			t.Errorf("%s:\n%v", c.spec, err)
			continue
		}
		var got []string
		for _, probe := range p.Probes {
			text := probe.Name + ": "
			if probe.Entry != nil {
				text += probe.Method.String() + ": " + describeEntry(probe)
			}
			if absent := probe.Absent(); len(absent) > 0 {
				text += ", without " + strings.Join(absent, ", ")
			}
			got = append(got, text)
		}
		for _, s := range skipped {
			why := s.Why.Error()
			for _, known := range []string{"sk is optimised out", "only the beginning can be seen"} {
				if strings.Contains(why, known) {
					why = known
				}
			}
			got = append(got, "not "+s.Name()+": "+why)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.spec, diff)
		}
	}
}

func TestInlinedFaults(t *testing.T) {
	for text, want := range map[string]string{
		"inner(x)":      `has no parameter "x"`,
		"inner(return)": "only the beginning can be seen",
		"innr":          `no function is called "innr"`,
	} {
		if p, _, err := resolveInlined(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", text, p, err, want)
		}
	}
	if p, _, err := resolveInlined(t, "inner(a)", "inn*"); err == nil {
		t.Errorf("denied: %+v", p)
	}
	spec, err := expr.Parse("send")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for want, inlinings := range map[string]Inlinings{
		"broken":                  somewhere{nil, broken},
		"inlined in 257 places, ": somewhere{make([]Inlined, maxInlined+1), nil},
	} {
		if _, _, err := Resolve(targetKernel(t), []*expr.Spec{spec}, Options{Arch: "amd64", Inlinings: inlinings}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestPlaced evaluates what debug info has computed, on registers and memory
// that hold their own addresses.
func TestPlaced(t *testing.T) {
	code := func(c debuginfo.OpCode) uint64 { return uint64(c) }
	for name, c := range map[string]struct {
		ops  []debuginfo.Op
		want uint64
		bad  bool
	}{
		"sum":           {ops(constant, 5, constant, 3, add, 0), 8, false},
		"difference":    {ops(constant, 5, constant, 3, code(debuginfo.OpSub), 0), 2, false},
		"product":       {ops(constant, 5, constant, 3, code(debuginfo.OpMul), 0), 15, false},
		"bits":          {ops(constant, 12, constant, 10, code(debuginfo.OpAnd), 0, constant, 1, code(debuginfo.OpOr), 0, constant, 3, code(debuginfo.OpXor), 0), 10, false},
		"shifts":        {ops(constant, 1, constant, 40, code(debuginfo.OpShl), 0, constant, 38, code(debuginfo.OpShr), 0), 4, false},
		"signed shift":  {ops(constant, 1<<63, constant, 62, code(debuginfo.OpSar), 0), 1<<64 - 2, false},
		"minus":         {ops(constant, 1, code(debuginfo.OpNeg), 0), 1<<64 - 1, false},
		"complement":    {ops(constant, 1, code(debuginfo.OpNot), 0), 1<<64 - 2, false},
		"low bytes":     {ops(constant, 0x1ff, code(debuginfo.OpExtend), 1), 0xff, false},
		"signed bytes":  {ops(constant, 0x1ff, code(debuginfo.OpExtendS), 1), 1<<64 - 1, false},
		"nothing":       {nil, 0, true},
		"two":           {ops(constant, 1, constant, 1), 0, true},
		"too few":       {ops(constant, 1, add, 0), 0, true},
		"no register":   {ops(register, 16, constant, 1, add, 0), 0, true},
		"no size":       {ops(constant, 1, load, 3), 0, true},
		"no code":       {ops(constant, 1, 200, 0), 0, true},
		"without limit": {slices.Repeat(ops(constant, 1, code(debuginfo.OpNeg), 0), 40), 0, true},
	} {
		param := expr.Param{Name: "x", Type: layout.Word()}
		placed(&param, debuginfo.Place{Ops: c.ops}, "amd64")
		if param.Absent != c.bad {
			t.Errorf("%s: absent %v", name, param.Absent)
		}
		if c.bad || param.Absent {
			continue
		}
		if got, err := expr.Eval(param.Value, nil); err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
		}
	}
}

// TestInlinedType: of types with the same name, the size tells which is meant.
func TestInlinedType(t *testing.T) {
	types := kernelTypes{targetKernel(t), ""}
	for _, c := range []struct {
		of   debuginfo.Type
		want string
	}{
		{sockType, "struct sock *"},
		{debuginfo.Type{Name: "struct sock *", Size: 8, Target: 24}, "void *"},
		{debuginfo.Type{Name: "struct nothing **", Size: 8}, "void **"},
		{debuginfo.Type{Name: "pid_t", Size: 4, Signed: true}, "pid_t"},
		{debuginfo.Type{Name: "enum nothing", Size: 4}, "enum nothing"},
	} {
		if got := string(btfprint.AppendTypeName(nil, inlinedType(types, c.of))); got != c.want {
			t.Errorf("%+v is %s, want %s", c.of, got, c.want)
		}
	}
}

// What is absent has a name, also where the source gave it none.
func TestAbsentNames(t *testing.T) {
	param := func(name string, absent bool) layout.Param {
		return layout.Param{Param: expr.Param{Name: name, Absent: absent}}
	}
	p := &Probe{Probe: layout.Probe{Spec: parse(t, "f"), Params: []layout.Param{param("a", true), param("", true), param("b", false)}}}
	if got := strings.Join(p.Absent(), " "); got != "a $arg2" {
		t.Errorf("absent: %s, want a $arg2", got)
	}
}
