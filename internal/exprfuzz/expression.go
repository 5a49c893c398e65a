// SPDX-License-Identifier: Apache-2.0

package exprfuzz

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// literals are the numbers at which widths and signs show.
var literals = []string{
	"0", "1", "2", "3", "7", "-1", "-2", "127", "128", "-128", "255", "256", "-129", "32767", "32768", "-32769", "65535", "65536",
	"0x7fffffff", "0x80000000", "-0x7fffffff", "2147483648", "-2147483648", "4294967295", "0xffffffff", "0x100000000", "4294967296l",
	"0x123456789a", "-0x123456789a", "0x7fffffffffffffff", "9223372036854775807", "0x8000000000000000", "0xffffffffffffffff",
	"1u", "4000000000u", "7l", "5ul", "0xffu", "'a'", "017", "-9223372036854775807",
}

// Int returns the text of an expression with an integer value. It can stand
// anywhere: operators are in parentheses. depth bounds its height.
func (g *Gen) Int(depth int) string {
	if depth <= 0 {
		return g.leaf()
	}
	d := depth - 1
	switch k := g.IntN(32); {
	case k < 3:
		return g.leaf()
	case k < 9:
		if text, ok := g.scalarMember(d); ok {
			return text
		}
		return g.leaf()
	case k < 11:
		return "(" + pick(g, []string{"-", "~", "!", "+"}) + g.Int(d) + ")"
	case k < 16:
		return g.binary(d, "+", "-", "*", "&", "|", "^")
	case k < 18:
		return g.shift(d)
	case k < 20:
		return g.divide(d)
	case k < 24:
		return g.binary(d, "==", "!=", "<", "<=", ">", ">=")
	case k < 26:
		return g.binary(d, "&&", "||")
	case k < 28:
		return "((" + g.spelled(pick(g, ints)) + ")" + g.Int(d) + ")"
	case k < 29:
		return g.unparenthesised(d)
	case k < 31 && !g.C:
		return g.special(d)
	}
	return g.leaf()
}

// Item returns the text of an expression to be captured: no top operator makes
// it a predicate.
func (g *Gen) Item() string {
	if g.chance(12) {
		p, _ := g.Ptr(3)
		return p
	}
	return "+" + g.Int(2+g.IntN(3))
}

// Parameters makes parameters, of which at least one is a pointer to a struct.
func (g *Gen) Parameters() []btf.FuncParam {
	ps := []btf.FuncParam{{Name: "p0", Type: &btf.Pointer{Target: pick(g, g.Structs)}}}
	for i := range 2 + g.IntN(4) {
		t := g.Scalar()
		if g.chance(30) {
			t = g.Pointer(g.Structs)
		}
		ps = append(ps, btf.FuncParam{Name: fmt.Sprintf("p%d", i+1), Type: t})
	}
	return ps
}

func (g *Gen) leaf() string {
	var names []string
	for _, p := range g.Params {
		switch btf.UnderlyingType(p.Type).(type) {
		case *btf.Int, *btf.Enum:
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 || g.chance(30) {
		return g.literal()
	}
	if g.AtReturn && g.chance(30) {
		return "return"
	}
	return pick(g, names)
}

func (g *Gen) literal() string {
	if len(g.enums) > 0 && g.chance(10) {
		e := pick(g, g.enums)
		v := pick(g, e.Values)
		return v.Name
	}
	if g.chance(20) {
		return strconv.Itoa(g.IntN(1000))
	}
	if !g.C && g.chance(5) {
		return pick(g, []string{"0b101", "0o17", "10ms", "3us", "ENOTSUPP", "-EINVAL", "AF_INET", "true"})
	}
	s := pick(g, literals)
	if strings.HasPrefix(s, "-") {
		return "(" + s + ")"
	}
	return s
}

func (g *Gen) binary(d int, ops ...string) string {
	return "(" + g.Int(d) + " " + pick(g, ops) + " " + g.Int(d) + ")"
}

// unparenthesised leaves it to precedence what belongs together.
func (g *Gen) unparenthesised(d int) string {
	s := g.Int(d)
	for range 1 + g.IntN(4) {
		s += " " + pick(g, []string{"+", "-", "*", "&", "|", "^", "==", "!=", "<", ">=", "&&", "||"}) + " " + g.Int(d-1)
	}
	return "(" + s + ")"
}

// C defines a shift only for counts below the width, we define all.
func (g *Gen) shift(d int) string {
	count := g.Int(d)
	if g.C {
		count = "(" + count + " & 31)"
	}
	return "(" + g.Int(d) + pick(g, []string{" << ", " >> "}) + count + ")"
}

// C defines no division by zero, and none of the smallest number by -1; we do.
func (g *Gen) divide(d int) string {
	by := g.Int(d)
	if g.C {
		by = "((" + by + " & 0xffff) + 1)"
	}
	return "(" + g.Int(d) + pick(g, []string{" / ", " % "}) + by + ")"
}

func (g *Gen) special(d int) string {
	switch g.IntN(12) {
	case 10, 11:
		return g.match(d)
	case 0:
		return pick(g, []string{"ntohs(", "ntohl("}) + g.Int(d) + ")"
	case 1:
		return pick(g, []string{"$pid", "$tid", "$uid"})
	case 2:
		return "sizeof(struct " + pick(g, g.Structs).Name + ")"
	case 3:
		p, _ := g.Ptr(d)
		q, _ := g.Ptr(d)
		return "(" + p + pick(g, []string{" == ", " != ", " < ", " >= "}) + q + ")"
	case 4:
		p, _ := g.Ptr(d)
		return "(" + p + pick(g, []string{" & 7", " == NULL", " != NULL", " != 0"}) + ")"
	case 5:
		p, _ := g.Ptr(d)
		return "((unsigned long)" + p + ")"
	case 6:
		p, _ := g.Ptr(d)
		return "(!" + p + ")"
	case 7:
		p, _ := g.Ptr(d)
		return fmt.Sprintf("(*(%s *)%s)", g.spelled(pick(g, ints)), p)
	case 8:
		p, _ := g.Ptr(d)
		return fmt.Sprintf("((%s *)%s)[%s]", g.spelled(pick(g, ints)), p, g.smallIndex(d))
	}
	p, s := g.Ptr(d)
	q, t := g.Ptr(d)
	if s != t {
		return fmt.Sprintf("(%s && %s)", p, q)
	}
	return fmt.Sprintf("(%s - %s)", p, q)
}

// words are what strings in memory and patterns are made of.
var words = []string{"eth0", "eth1", "lo", "", "e", "eth0eth1", "wlan"}

// match compares a string with a text or a glob.
func (g *Gen) match(d int) string {
	p, _ := g.Ptr(d)
	s := pick(g, []string{"$comm", "str(" + p + ")", "str(" + p + ")", "ustr(" + p + ")"})
	for range 3 {
		text, t := g.member(d)
		if t == nil {
			break
		}
		target := t
		switch u := btf.UnderlyingType(t).(type) {
		case *btf.Array:
			target = u.Type
		case *btf.Pointer:
			target = u.Target
		}
		if i, ok := btf.UnderlyingType(target).(*btf.Int); ok && i.Size == 1 && i.Encoding != btf.Bool && target != t {
			s = text
			break
		}
	}
	pattern := pick(g, words)
	op := pick(g, []string{"==", "!=", "~", "~"})
	if op == "~" {
		pattern = pick(g, []string{"*", "e*", "*0", "*th*", "e?h?", "???*", "*1", "et*0", "*eth1", "e*h*", "x*", "*e", "eth0"})
	}
	return fmt.Sprintf("(%s %s %q)", s, op, pattern)
}

func (g *Gen) smallIndex(d int) string {
	if g.chance(50) {
		return strconv.Itoa(g.IntN(16))
	}
	return "(" + g.Int(d) + " & " + strconv.Itoa(pick(g, []int{1, 3, 7, 15})) + ")"
}

// spelled writes an integer type as C does.
func (g *Gen) spelled(t *btf.Int) string {
	if t.Encoding == btf.Bool {
		return "_Bool"
	}
	if g.C || g.chance(50) {
		return t.Name
	}
	if t.Encoding == btf.Signed {
		return "s" + strconv.Itoa(int(8*t.Size))
	}
	return "u" + strconv.Itoa(int(8*t.Size))
}

// Ptr returns the text of a pointer to a struct, in parentheses if need be.
func (g *Gen) Ptr(depth int) (string, *btf.Struct) {
	if depth > 0 && !g.C {
		d := depth - 1
		switch k := g.IntN(20); {
		case k < 6:
			for range 3 {
				text, t := g.member(d)
				if s, ok := structPointer(t); ok {
					return text, s
				}
			}
		case k < 8:
			s := pick(g, g.Structs)
			return fmt.Sprintf("((struct %s *)%s)", s.Name, g.Int(d)), s
		case k < 9:
			p, _ := g.Ptr(d)
			s := pick(g, g.Structs)
			return fmt.Sprintf("((struct %s *)%s)", s.Name, p), s
		case k < 10:
			p, _ := g.Ptr(d)
			s := pick(g, g.Structs)
			if path, t := g.within(s); t != nil {
				return fmt.Sprintf("container_of(%s, struct %s, %s)", p, s.Name, path), s
			}
		case k < 11:
			for range 3 {
				text, t := g.member(d)
				if s, ok := t.(*btf.Struct); ok && s.Name != "" {
					return "(&" + text + ")", s
				}
			}
		case k < 12:
			p, s := g.Ptr(d)
			return fmt.Sprintf("(%s%s%s)", p, pick(g, []string{" + ", " - "}), g.smallIndex(d)), s
		case k < 13:
			p, s := g.Ptr(d)
			return "user(" + p + ")", s
		}
	}
	var names []string
	var targets []*btf.Struct
	for _, p := range g.Params {
		if s, ok := structPointer(p.Type); ok {
			names, targets = append(names, p.Name), append(targets, s)
		}
	}
	if len(names) == 0 {
		s := pick(g, g.Structs)
		for _, p := range g.Params {
			if _, ok := p.Type.(*btf.Pointer); ok && g.chance(50) {
				return fmt.Sprintf("((struct %s *)%s)", s.Name, p.Name), s
			}
		}
		return fmt.Sprintf("((struct %s *)%s)", s.Name, g.leaf()), s
	}
	i := g.IntN(len(names))
	return names[i], targets[i]
}

func structPointer(t btf.Type) (*btf.Struct, bool) {
	if t == nil {
		return nil, false
	}
	p, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok {
		return nil, false
	}
	s, ok := btf.UnderlyingType(p.Target).(*btf.Struct)
	return s, ok
}

// within returns the path of a named member of s that is no bitfield.
func (g *Gen) within(s *btf.Struct) (string, btf.Type) {
	for range 4 {
		if m := pick(g, flatten(s.Members)); m.Name != "" && m.BitfieldSize == 0 {
			return m.Name, m.Type
		}
	}
	return "", nil
}

// flatten lists the members that have names, those of anonymous ones included.
func flatten(ms []btf.Member) []btf.Member {
	var out []btf.Member
	for _, m := range ms {
		switch t := m.Type.(type) {
		case *btf.Struct:
			if m.Name == "" {
				out = append(out, flatten(t.Members)...)
				continue
			}
		case *btf.Union:
			if m.Name == "" {
				out = append(out, flatten(t.Members)...)
				continue
			}
		}
		out = append(out, m)
	}
	return out
}

func (g *Gen) scalarMember(d int) (string, bool) {
	for range 4 {
		text, t := g.member(d)
		if t == nil {
			return "", false
		}
		switch u := btf.UnderlyingType(t).(type) {
		case *btf.Int:
			return text, u.Size <= 8
		case *btf.Enum:
			return text, true
		}
	}
	return "", false
}

// member walks from a pointer to a struct to something in it: a scalar, a
// pointer, a struct. The type is nil if there is none.
func (g *Gen) member(d int) (string, btf.Type) {
	if len(g.Structs) == 0 {
		return "", nil
	}
	text, s := g.Ptr(d)
	var t btf.Type = s
	sep := "->"
	if g.chance(10) {
		text, sep = "(*"+text+")", "."
	}
	for {
		var ms []btf.Member
		switch u := btf.UnderlyingType(t).(type) {
		case *btf.Struct:
			ms = flatten(u.Members)
		case *btf.Union:
			ms = flatten(u.Members)
		case *btf.Array:
			if u.Nelems == 0 || g.chance(10) && !g.C {
				return text, t
			}
			i := g.smallIndex(d)
			if g.chance(60) {
				i = strconv.Itoa(g.IntN(int(u.Nelems)))
			} else if k, err := strconv.Atoi(i); err == nil {
				i = strconv.Itoa(k % int(u.Nelems))
			}
			text += "[" + i + "]"
			t = u.Type
			continue
		default:
			return text, t
		}
		if sep == "." && g.chance(15) && t != btf.Type(s) {
			return text, t // a struct or an array as a whole
		}
		if len(ms) == 0 {
			return text, t
		}
		m := pick(g, ms)
		text += sep + m.Name
		t, sep = m.Type, "."
	}
}
