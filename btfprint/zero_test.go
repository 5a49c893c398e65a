// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// zeroFilter takes the members that are zero out of a text with all of them.
// It knows the text only, and which enumerators are 0.
type zeroFilter struct {
	lines []string
	zero  map[string]bool // `(enum x)NAME` and, for elements of arrays, `NAME`
}

// node reads one value, which begins at line i. It returns the lines that
// remain of it, whether it is zero, and where the next value begins.
func (f *zeroFilter) node(i int, keepAll bool) (kept []string, zero bool, next int) {
	line := f.lines[i]
	if !strings.HasSuffix(line, "{") && !strings.HasSuffix(line, "[") {
		return []string{line}, f.zeroValue(line), i + 1
	}
	kept = []string{line}
	zero = true
	elements := keepAll || strings.HasSuffix(line, "[")
	for i++; ; {
		if end := strings.TrimLeft(f.lines[i], "\t"); strings.HasPrefix(end, "}") || strings.HasPrefix(end, "]") {
			return append(kept, f.lines[i]), zero, i + 1
		}
		inner, isZero, next := f.node(i, elements)
		if !isZero || elements {
			kept = append(kept, inner...)
		}
		zero = zero && isZero
		i = next
	}
}

func (f *zeroFilter) zeroValue(line string) bool {
	value := strings.TrimSuffix(strings.TrimLeft(line, "\t"), ",")
	if _, rest, ok := strings.Cut(value, " = "); ok {
		value = rest
	}
	if f.zero[value] {
		return true
	}
	if strings.HasPrefix(value, "(") && !strings.HasSuffix(value, `"`) {
		value = value[strings.LastIndexByte(value, ')')+1:]
	} else if strings.HasSuffix(value, `)""`) {
		value = `""`
	}
	switch value {
	case "0", "0x0", `""`, "NULL", "0ULL", "0LL":
		return true
	}
	return false
}

// zeroEnumerators finds the names that stand for 0 in every enum that a text
// cannot tell apart.
func zeroEnumerators(t *testing.T, spec *btf.Spec) map[string]bool {
	t.Helper()
	zero := make(map[string]bool)
	note := func(key string, v uint64) {
		old, seen := zero[key]
		zero[key] = v == 0 && (old || !seen)
	}
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		e, ok := strip(typ).(*btf.Enum)
		if !ok {
			continue
		}
		for _, v := range e.Values {
			note("("+string(AppendTypeName(nil, typ))+")"+v.Name, v.Value)
			note(v.Name, v.Value)
		}
	}
	return zero
}

// hasFloat reports whether a type has floats: 0.000000 need not be zero.
func hasFloat(t btf.Type) bool {
	switch t := strip(t).(type) {
	case *btf.Float:
		return true
	case *btf.Array:
		return hasFloat(t.Type)
	case *btf.Struct:
		return membersHaveFloat(t.Members)
	case *btf.Union:
		return membersHaveFloat(t.Members)
	}
	return false
}

func membersHaveFloat(members []btf.Member) bool {
	for _, m := range members {
		if hasFloat(m.Type) {
			return true
		}
	}
	return false
}

// TestZeroElision: the default text is the text with all members, less those
// that are zero.
func TestZeroElision(t *testing.T) {
	for _, file := range kernelBTF(t) {
		spec, err := btf.LoadSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		zero := zeroEnumerators(t, spec)
		ids := composites(t, spec)
		var elided, bad int
		for _, id := range ids {
			typ, err := spec.TypeByID(id)
			if err != nil {
				t.Fatal(err)
			}
			if hasFloat(typ) {
				continue
			}
			p := mustCompile(t, typ)
			raw := testBytes(id, p.Size(), true)
			all := string(p.AppendValue(nil, raw, &ValueOptions{ShowZeroes: true}))
			f := zeroFilter{lines: strings.Split(all, "\n"), zero: zero}
			kept, _, _ := f.node(0, false)
			want := strings.Join(kept, "\n")
			if len(want) < len(all) {
				elided++
			}
			if got := string(p.AppendValue(nil, raw, nil)); got != want {
				if bad++; bad <= 5 {
					t.Errorf("%v: %s", typ, firstDifference(got, want))
				}
			}
		}
		t.Logf("%s: %d types, zeroes left out of %d, %d wrong", file, len(ids), elided, bad)
		if elided < len(ids)/2 {
			t.Error("hardly anything was left out")
		}
	}
}
