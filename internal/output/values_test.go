// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

func TestCutLines(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"abcdef", 0, "abcdef"},
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "ab..."},
		{"→→→→→→", 6, "→→→→→→"},
		{"→→→→→→", 5, "→→..."},
		{"short\nabcdefghi\n\nlast one", 6, "short\nabc...\n\nlas..."},
		{"ab\n", 1, "...\n"},
	} {
		if got := string(cutLines([]byte("name="+c.text), len("name="), c.width)); got != "name="+c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// TestWidths: no value takes more columns than it gets, in any layout.
func TestWidths(t *testing.T) {
	for _, form := range []ArgsForm{ArgsCompact, ArgsMultiline, ArgsVerbose} {
		r := fakeResolver{}
		o, sessions := sessionCases(t)["compact"](r)
		s := sessions[0]
		text := strings.Repeat("0123456789", 20)
		for i := range s.Chain.Frames[1].Values.Args {
			if a := &s.Chain.Frames[1].Values.Args[i]; a.Text {
				a.Target = []byte(text)
			}
		}
		o.Resolver, o.Boot, o.Args, o.ArgsWidth = r, boot, form, DefaultArgsWidth
		got, err := NewSessions(o).AppendSession(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got), text[:DefaultArgsWidth]) || !strings.Contains(string(got), text[:DefaultArgsWidth-40]) {
			t.Errorf("%s: a text of %d bytes is not cut to %d columns:\n%s", form, len(text), DefaultArgsWidth, got)
		}
	}
}

// What an argument points to is written as what an item's pointer points to:
// `p = &5`, and with types the address in front.
func TestPointees(t *testing.T) {
	pointer := func(to btf.Type) *layout.Param {
		return &layout.Param{Param: expr.Param{Name: "p", Type: &btf.Pointer{Target: to}}}
	}
	address := binary.LittleEndian.AppendUint64(nil, 0xffff888100001000)
	for _, c := range []struct {
		pointsTo       btf.Type
		arg            session.Arg
		compact, typed string
	}{
		{pointsTo: typeInt, arg: session.Arg{Target: data(5)[:4]}, compact: "&5", typed: "(int *)0xffff888100001000 = (int)5"},
		{pointsTo: &btf.Pointer{Target: typeInt}, arg: session.Arg{Target: binary.LittleEndian.AppendUint64(nil, 0xffff888100002000)},
			compact: "&0xffff888100002000", typed: "(int **)0xffff888100001000 = (int *)0xffff888100002000"},
		{pointsTo: typeChar, arg: session.Arg{Target: []byte("eth0"), Text: true}, compact: `"eth0"`, typed: `(char *)0xffff888100001000 = "eth0"`},
		{pointsTo: typeInt, compact: "0xffff888100001000", typed: "(int *)0xffff888100001000"},
	} {
		a := c.arg
		a.Param, a.Value, a.TargetType = pointer(c.pointsTo), address, c.pointsTo
		for form, want := range map[ArgsForm]string{ArgsCompact: "p=" + c.compact, ArgsMultiline: "› p = " + c.compact + "\n", ArgsVerbose: "› p = " + c.typed + "\n"} {
			got, err := newValuePrinter(&SessionOptions{Args: form}).append(nil, &session.Values{Args: []session.Arg{a}}, wholeCall)
			if err != nil || string(got) != want {
				t.Errorf("%s: %q, %v, want %q", form, got, err, want)
			}
		}
	}
}

// A pointer that could not be followed when it was seen first is, later.
func TestPointeeReadLater(t *testing.T) {
	p := newValuePrinter(&SessionOptions{})
	a := session.Arg{Param: &layout.Param{Param: expr.Param{Name: "p", Type: &btf.Pointer{Target: typeInt}}}, Value: binary.LittleEndian.AppendUint64(nil, 0xffff888100001000)}
	for _, want := range []string{"p=0xffff888100001000", "p=&5", "p=0xffff888100001000"} {
		got, err := p.append(nil, &session.Values{Args: []session.Arg{a}}, wholeCall)
		if err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		if a.Target == nil {
			a.Target, a.TargetType = data(5)[:4], typeInt
		} else {
			a.Target, a.TargetType = nil, nil
		}
	}
}
