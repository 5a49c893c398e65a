// SPDX-License-Identifier: Apache-2.0

package code

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// all asks for the whole kernel: a sample is compared else, since objdump writes 480 MB.
func all() bool { return os.Getenv("KSNOOP_SOAK") != "" }

// debugVmlinux returns the vmlinux of a kernel's debug info.
func debugVmlinux(t *testing.T, kernel string) string {
	t.Helper()
	cache, err := vm.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := cache.DebugInfo(context.Background(), kernel)
	if err != nil {
		t.Skipf("no debug info of kernel %s: %v", kernel, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "usr/lib/debug/boot/vmlinux-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %d files (%v)", dir, len(files), err)
	}
	return files[0]
}

// An oracleLine is an instruction as objdump reads it.
type oracleLine struct {
	addr uint64
	text string
}

// objdump calls each with every function that objdump finds from one address to another, and its
// instructions.
func objdump(t *testing.T, tool []string, file string, from, to uint64, each func(name string, lines []oracleLine)) {
	t.Helper()
	cmd := exec.Command(tool[0], append(tool[1:len(tool):len(tool)], "-w", "--no-show-raw-insn", fmt.Sprintf("--start-address=%#x", from), fmt.Sprintf("--stop-address=%#x", to), file)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	var name string
	var lines []oracleLine
	flush := func() {
		if len(lines) > 0 {
			each(name, lines)
		}
		lines = lines[:0]
	}
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		line := s.Text()
		if head, ok := strings.CutSuffix(line, ">:"); ok {
			flush()
			_, name, _ = strings.Cut(head, "<")
			continue
		}
		where, text, ok := strings.Cut(strings.TrimSpace(line), ":\t")
		if addr, err := strconv.ParseUint(where, 16, 64); ok && err == nil {
			lines = append(lines, oracleLine{addr, text})
		}
	}
	flush()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// text reads the .text of a file.
func text(t *testing.T, file string) (code []byte, addr uint64) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".text")
	code, err = s.Data()
	if err != nil {
		t.Fatal(err)
	}
	return code, s.Addr
}

// TestObjdump compares instruction starts, and where jumps lead to, with objdump. A function
// that is not decoded to its end may only be undecodable, never wrong.
func TestObjdump(t *testing.T) {
	for _, kernel := range []string{"6.12"} {
		t.Run(kernel, func(t *testing.T) {
			file := debugVmlinux(t, kernel)
			code, base := text(t, file)
			from, to := base+uint64(len(code))/3, base+uint64(len(code))/3+400_000
			if all() {
				from, to = base, base+uint64(len(code))
			}
			functions, instructions, unknown := 0, 0, 0
			objdump(t, []string{"objdump", "-d", "--section=.text"}, file, from, to, func(name string, lines []oracleLine) {
				functions++
				n, ok := sameInstructions(t, "amd64", name, code, base, lines)
				instructions += n
				if !ok {
					unknown++
				}
			})
			t.Logf("%d functions, %d instructions, %d functions undecodable", functions, instructions, unknown)
			if functions < 500 || unknown*200 > functions {
				t.Errorf("%d of %d functions are undecodable", unknown, functions)
			}
		})
	}
}

// TestObjdumpARM64 compares where instructions lead to, in the image that Debian has, which is
// not compressed. It has data among the code.
func TestObjdumpARM64(t *testing.T) {
	tool, err := exec.LookPath("aarch64-linux-gnu-objdump")
	if err != nil {
		t.Skip(err)
	}
	cache, err := vm.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := cache.Kernel(context.Background(), "newest-arm64")
	if err != nil {
		t.Skip(err)
	}
	image, err := os.ReadFile(kernel.Vmlinuz)
	if err != nil || len(image) < 1<<24 || string(image[0x38:0x3c]) != "ARM\x64" {
		t.Skipf("%s is compressed, %v", kernel.Vmlinuz, err)
	}
	from, to := uint64(4<<20), uint64(5<<20)
	if all() {
		from, to = 1<<16, 16<<20
	}
	branches := 0
	objdump(t, []string{tool, "-D", "-b", "binary", "-m", "aarch64"}, kernel.Vmlinuz, from, to, func(_ string, lines []oracleLine) {
		for _, l := range lines {
			in, err := decode("arm64", image[l.addr:], l.addr)
			want, known := flowARM64(l.text)
			if err != nil || in.Len != 4 || known && in.flow != want {
				t.Errorf("%#x %s: %+v, %v", l.addr, l.text, in, err)
			}
			if in.flow == Branch || in.flow == Jump {
				branches++
				checkTarget(t, "Image", l, in)
			}
		}
	})
	t.Logf("%d branches", branches)
	if branches < 10_000 {
		t.Errorf("only %d branches", branches)
	}
}

// flowARM64 is flowOf for arm64; known is false for what is no instruction.
func flowARM64(text string) (f Flow, known bool) {
	mnemonic, _, _ := strings.Cut(text, "\t")
	mnemonic = strings.TrimSpace(mnemonic)
	switch {
	case strings.HasPrefix(mnemonic, ".") || mnemonic == "udf":
		return Next, false
	case mnemonic == "b.al" || mnemonic == "b.nv":
		return Jump, true
	case strings.HasPrefix(mnemonic, "b.") || strings.HasPrefix(mnemonic, "bc.") || strings.HasPrefix(mnemonic, "cbz") || strings.HasPrefix(mnemonic, "cbnz") || strings.HasPrefix(mnemonic, "tb") && !strings.HasPrefix(mnemonic, "tbl") && !strings.HasPrefix(mnemonic, "tbx"):
		return Branch, !strings.Contains(text, "zr,") // data that looks like a branch
	case mnemonic == "b":
		return Jump, true
	case mnemonic == "br" || mnemonic == "braa" || mnemonic == "brab" || mnemonic == "braaz" || mnemonic == "brabz":
		return Indirect, true
	case strings.HasPrefix(mnemonic, "ret") || strings.HasPrefix(mnemonic, "eret") || mnemonic == "drps":
		return Leave, true
	}
	return Next, true
}

// sameInstructions compares one function. It stops where code cannot be decoded, and returns
// false.
func sameInstructions(t *testing.T, arch, name string, code []byte, base uint64, lines []oracleLine) (n int, ok bool) {
	for i, l := range lines {
		if strings.Contains(l.text, "(bad)") || strings.HasPrefix(l.text, ".byte") || name == "srso_untrain_ret" {
			return n, true // data; an instruction with another function inside
		}
		in, err := decode(arch, code[l.addr-base:], l.addr)
		if err != nil || in.flow == Unknown {
			if _, known := os.LookupEnv("KSNOOP_UNKNOWN"); known {
				end := min(l.addr-base+10, uint64(len(code)))
				t.Logf("%s %#x: %s: % x: %v", name, l.addr, l.text, code[l.addr-base:end], err)
			}
			return n, false
		}
		n++
		if i+1 < len(lines) && lines[i+1].addr != in.End() {
			t.Errorf("%s: %#x %s: ends at %#x, objdump says %#x", name, l.addr, l.text, in.End(), lines[i+1].addr)
			return n, true
		}
		if want := flowOf(l.text); want != in.flow {
			t.Errorf("%s: %#x %s: flow %d, want %d", name, l.addr, l.text, in.flow, want)
		}
		if in.flow == Jump || in.flow == Branch {
			checkTarget(t, name, l, in)
		}
	}
	return n, true
}

// prefixes are what objdump writes before mnemonics of jumps.
var prefixes = strings.NewReplacer("bnd ", "", "notrack ", "", ",pn", "", ",pt", "", "cs ", "", "ds ", "", "repz ", "", "rex.WB ", "", "rex.W ", "", "data16 ", "", "addr32 ", "")

// flowOf tells from objdump's text where an instruction leads.
func flowOf(text string) Flow {
	mnemonic, args, _ := strings.Cut(strings.TrimSpace(prefixes.Replace(text)), " ")
	args = strings.TrimSpace(args)
	switch {
	case (strings.HasPrefix(mnemonic, "jmp") || strings.HasPrefix(mnemonic, "ljmp")) && strings.HasPrefix(args, "*"):
		return Indirect
	case strings.HasPrefix(mnemonic, "jmp"):
		return Jump
	case strings.HasPrefix(mnemonic, "j"):
		return Branch
	case strings.HasPrefix(mnemonic, "ret") || strings.HasPrefix(mnemonic, "iret") || strings.HasPrefix(mnemonic, "sysret") || mnemonic == "lret" || mnemonic == "lretq":
		return Leave
	}
	return Next
}

func checkTarget(t *testing.T, name string, l oracleLine, in Instruction) {
	for field := range strings.FieldsFuncSeq(l.text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
		hex, is := strings.CutPrefix(field, "0x")
		if target, err := strconv.ParseUint(hex, 16, 64); err == nil && (is || target > 0xfff) {
			if target != in.Target {
				t.Errorf("%s: %#x %s: jumps to %#x", name, l.addr, l.text, in.Target)
			}
			return
		}
	}
	t.Errorf("%s: %#x %s: the target is not understood", name, l.addr, l.text)
}

// TestConditions compares the conditions with those that a processor's manual gives each
// mnemonic, for all flags.
func TestConditions(t *testing.T) {
	type flags struct{ c, p, z, s, o bool }
	for mnemonic, tt := range map[string]struct {
		opcode byte
		holds  func(flags) bool
	}{
		"jo": {0x70, func(f flags) bool { return f.o }}, "jno": {0x71, func(f flags) bool { return !f.o }},
		"jb": {0x72, func(f flags) bool { return f.c }}, "jae": {0x73, func(f flags) bool { return !f.c }},
		"je": {0x74, func(f flags) bool { return f.z }}, "jne": {0x75, func(f flags) bool { return !f.z }},
		"jbe": {0x76, func(f flags) bool { return f.c || f.z }}, "ja": {0x77, func(f flags) bool { return !f.c && !f.z }},
		"js": {0x78, func(f flags) bool { return f.s }}, "jns": {0x79, func(f flags) bool { return !f.s }},
		"jp": {0x7a, func(f flags) bool { return f.p }}, "jnp": {0x7b, func(f flags) bool { return !f.p }},
		"jl": {0x7c, func(f flags) bool { return f.s != f.o }}, "jge": {0x7d, func(f flags) bool { return f.s == f.o }},
		"jle": {0x7e, func(f flags) bool { return f.z || f.s != f.o }}, "jg": {0x7f, func(f flags) bool { return !f.z && f.s == f.o }},
	} {
		short, err := decode("amd64", []byte{tt.opcode, 0x10}, 0x1000)
		long, err2 := decode("amd64", []byte{0x0f, tt.opcode + 0x10, 0, 1, 0, 0}, 0x1000)
		if err != nil || err2 != nil || short.flow != Branch || long.flow != Branch || short.Target != 0x1012 || long.Target != 0x1106 {
			t.Fatalf("%s: %+v, %+v", mnemonic, short, long)
		}
		for bits := range 1 << 5 {
			bit := func(n int) uint64 { return uint64(bits >> n & 1) }
			word := 2 | bit(0) | bit(1)<<2 | bit(2)<<6 | bit(3)<<7 | bit(4)<<11 | 1<<9
			want := tt.holds(flags{bit(0) == 1, bit(1) == 1, bit(2) == 1, bit(3) == 1, bit(4) == 1})
			if short.Test.Taken(word) != want || long.Test.Taken(word) != want {
				t.Errorf("%s with flags %#x: not %v", mnemonic, word, want)
			}
		}
	}
}

// TestTestsARM64 has encodings of the GNU assembler.
func TestTestsARM64(t *testing.T) {
	const n, z, c, v = 1 << 31, 1 << 30, 1 << 29, 1 << 28
	for _, tt := range []struct {
		text      string
		code      []byte
		target    uint64
		word      int
		yes, noes []uint64
	}{
		{"b.eq +8", []byte{0x40, 0, 0, 0x54}, 0x1008, 33, []uint64{z, z | c}, []uint64{0, n | c | v}},
		{"b.ne -4", []byte{0xe1, 0xff, 0xff, 0x54}, 0xffc, 33, []uint64{0, c}, []uint64{z}},
		{"b.hi +8", []byte{0x48, 0, 0, 0x54}, 0x1008, 33, []uint64{c}, []uint64{0, z, c | z}},
		{"b.ls +8", []byte{0x49, 0, 0, 0x54}, 0x1008, 33, []uint64{0, z, c | z}, []uint64{c}},
		{"b.lt +8", []byte{0x4b, 0, 0, 0x54}, 0x1008, 33, []uint64{n, v}, []uint64{0, n | v}},
		{"b.le +8", []byte{0x4d, 0, 0, 0x54}, 0x1008, 33, []uint64{n, v, z}, []uint64{0, n | v}},
		{"cbz w3, +8", []byte{0x43, 0, 0, 0x34}, 0x1008, 3, []uint64{0, 1 << 32}, []uint64{1}},
		{"cbz x3, +8", []byte{0x43, 0, 0, 0xb4}, 0x1008, 3, []uint64{0}, []uint64{1, 1 << 32}},
		{"cbnz x4, +8", []byte{0x44, 0, 0, 0xb5}, 0x1008, 4, []uint64{1 << 63}, []uint64{0}},
		{"tbz w5, #3, +8", []byte{0x45, 0, 0x18, 0x36}, 0x1008, 5, []uint64{0, 0xf7}, []uint64{8}},
		{"tbnz x6, #40, +8", []byte{0x46, 0, 0x40, 0xb7}, 0x1008, 6, []uint64{1 << 40}, []uint64{1 << 8}},
	} {
		in, err := decode("arm64", tt.code, 0x1000)
		if err != nil || in.flow != Branch || in.Target != tt.target || in.Test.Word != tt.word {
			t.Errorf("%s: %+v, %v", tt.text, in, err)
		}
		for _, w := range tt.yes {
			if !in.Test.Taken(w) {
				t.Errorf("%s with %#x does not jump", tt.text, w)
			}
		}
		for _, w := range tt.noes {
			if in.Test.Taken(w) {
				t.Errorf("%s with %#x jumps", tt.text, w)
			}
		}
	}
	if in, err := decode("arm64", bytes.Repeat([]byte{0}, 3), 0); err == nil || in.flow != Unknown {
		t.Error("three bytes are an instruction")
	}
}
