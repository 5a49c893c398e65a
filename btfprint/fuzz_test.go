// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// seedBTF is BTF with a type of each kind.
func seedBTF(tb testing.TB) []byte {
	tb.Helper()
	fn := &btf.Func{Name: "fn", Linkage: btf.GlobalFunc, Type: &btf.FuncProto{
		Return: intType(),
		Params: []btf.FuncParam{{Name: "p", Type: &btf.Pointer{Target: outerType()}}, {Name: "n", Type: &btf.Volatile{Type: intType()}}, {Type: (*btf.Void)(nil)}},
	}}
	wide := &btf.Enum{Name: "wide", Size: 8, Values: named("W", 1<<40)}
	b, err := btf.NewBuilder([]btf.Type{fn, wide, flexibleType(u8Type()), &btf.Fwd{Name: "fwd"}}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// printAll does everything with one type and reports what must not be.
func printAll(t *testing.T, typ btf.Type, data []byte) {
	t.Helper()
	const maxType = maxTypeLength + maxDeclLength
	if n := len(AppendType(nil, typ, TypeOptions{})); n > 2*maxType {
		t.Errorf("declaration of %d bytes", n)
	}
	if n := len(AppendTypeName(nil, typ)); n > 2*maxDeclLength {
		t.Errorf("name of %d bytes", n)
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		p, err := Compile(typ, order)
		if err != nil {
			return
		}
		memory := func(uint64, int) []byte { return data[:len(data)/2] }
		for _, o := range []ValueOptions{
			{},
			{Plain: true, ShowZeroes: true, Mode: Compact},
			{Likely: true, Readings: true, Mode: Verbose, MaxWidth: 40, MaxDepth: 3, MaxElements: 5},
			{Memory: memory, FollowDepth: 2, MaxBytes: 10000},
		} {
			limit := 1<<20 + 256*len(data)
			if o.MaxBytes > 0 {
				limit = o.MaxBytes
			}
			text := p.AppendValue(nil, data, &o)
			if len(text) > limit {
				t.Errorf("%d bytes of text of %d bytes", len(text), len(data))
			}
			if bytes.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) >= 0 {
				t.Errorf("control characters in %q", text)
			}
			if text := p.AppendJSON(nil, data, &o); !json.Valid(text) {
				t.Errorf("no JSON: %s", clip(string(text), 300))
			}
			p.AppendDiff(nil, data, data[len(data)/2:], &o)
		}
	}
}

// FuzzCorruptBTF prints short data by the types of corrupt BTF.
func FuzzCorruptBTF(f *testing.F) {
	f.Add(seedBTF(f), outerBytes())
	f.Add(seedBTF(f), []byte{})
	f.Fuzz(func(t *testing.T, raw, data []byte) {
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
		if err != nil {
			return
		}
		n := 0
		for typ, err := range spec.All() {
			if n++; err != nil || n > 200 {
				return
			}
			printAll(t, typ, clipBytes(data, 4096))
		}
	})
}

func clipBytes(b []byte, n int) []byte { return b[:min(len(b), n)] }

// FuzzValue prints any bytes, of any length, by a type of each kind.
func FuzzValue(f *testing.F) {
	f.Add(outerBytes())
	f.Add(outerBytes()[:61])
	f.Add([]byte("\x01\x00\x00\x00Abc\x00\x05\x06\xff\xff"))
	types := []btf.Type{outerType(), flexibleType(charType()), flexibleType(innerType()), arrayOf(arrayOf(charType(), 7), 3), socketType()}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, typ := range types {
			printAll(t, typ, clipBytes(data, 4096))
			againstModel(t, typ, data)
		}
	})
}

// againstModel compares the Printer with the slow implementations of the same
// text, which have been compared with libbpf and the kernel.
func againstModel(t *testing.T, typ btf.Type, data []byte) {
	t.Helper()
	p := mustCompile(t, typ)
	if len(data) < p.Size() {
		return
	}
	data = data[:p.Size()]
	for _, zeroes := range []bool{false, true} {
		m := model{zeroes: zeroes}
		want, err := m.run(typ, data)
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(want, "Inf") || strings.Contains(want, "NaN") {
			return // as Go spells them
		}
		o := ValueOptions{Plain: true, ShowZeroes: zeroes}
		if got := string(p.AppendValue(nil, data, &o)); got != want {
			t.Errorf("%v: %s", typ, firstDifference(got, want))
		}
		if !hasFloat(typ) {
			if err := compareKernelModel(typ, data, zeroes); err != nil {
				t.Errorf("%v: %v", typ, err)
			}
		}
	}
}

// TestCorruptBTF changes every byte of a small BTF.
func TestCorruptBTF(t *testing.T) {
	seed, data := seedBTF(t), outerBytes()
	loaded := 0
	for i := range seed {
		raw := bytes.Clone(seed)
		raw[i] ^= []byte{1, 0x80, 0xff}[i%3]
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
		if err != nil {
			continue
		}
		loaded++
		for typ, err := range spec.All() {
			if err != nil {
				break
			}
			printAll(t, typ, data)
		}
	}
	if loaded < len(seed)/4 {
		t.Errorf("only %d of %d could be loaded", loaded, len(seed))
	}
}
