// SPDX-License-Identifier: Apache-2.0

package exprfuzz_test

import (
	"errors"
	"math"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/exprfuzz"
	"github.com/ksnoop/ksnoop/layout"
)

// TestAggregations: most random aggregations are valid, all functions and kinds of keys occur, what
// is printed of one means the same, and rows have a place for every value.
func TestAggregations(t *testing.T) {
	const rounds, items = 20, 100
	made, refused := 0, map[string]int{}
	functions := map[expr.AggregationFunc]int{}
	keys := map[string]int{}
	refusals := 0
	for seed := range uint64(rounds) {
		g := exprfuzz.NewGen(seed, "a")
		g.AddTypes(10)
		g.Params = g.Parameters()
		scope := g.Scope(&btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed})
		for range items {
			g.AtReturn = g.IntN(4) == 0
			text := "f(" + g.Aggregation() + ")"
			made++
			a, err := checkedAggregation(t, text, scope)
			if err != nil {
				refusals++
				refused[err.Error()]++
				continue
			}
			functions[a.Fn]++
			for i := range a.Keys {
				keys[kindOf(&a.Keys[i])]++
			}
			fits(t, g, text, a)
		}
	}
	t.Logf("%d of %d refused: %v", refusals, made, refused)
	t.Logf("functions %v, keys %v", functions, keys)
	if refusals*100 > 5*made {
		t.Errorf("too many refused")
	}
	for fn := expr.AggCount; fn <= expr.AggTop; fn++ {
		if functions[fn]*50 < made {
			t.Errorf("function %d occurs %d times", fn, functions[fn])
		}
	}
	for _, kind := range []string{"number", "pointer", "object", "string", "buffer", "return"} {
		if keys[kind]*200 < made {
			t.Errorf("%s occurs %d times as a key", kind, keys[kind])
		}
	}
}

// checkedAggregation checks a SPEC of one aggregation, as it is and as it is printed.
func checkedAggregation(t *testing.T, text string, scope *expr.Scope) (*expr.Aggregation, error) {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	again, err := expr.Parse(spec.String())
	if err != nil {
		t.Fatalf("%s printed as %s: %v", text, spec, err)
	}
	items, err := expr.Check(spec, scope)
	var faults *expr.ErrorList
	if errors.As(err, &faults) {
		return nil, errors.New(faults.Errors[0].Msg)
	}
	same, err := expr.Check(again, scope)
	if err != nil {
		t.Fatalf("%s printed as %s: %v", text, spec, err)
	}
	a, b := items[0].Aggregation, same[0].Aggregation
	if a.Fn != b.Fn || a.Sub != b.Sub || a.Low != b.Low || a.High != b.High || a.Step != b.Step || a.N != b.N || a.View != b.View || len(a.Keys) != len(b.Keys) ||
		(a.Value == nil) != (b.Value == nil) || a.Value != nil && !expr.Same(a.Value, b.Value) {
		t.Errorf("%s printed as %s: %+v, %+v", text, spec, a, b)
	}
	for i := range a.Keys {
		for _, x := range [][2]expr.Term{{a.Keys[i].Value, b.Keys[i].Value}, {a.Keys[i].Target, b.Keys[i].Target}} {
			if (x[0] == nil) != (x[1] == nil) || x[0] != nil && !expr.Same(x[0], x[1]) {
				t.Errorf("%s printed as %s: key %d differs", text, spec, i)
			}
		}
	}
	if size, want := layout.KeyOf(a).Size, a.KeySize(); size != want && size+8 != want {
		t.Errorf("%s: keys of %d bytes lie in %d", text, want, size)
	}
	return a, nil
}

func kindOf(c *expr.Capture) string {
	switch c.Target.(type) {
	case *expr.Object:
		return "object"
	case *expr.Text:
		return "string"
	case *expr.Buffer:
		return "buffer"
	}
	if c.Phase() == expr.AtReturn {
		return "return"
	}
	if _, pointer := btf.UnderlyingType(c.Value.Type()).(*btf.Pointer); pointer {
		return "pointer"
	}
	return "number"
}

// fits adds values of the aggregation's type up. A row that is too short would panic.
func fits(t *testing.T, g *exprfuzz.Gen, text string, a *expr.Aggregation) {
	t.Helper()
	row := make([]uint64, a.Words())
	for range 20 {
		x := uint64(0)
		if a.Value != nil {
			x = extended(a.Value.Type(), g.Word())
		}
		a.Accumulate(row, x)
	}
	sum := uint64(0)
	switch a.Fn {
	case expr.AggHist, expr.AggLHist:
		for _, n := range row {
			sum += n
		}
	case expr.AggQuantiles:
		for _, n := range row[1:] {
			sum += n
		}
	case expr.AggTop:
		return
	default:
		sum = row[0]
	}
	if sum != 20 {
		t.Errorf("%s: %d of 20 calls in %d", text, sum, row)
	}
}

// extended returns the low bytes of a word as a number of a type.
func extended(t btf.Type, word uint64) uint64 {
	size, signed, _ := expr.Number(t)
	if shift := 64 - 8*size; signed {
		return uint64(int64(word<<shift) >> shift)
	} else if shift > 0 {
		return word & (math.MaxUint64 >> shift)
	}
	return word
}
