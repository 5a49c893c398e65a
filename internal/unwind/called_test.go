// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// TestCalled: the bytes are those of llvm-mc.
func TestCalled(t *testing.T) {
	const amd64, i386, arm64 = elf.EM_X86_64, elf.EM_386, elf.EM_AARCH64
	for name, tt := range map[string]struct {
		machine        elf.Machine
		before, behind string
		want           bool
	}{
		"call 0x1000":              {amd64, "\xe8\xfb\x0f\x00\x00", "", true},
		"call *%rax":               {amd64, "\xff\xd0", "", true},
		"call *%r11":               {amd64, "\x41\xff\xd3", "", true},
		"call *(%rax)":             {amd64, "\xff\x10", "", true},
		"call *(%r12)":             {amd64, "\x41\xff\x14\x24", "", true},
		"call *8(%rbp)":            {amd64, "\xff\x55\x08", "", true},
		"call *0x12345(%r12)":      {amd64, "\x41\xff\x94\x24\x45\x23\x01\x00", "", true},
		"call *0x1234(%rip)":       {amd64, "\xff\x15\x34\x12\x00\x00", "", true},
		"call *(,%rax,8)":          {amd64, "\xff\x14\xc5\x00\x00\x00\x00", "", true},
		"call *-8(%r13,%rax,8)":    {amd64, "\x41\xff\x54\xc5\xf8", "", true},
		"call *%fs:0x10(%r12)":     {amd64, "\x64\x41\xff\x54\x24\x10", "", true},
		"notrack call *%rcx":       {amd64, "\x3e\xff\xd1", "", true},
		"lcall *(%rax)":            {amd64, "\xff\x18", "", true},
		"jmp *%rax":                {amd64, "\xff\xe0", "", false},
		"push 8(%rax)":             {amd64, "\xff\x70\x08", "", false},
		"inc %eax":                 {amd64, "\xff\xc0", "", false},
		"ret":                      {amd64, "\xc3", "", false},
		"nothing":                  {amd64, "", "", false},
		"the end of a call":        {amd64, "\xfb\x0f\x00\x00", "", false},
		"the beginning of a call":  {amd64, "\xff", "\xd0", false},
		"restorer":                 {amd64, "\x90", "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", true},
		"restorer of Go":           {amd64, "\xcc", "\xb8\x0f\x00\x00\x00\x0f\x05\xcc", true},
		"half a restorer":          {amd64, "\x90", "\x48\xc7\xc0\x0f", false},
		"call *%gs:0x10":           {i386, "\x65\xff\x15\x10\x00\x00\x00", "", true},
		"call *0x10(%ebx)":         {i386, "\xff\x53\x10", "", true},
		"restorer, i386":           {i386, "\x90", "\x58\xb8\x77\x00\x00\x00\xcd\x80", true},
		"restorer with siginfo":    {i386, "\x90", "\xb8\xad\x00\x00\x00\xcd\x80", true},
		"bl .+16":                  {arm64, "\x04\x00\x00\x94", "", true},
		"bl .-16":                  {arm64, "\xfc\xff\xff\x97", "", true},
		"blr x3":                   {arm64, "\x60\x00\x3f\xd6", "", true},
		"blraa x3, x4":             {arm64, "\x64\x08\x3f\xd7", "", true},
		"blrab x3, sp":             {arm64, "\x7f\x0c\x3f\xd7", "", true},
		"blraaz x3":                {arm64, "\x7f\x08\x3f\xd6", "", true},
		"blrabz x30":               {arm64, "\xdf\x0f\x3f\xd6", "", true},
		"b .+16":                   {arm64, "\x04\x00\x00\x14", "", false},
		"br x3":                    {arm64, "\x60\x00\x1f\xd6", "", false},
		"braa x3, x4":              {arm64, "\x64\x08\x1f\xd7", "", false},
		"ret, arm64":               {arm64, "\xc0\x03\x5f\xd6", "", false},
		"restorer, arm64":          {arm64, "\xc0\x03\x5f\xd6", "\x68\x11\x80\xd2\x01\x00\x00\xd4", true},
		"code that nobody decodes": {elf.EM_RISCV, "", "", true},
	} {
		if got := Called(tt.machine, []byte(tt.before), []byte(tt.behind)); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestCalledLibrary: behind each call of the C library, which another decoder finds, is a return address. Behind few other
// instructions there seems to be one.
func TestCalledLibrary(t *testing.T) {
	f, err := elf.Open("/lib/x86_64-linux-gnu/libc.so.6")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	code, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	calls, others, wrong := 0, 0, 0
	for at := uint64(0); at < uint64(len(code)); {
		inst, size, ok := decodeAt(code[at:])
		if !ok {
			at++
			continue
		}
		at += size
		called := Called(elf.EM_X86_64, code[max(at, CallSize)-CallSize:at], nil)
		switch {
		case inst.Op == x86asm.CALL || inst.Op == x86asm.LCALL:
			if calls++; !called {
				t.Errorf("%#x: %v", at-size, inst)
			}
		case called:
			wrong++
			others++
		default:
			others++
		}
	}
	if t.Logf("%d calls, %d other instructions, of which %d look like calls", calls, others, wrong); calls == 0 || wrong*200 > others {
		t.Error("want at most one in 200")
	}
}
