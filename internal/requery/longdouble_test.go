// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/layout"
)

// TestLongDoubleKey: what is behind the 10 bytes of a long double makes no row of its own.
func TestLongDoubleKey(t *testing.T) {
	long := &btf.Float{Name: "long double", Size: 16}
	view := kernelOf(t, &btf.Func{Name: "f", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: &btf.Void{}, Params: []btf.FuncParam{{Name: "p", Type: &btf.Pointer{Target: long}}}}})
	p := planOf(t, view, layout.MethodKprobe, "f(*p)")
	a, err := New(p, view, Question{Specs: parse(t, "f(count()[*p])"), Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	var moments []moment
	for _, padding := range []uint64{0x1111, 0x2222} {
		c := newSimulated(kernelMemory, 0)
		binary.LittleEndian.PutUint64(c.Before, 0xa000000000000000)
		binary.LittleEndian.PutUint64(c.Before[8:], padding<<16|0x4000)
		moments = append(moments, both(c)...)
	}
	for _, err := range a.Records(sent(p, moments)) {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := a.Summary()
	if got := tablesOf(t, a.Plan(), s.Tables, s.Stacks); len(s.Tables[0].Rows) != 1 || !strings.Contains(got, "2.5") {
		t.Errorf("not one row of 2.5:\n%s", got)
	}
}
