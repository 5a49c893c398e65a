// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// TestPlace: the two records of a call of a function of user space tell its place, in front of the values. A record that
// is the only one of its call does not.
func TestPlace(t *testing.T) {
	for text, both := range map[string]bool{
		"f": true, "f(n, return)": true, "f(*(int *)n, n == 3, return)": true, "f(exit($cpu), n)": true,
		"f()": false, "f(n)": false, "f(return)": false, "f(n, return < 0)": false, "f(exit(*(int *)n))": false, "f($duration)": false, "f(count()[return])": false,
	} {
		for _, owner := range []Owner{0, OwnerUID} {
			for _, paired := range []bool{false, true} {
				bare, placed := placeProbe(t, text, owner, paired, false), placeProbe(t, text, owner, paired, true)
				for i, halves := range [][2]*Half{{bare.Entry, placed.Entry}, {bare.Return, placed.Return}} {
					was, is := halves[0], halves[1]
					if (was == nil) != (is == nil) || was != nil && (was.Record == nil) != (is.Record == nil) {
						t.Errorf("%s: half %d: sent differently", text, i)
						continue
					}
					if was == nil || was.Record == nil {
						continue
					}
					front, more := uint32(0), uint32(0)
					if owner != 0 {
						front = OwnerSize
					}
					if both {
						more = PlaceSize
					}
					r := is.Record
					if was.Record.Placed || r.Placed != both || both && r.Place != front || r.Size != was.Record.Size+more {
						t.Errorf("%s: half %d: %+v, without places %+v", text, i, r, was.Record)
					}
					for j, s := range r.Slots {
						if old := was.Record.Slots[j]; s.Off != old.Off+more || s.Index != old.Index || s.Size != old.Size {
							t.Errorf("%s: half %d: slot %+v, was %+v", text, i, s, old)
						}
					}
					if !r.Placed {
						continue
					}
					for _, s := range is.Stores {
						if s.Off != r.Slots[s.Index].Off {
							t.Errorf("%s: half %d: slot %d is stored at %d, and read at %d", text, i, s.Index, s.Off, r.Slots[s.Index].Off)
						}
					}
				}
			}
		}
	}
}

// placeProbe is a probe of long f(long n) in user space.
func placeProbe(t *testing.T, text string, owner Owner, paired, placed bool) *Probe {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p := &Probe{Name: "f", Kind: expr.UserFunction, Spec: spec, Method: MethodUprobe, Result: abiLong, Owner: owner, Paired: paired, Placed: placed,
		Params: ParamsOf([]btf.FuncParam{{Name: "n", Type: abiLong}}, abiLong, "amd64")}
	scope := &expr.Scope{Func: "f", Return: abiLong, User: true, Types: noTypes{}}
	for _, param := range p.Params {
		scope.Params = append(scope.Params, param.Param)
	}
	if p.Items, err = expr.Check(spec, scope); err != nil {
		t.Fatal(err)
	}
	if err := p.Lay(); err != nil {
		t.Fatal(err)
	}
	return p
}

type noTypes struct{}

func (noTypes) TypesByName(string) ([]btf.Type, error)        { return nil, nil }
func (noTypes) Enumerators(string) ([]expr.Enumerator, error) { return nil, nil }
