// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// TestRegisters: the engine finds arguments, results and return addresses in the
// words of struct pt_regs where generated programs do.
func TestRegisters(t *testing.T) {
	for arch, object := range map[string]string{"amd64": "engine_x86_bpfel.o", "arm64": "engine_arm64_bpfel.o"} {
		stack, ip := "sp", map[string]string{"amd64": "ip", "arm64": "pc"}[arch]
		for function, want := range map[string][]int{
			"ks_words":          append(ptregs.Arguments(arch), ptregs.Words(arch, stack)...),
			"ks_result":         ptregs.Results(arch)[:1],
			"ks_return_address": ptregs.Words(arch, ip),
		} {
			got := loaded(t, object, function)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s loads the words %v, want %v", arch, function, got, want)
			}
		}
	}
}

// loaded returns which words a function loads, sorted.
func loaded(t *testing.T, object, function string) (words []int) {
	t.Helper()
	f, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == function })
	if i < 0 {
		t.Fatalf("%s has no function %s", object, function)
	}
	s := symbols[i]
	code, err := f.Sections[s.Section].Data()
	if err != nil {
		t.Fatal(err)
	}
	const load, stack = 0x79, 10 // BPF_LDX | BPF_MEM | BPF_DW, and the frame pointer
	for code = code[s.Value:][:s.Size]; len(code) > 0; code = code[8:] {
		if code[0] == load && code[1]>>4 != stack {
			words = append(words, int(int16(binary.LittleEndian.Uint16(code[2:])))/8)
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}
