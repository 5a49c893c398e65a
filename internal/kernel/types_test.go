// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

func TestTypesByName(t *testing.T) {
	v := Open(fakeKernel(t, ""))
	for _, test := range []struct{ spelling, module, want string }{
		{"struct sk_buff", "", "*btf.Struct:4"},
		{" struct  sk_buff ", "", "*btf.Struct:4"},
		{"struct sk_buff", "mod", "*btf.Struct:16"},
		{"struct sk_buff", "unloaded", "*btf.Struct:4"},
		{"union sk_buff", "", ""},
		{"sk_buff", "", ""},
		{"sk_buff_t", "mod", "*btf.Typedef:4"},
		{"union either", "", "*btf.Union:4"},
		{"enum colour", "", "*btf.Enum:4"},
		{"int", "", "*btf.Int:4"},
		{"ip_rcv", "", ""}, // a function is no type
		{"struct opaque", "", "*btf.Fwd:0"},
		{"struct in_module", "", "*btf.Struct:8"}, // vmlinux only declares it
		{"struct", "", ""},
		{"", "", ""},
		{"struct nothing", "", ""},
	} {
		types, err := v.TypesByName(test.spelling, test.module)
		var got []string
		for _, typ := range types {
			size, _ := btf.Sizeof(typ)
			got = append(got, fmt.Sprintf("%T:%d", typ, size))
		}
		if text := strings.Join(got, " "); err != nil || text != test.want {
			t.Errorf("TypesByName(%q, %q) = %s, %v, want %s", test.spelling, test.module, text, err, test.want)
		}
	}
}

func TestEnumerators(t *testing.T) {
	v := Open(fakeKernel(t, ""))
	for _, test := range []struct{ name, module, want string }{
		{"RED", "", "colour:1"},
		{"GREEN", "", "colour:2 :3"},
		{"FAR", "mod", "wide:1099511627776"},
		{"MOD_VALUE", "", ":7"},
		{"MOD_VALUE", "mod", ":7"},
		{"colour", "", ""},
		{"", "", ""},
	} {
		enums, err := v.Enumerators(test.name, test.module)
		var got []string
		for _, e := range enums {
			for _, val := range e.Values {
				if val.Name == test.name {
					got = append(got, fmt.Sprintf("%s:%d", e.Name, val.Value))
				}
			}
		}
		if text := strings.Join(got, " "); err != nil || text != test.want {
			t.Errorf("Enumerators(%q, %q) = %q, %v, want %q", test.name, test.module, text, err, test.want)
		}
	}
}

func TestModuleBTF(t *testing.T) {
	v := Open(fakeKernel(t, ""))
	spec, err := v.ModuleBTF("mod")
	if err != nil {
		t.Fatal(err)
	}
	if types, err := spec.AnyTypesByName("mod_probe"); err != nil || len(types) != 1 {
		t.Errorf("mod_probe: %v, %v", types, err)
	}
	for _, name := range []string{"broken", "unloaded", "../vmlinux", "a/b"} {
		if _, err := v.ModuleBTF(name); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestOpenBTF(t *testing.T) {
	base := vmlinuxBTF(t)
	module := moduleBTF(t, base)
	v := openBytes(t, module, base)
	funcs, err := v.Match("*_*", "")
	const want = "ip_rcv:ip_rcv ip_rcv[mod]:ip_rcv ip_send_skb:ip_send_skb mod_probe[mod]:mod_probe tcp_v4_rcv:tcp_v4_rcv"
	if got := list(funcs); err != nil || got != want {
		t.Errorf("Match = %s, %v, want %s", got, err, want)
	}
	v = openBytes(t, elfFile(".BTF", base), nil)
	if funcs, err := v.Match("ip_rcv", ""); err != nil || list(funcs) != "ip_rcv:ip_rcv" {
		t.Errorf("ELF: %s, %v", list(funcs), err)
	}
	if v.Arch() != "arm64" {
		t.Errorf("ELF: architecture %s", v.Arch())
	}
	if _, ok := v.Symbol(0xffffffff81000110); ok || v.Symbols() == nil {
		t.Error("there are symbols")
	}
	if _, err := v.Release(); err == nil {
		t.Error("there is a release")
	}
}

func TestOpenBTFErrors(t *testing.T) {
	base := vmlinuxBTF(t)
	for _, test := range []struct {
		data, base []byte
		want       string
	}{
		{nil, nil, "reading BTF: EOF"},
		{[]byte("#!/bin/sh"), nil, "reading BTF: neither ELF nor BTF"},
		{[]byte(elf.ELFMAG), nil, "reading ELF: "},
		{elfFile(".text", base), nil, "reading BTF: the ELF file has no section .BTF"},
		{elfFile(".BTF.base", base), nil, "reading BTF: a module with a base of its own"},
		{base[:40], nil, "reading BTF: truncated"},
		{moduleBTF(t, base), nil, "reading BTF: these are the types of a module"},
		{moduleBTF(t, base), []byte("none"), "base of the module: reading BTF: neither ELF nor BTF"},
	} {
		var under *bytes.Reader
		_, err := OpenBTF(bytes.NewReader(test.data), nil, "")
		if test.base != nil {
			under = bytes.NewReader(test.base)
			_, err = OpenBTF(bytes.NewReader(test.data), under, "mod")
		}
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%.8q: %v, want %s", test.data, err, test.want)
		}
	}
}

// elfFile is an arm64 ELF file with one section.
func elfFile(name string, data []byte) []byte {
	names := "\x00" + name + "\x00.shstrtab\x00"
	const header, section = 64, 64
	h := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_AARCH64), Version: 1, Ehsize: header,
		Shoff: uint64(header + len(data) + len(names)), Shentsize: section, Shnum: 3, Shstrndx: 2,
	}
	var b bytes.Buffer
	write := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err) // a bytes.Buffer takes all
		}
	}
	write(h)
	b.Write(data)
	b.WriteString(names)
	write(elf.Section64{})
	write(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: header, Size: uint64(len(data))})
	write(elf.Section64{Name: uint32(len(name) + 2), Type: uint32(elf.SHT_STRTAB), Off: uint64(header + len(data)), Size: uint64(len(names))})
	return b.Bytes()
}
