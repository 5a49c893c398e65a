// SPDX-License-Identifier: Apache-2.0

package qualifier

import (
	"testing"

	"github.com/cilium/ebpf/btf"
)

func TestStrip(t *testing.T) {
	number := &btf.Int{Name: "int", Size: 4}
	named := &btf.Typedef{Name: "s32", Type: &btf.Const{Type: number}}
	tagged := &btf.TypeTag{Value: "user", Type: &btf.Volatile{Type: named}}
	variable := &btf.Var{Name: "v", Type: &btf.Restrict{Type: tagged}}
	for _, tt := range []struct {
		name   string
		t      btf.Type
		layers Layer
		want   btf.Type
	}{
		{"none", number, All | Typedef | Var, number},
		{"typedefs stay", tagged, All, named},
		{"and go", tagged, All | Typedef, number},
		{"variables stay", variable, All | Typedef, variable},
		{"and go", variable, All | Typedef | Var, number},
		{"a variable alone", variable, Var, variable.Type},
		{"nil", nil, All, nil},
	} {
		if got, ok := Strip(tt.t, tt.layers); got != tt.want || !ok {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, ok, tt.want)
		}
	}
	if got := Bare(tagged); got != btf.Type(named) {
		t.Errorf("bare: %v", got)
	}
	// The decoder's own reading of the same types.
	for _, typ := range []btf.Type{number, named, tagged} {
		if got, want := Bare(typ), btf.QualifiedType(typ); got != want {
			t.Errorf("%v: %v, want %v", typ, got, want)
		}
		if got, _ := Strip(typ, All|Typedef); got != btf.UnderlyingType(typ) {
			t.Errorf("%v: %v, want %v", typ, got, btf.UnderlyingType(typ))
		}
	}
}

func TestHas(t *testing.T) {
	number := &btf.Int{Name: "int", Size: 4}
	both := &btf.Const{Type: &btf.TypeTag{Value: "user", Type: &btf.Volatile{Type: &btf.Typedef{Type: &btf.Restrict{Type: number}}}}}
	for q, want := range map[Layer]bool{Const: true, Volatile: true, Tag: true, Restrict: false, All: true} {
		if Has(both, q) != want {
			t.Errorf("%v: %v", q, !want)
		}
	}
	if Has(number, All) || Has(nil, All) {
		t.Error("a number is qualified")
	}
}

func TestHasTag(t *testing.T) {
	number := &btf.Int{Name: "int", Size: 4}
	behind := &btf.Const{Type: &btf.TypeTag{Value: "rcu", Type: &btf.Typedef{Type: &btf.TypeTag{Value: "user", Type: number}}}}
	for _, tt := range []struct {
		layers Layer
		tags   []string
		want   bool
	}{
		{All, []string{"rcu"}, true}, {All, []string{"user"}, false}, {All | Typedef, []string{"percpu", "user"}, true},
		{Tag, []string{"rcu"}, false}, {All | Typedef, nil, false},
	} {
		if HasTag(behind, tt.layers, tt.tags...) != tt.want {
			t.Errorf("%v of %q: %v", tt.layers, tt.tags, !tt.want)
		}
	}
}

// Types that contain themselves have no end.
func TestEndless(t *testing.T) {
	loop := &btf.Const{}
	loop.Type = &btf.Typedef{Type: loop}
	if got, ok := Strip(loop, All|Typedef); ok || got != btf.Type((*btf.Void)(nil)) {
		t.Errorf("%v, %v", got, ok)
	}
	tags := &btf.TypeTag{}
	tags.Type = tags
	if Has(tags, Const) {
		t.Error("const was found")
	}
}

func TestString(t *testing.T) {
	for _, q := range []Layer{Const, Volatile, Restrict, Typedef} {
		if q.String() == "" {
			t.Errorf("%d has no word", q)
		}
	}
	if Tag.String() != "" || All.String() != "" {
		t.Error("a tag has a word")
	}
}
