// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// decodeJSON decodes one value, numbers as they are written. Objects must not
// have two members of a name.
func decodeJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := decodeValue(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text behind the value")
	}
	return v, nil
}

func decodeValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := make(map[string]any)
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			if _, dup := object[key.(string)]; dup {
				return nil, fmt.Errorf("two members %q", key)
			}
			if object[key.(string)], err = decodeValue(d); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}

// checkJSON compares a decoded value with the bytes, member by member.
func checkJSON(v any, t btf.Type, raw []byte, off, bit, bits int) error {
	le := binary.LittleEndian
	load := func(n int) uint64 {
		var b [8]byte
		copy(b[:], raw[off:off+n])
		return le.Uint64(b[:])
	}
	field := func(n int, signed bool) string {
		u, width := load(min(n, 8)), n*8
		if bits > 0 {
			m := model{data: append(append([]byte(nil), raw...), make([]byte, 16)...)}
			u, width = m.bitfield(n, off, bit, bits), bits
		}
		if signed {
			return strconv.FormatInt(int64(u<<(64-width))>>(64-width), 10)
		}
		return strconv.FormatUint(u, 10)
	}
	var want any
	switch t := strip(t).(type) {
	case *btf.Struct:
		return checkMembers(v, t.Members, raw, off)
	case *btf.Union:
		return checkMembers(v, t.Members, raw, off)
	case *btf.Array:
		return checkArray(v, t, raw, off)
	case *btf.Pointer:
		want = "0x" + strconv.FormatUint(load(8), 16)
	case *btf.Int:
		switch s := field(int(t.Size), t.Encoding == btf.Signed); {
		case t.Size == 16:
			want = fmt.Sprintf("0x%x%016x", le.Uint64(raw[off+8:]), le.Uint64(raw[off:]))
			want = "0x" + strings.TrimLeft(strings.TrimPrefix(want.(string), "0x"), "0")
		case t.Encoding == btf.Bool && s == "0":
			want = false
		case t.Encoding == btf.Bool && s == "1":
			want = true
		default:
			want = json.Number(s)
		}
	case *btf.Enum:
		s := field(int(t.Size), t.Signed)
		want = json.Number(s)
		for _, e := range t.Values {
			name := strconv.FormatUint(e.Value, 10)
			if t.Signed {
				name = strconv.FormatInt(int64(e.Value), 10)
			}
			if name == s {
				want = e.Name
				break
			}
		}
		if got, ok := v.(string); ok && strings.Contains(got, "|") {
			v = json.Number(strconv.FormatUint(flagBits(t, got), 10))
		}
	case *btf.Float:
		f := math.Float64frombits(load(8))
		bits := 64
		if t.Size == 4 {
			f, bits = float64(math.Float32frombits(uint32(load(4)))), 32
		}
		if n, ok := v.(json.Number); ok {
			got, err := strconv.ParseFloat(string(n), bits)
			if err == nil && got == f {
				return nil
			}
		}
		want = f
	default:
		return fmt.Errorf("unexpected type %v", t)
	}
	if v != want {
		return fmt.Errorf("got %v (%T), want %v", v, v, want)
	}
	return nil
}

// flagBits adds up the bits of `A|B`.
func flagBits(t *btf.Enum, names string) uint64 {
	var sum uint64
	for name := range strings.SplitSeq(names, "|") {
		for _, e := range t.Values {
			if e.Name == name {
				sum |= e.Value
				break
			}
		}
	}
	return sum
}

func checkMembers(v any, members []btf.Member, raw []byte, off int) error {
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no object", v)
	}
	for _, m := range members {
		at := int(m.Offset)
		inner := any(object)
		if m.Name != "" {
			if inner, ok = object[m.Name]; !ok {
				return fmt.Errorf("no member %s", m.Name)
			}
		}
		if err := checkJSON(inner, m.Type, raw, off+at/8, at%8, int(m.BitfieldSize)); err != nil {
			return fmt.Errorf(".%s%w", m.Name, err)
		}
	}
	return nil
}

func checkArray(v any, t *btf.Array, raw []byte, off int) error {
	i, ok := strip(t.Type).(*btf.Int)
	if ok && i.Size == 1 && (i.Name == "char" || i.Encoding == btf.Char) {
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("%v is no string", v)
		}
		want := bytes.TrimRight(raw[off:off+int(t.Nelems)], "\x00")
		if got := unescape(text); got != string(want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%v is no array", v)
	}
	n := int(t.Nelems)
	if sizeof(t.Type) == 0 {
		n = 0
	}
	if len(list) != n {
		return fmt.Errorf("%d elements, want %d", len(list), n)
	}
	for i, elem := range list {
		if err := checkJSON(elem, t.Type, raw, off+i*sizeof(t.Type), 0, 0); err != nil {
			return fmt.Errorf("[%d]%w", i, err)
		}
	}
	return nil
}

// unescape gives back the bytes that a JSON text stands for.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			b.WriteByte(s[i])
		case s[i+1] == '\\':
			b.WriteByte('\\')
			i++
		default:
			n, _ := strconv.ParseUint(s[i+2:i+4], 16, 8)
			b.WriteByte(byte(n))
			i += 3
		}
	}
	return b.String()
}

// TestJSONKernel prints every struct and union of the kernel and reads every
// member back: nothing is lost, no number inexact.
func TestJSONKernel(t *testing.T) {
	for _, file := range kernelBTF(t) {
		spec, err := btf.LoadSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		bad := 0
		ids := composites(t, spec)
		for _, id := range ids {
			typ, err := spec.TypeByID(id)
			if err != nil {
				t.Fatal(err)
			}
			p := mustCompile(t, typ)
			raw := testBytes(id, p.Size(), false)
			text := p.AppendJSON(nil, raw, &ValueOptions{ShowZeroes: true})
			v, err := decodeJSON(text)
			if err == nil {
				err = checkJSON(v, typ, raw, 0, 0, 0)
			}
			if err != nil {
				if bad++; bad <= 5 {
					t.Errorf("%v: %v\n%s", typ, err, clip(string(text), 500))
				}
			}
			for _, short := range [][]byte{raw[:len(raw)/2], testBytes(id, p.Size(), true)} {
				if text := p.AppendJSON(nil, short, nil); !json.Valid(text) {
					t.Errorf("%v: no JSON: %s", typ, clip(string(text), 500))
				}
			}
		}
		t.Logf("%s: %d types read back, %d wrong", file, len(ids), bad)
	}
}

func TestAppendJSON(t *testing.T) {
	named := func(dst []byte, addr uint64) []byte {
		if addr != 0xffffffff81000010 {
			return dst
		}
		return append(dst, `a"b\`...)
	}
	memory := func(addr uint64, size int) []byte {
		if addr != 0xffff888000001000 {
			return nil
		}
		return []byte("\x09\x00\x00\x00abc")
	}
	text := func(n uint32) btf.Type { return arrayOf(charType(), n) }
	twins := &btf.Struct{Name: "twins", Size: 8, Members: []btf.Member{
		{Name: "a", Type: intType()},
		{Type: &btf.Struct{Size: 4, Members: []btf.Member{{Name: "a", Type: intType()}}}, Offset: 32},
	}}
	outer := `{"color":"BLUE","bits":5,"sbits":-2,"on":true,"mode":"M_R|M_X","in":{"a":-7,"name":"et\"h\u000a"},` +
		`"p":%s,"fn":%s,"mac":[1,2,0,255,0,0],"num":18446612682070040576,"ptr":"0xffff888000002000","f":1.5,` +
		`"grid":[[0,3],[0,0]],"ins":[{"a":0,"name":""},{"a":42,"name":""}],"wide":"0x10000000000000000"}`
	p, fn := `"0xffff888000001000"`, `"0xffffffff81000010"`
	for _, tt := range []struct {
		name string
		typ  btf.Type
		raw  []byte
		o    ValueOptions
		want string
	}{
		{"default", outerType(), outerBytes(), ValueOptions{}, fmt.Sprintf(outer, p, fn)},
		{"pointers", outerType(), outerBytes(), ValueOptions{PointerName: named, Memory: memory}, fmt.Sprintf(outer,
			`{"addr":`+p+`,"value":{"a":9,"name":"abc...","...":true}}`, `{"addr":`+fn+`,"name":"a\"b\\\\"}`)},
		{"errors", errorPointers(), errorBytes(), ValueOptions{},
			`{"p":"0xfffffffffffffffe","list":["0xffffffffffffffff","0x0","0xfffffffffffff000"],"fn":"0xfffffffffffffdf4"}`},
		{"errors by name", errorPointers(), errorBytes(), ValueOptions{PointerName: named}, `{"p":{"addr":"0xfffffffffffffffe","name":"-ENOENT"},` +
			`"list":[{"addr":"0xffffffffffffffff","name":"-EPERM"},"0x0","0xfffffffffffff000"],"fn":{"addr":"0xfffffffffffffdf4","name":"-ENOTSUPP"}}`},
		{"short", outerType(), outerBytes()[:14], ValueOptions{},
			`{"color":"BLUE","bits":5,"sbits":-2,"on":true,"mode":"M_R|M_X","in":{"...":true},"...":true}`},
		{"nothing", outerType(), nil, ValueOptions{}, `"..."`},
		{"short array", arrayOf(intType(), 3), make([]byte, 9), ValueOptions{}, `[0,0,"..."]`},
		{"elements", arrayOf(intType(), 3), make([]byte, 12), ValueOptions{MaxElements: 1}, `[0,"..."]`},
		{"depth", outerType().Members[5].Type, outerBytes()[12:24], ValueOptions{MaxDepth: 1}, `{"a":-7,"name":"et\"h\u000a"}`},
		{"depth, nested", &btf.Struct{Name: "s", Size: 12, Members: []btf.Member{{Name: "in", Type: innerType()}}}, outerBytes()[12:24],
			ValueOptions{MaxDepth: 1}, `{"in":{"...":true}}`},
		{"twins", twins, []byte{1, 0, 0, 0, 2, 0, 0, 0}, ValueOptions{}, `{"a":1,"a#2":2}`},
		{"text", text(12), []byte("a\xff\\\x1b\u00e9\x00\x00\x00\x00\x00\x00"), ValueOptions{}, `"a\\xff\\\\\u001bé"`},
		{"behind a NUL", text(12), []byte("a\x00old.\x00\x00\x00\x00\x00\x00"), ValueOptions{}, `"a\u0000old."`},
		{"short, behind the end", text(12), []byte("abc\x00\x00"), ValueOptions{}, `"abc"`},
		{"short, behind a NUL", text(12), []byte("abc\x00d\x00"), ValueOptions{}, `"abc\u0000d..."`},
		{"address", sockaddrType(), addressBytes(), ValueOptions{}, `{"sa_family":2,"sa_data":"\u0000P\u007f\u0000\u0000\u0001"}`},
		{"no NUL", text(3), []byte("abc"), ValueOptions{}, `"abc"`},
		{"empty", &btf.Struct{Name: "e"}, nil, ValueOptions{}, `{}`},
		{"zeroes", innerType(), make([]byte, 12), ValueOptions{}, `{}`},
		{"zeroes shown", innerType(), make([]byte, 12), ValueOptions{ShowZeroes: true}, `{"a":0,"name":""}`},
		{"bool of 2", boolType(), []byte{2}, ValueOptions{}, `2`},
		{"no form", innerType(), make([]byte, 12), ValueOptions{ShowZeroes: true, Mode: Compact, MaxWidth: 5, Hide: HideNames | HideValues}, `{"a":0,"name":""}`},
		{"likely", outerType().Members[9].Type, outerBytes()[48:56], ValueOptions{Likely: true}, `{"ptr":"0xffff888000002000"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mustCompile(t, tt.typ).AppendJSON([]byte(" "), tt.raw, &tt.o)
			if string(got) != " "+tt.want {
				t.Errorf(" got%s\nwant %s", got, tt.want)
			}
			if _, err := decodeJSON(got); err != nil {
				t.Error(err)
			}
		})
	}
}
