// SPDX-License-Identifier: Apache-2.0

package code

import (
	"testing"
)

// checked is a function that the GNU assembler made of
//
//	0x1000	endbr64
//	0x1004	cmpl $4, 4(%rdi)
//	0x1008	mov %rsi, %rax
//	0x100b	jne 0x2000 (cold)
//	0x1011	test %eax, %eax
//	0x1013	ja 0x101a
//	0x1015	je 0x101a
//	0x1017	mov (%rsi), %ecx, which can fault: to 0x101c
//	0x1019	nop
//	0x101a	ret
//	0x101b	int3
//	0x101c	xor %eax, %eax
//	0x101e	jmp 0x101a
//
// with the cold part
//
//	0x2000	mov $-22, %eax
//	0x2005	jmp 0x101a
//	0x200a	ud2
func checked() *Function {
	return &Function{Arch: "amd64", Parts: []Part{
		{0x1000, []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x83, 0x7f, 0x04, 0x04, 0x48, 0x89, 0xf0, 0x0f, 0x85, 0xef, 0x0f, 0, 0, 0x85, 0xc0, 0x77, 0x05, 0x74, 0x03, 0x8b, 0x0e, 0x90, 0xc3, 0xcc, 0x31, 0xc0, 0xeb, 0xfa}},
		{0x2000, []byte{0xb8, 0xea, 0xff, 0xff, 0xff, 0xe9, 0x10, 0xf0, 0xff, 0xff, 0x0f, 0x0b}},
	}, Faults: []Fault{{0x1017, 0x101c}}}
}

func TestGraph(t *testing.T) {
	g, err := NewGraph(checked())
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ start, end, next, taken, fault uint64 }{
		{0x1000, 0x1011, 0x1011, 0x2000, 0},
		{0x1011, 0x1015, 0x1015, 0x101a, 0},
		{0x1015, 0x1017, 0x1017, 0x101a, 0},
		{0x1017, 0x1019, 0x1019, 0, 0x101c},
		{0x1019, 0x101a, 0x101a, 0, 0},
		{0x101a, 0x101b, 0, 0, 0},
		{0x101c, 0x1020, 0, 0x101a, 0},
		{0x2000, 0x200a, 0, 0x101a, 0},
	}
	if len(g.Blocks) != len(want) || g.Hidden {
		t.Fatalf("blocks %+v, hidden %v", g.Blocks, g.Hidden)
	}
	start := func(n int) uint64 {
		if n == None {
			return 0
		}
		return g.Blocks[n].Start
	}
	for i, b := range g.Blocks {
		if w := want[i]; b.Start != w.start || b.End != w.end || start(b.Next) != w.next || start(b.Taken) != w.taken || start(b.Fault) != w.fault || b.leaves != (w.start == 0x101a) {
			t.Errorf("block %d: %+v, want %x", i, b, w)
		}
	}
}

func TestSites(t *testing.T) {
	g, err := NewGraph(checked())
	if err != nil {
		t.Fatal(err)
	}
	sites := g.Sites(nil)
	var at []uint64
	for _, s := range sites {
		at = append(at, s.Addr)
	}
	if len(sites) != 4 || at[0] != 0x100b || at[1] != 0x1013 || at[2] != 0x1015 || at[3] != 0x101c || !sites[3].Start {
		t.Fatalf("sites at %x", at)
	}
	for i, want := range []struct {
		compare uint64
		texts   []string
	}{{0x1004, []string{"0x4(%rdi)"}}, {0x1011, []string{"%eax"}}, {0x1011, []string{"%eax"}}} {
		s := sites[i]
		var texts []string
		for _, o := range s.Operands {
			texts = append(texts, o.Text)
		}
		if s.Compare != want.compare || len(texts) != len(want.texts) || texts[0] != want.texts[0] {
			t.Errorf("%#x: compare at %#x of %q", s.Addr, s.Compare, texts)
		}
	}
	if o := sites[0].Operands[0]; !o.Memory || o.Base != 14 || o.Index != None || o.Disp != 4 || o.Size != 4 {
		t.Errorf("%+v", o)
	}
	// The jump at 0x100b takes no probe: the cold part, to which only it leads, tells.
	refused := g.Sites(func(addr uint64) bool { return addr == 0x100b })
	if len(refused) != 4 || !refused[0].Start || refused[0].Addr != 0x1011 && refused[0].Addr != 0x2000 {
		t.Errorf("%+v", refused)
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		code          []byte
		text, operand string
	}{
		{[]byte{0x43, 0x80, 0x3c, 0x04, 0}, "cmpb $0x0,(%r12,%r8)", "(%r12,%r8,1)"},
		{[]byte{0x41, 0x80, 0x3c, 0x24, 0}, "cmpb $0x0,(%r12)", "(%r12)"},
		{[]byte{0x83, 0x7f, 0x04, 0x04}, "cmpl $0x4,0x4(%rdi)", "0x4(%rdi)"},
		{[]byte{0x83, 0x7d, 0xf8, 0x04}, "cmpl $0x4,-0x8(%rbp)", "-0x8(%rbp)"},
		{[]byte{0x48, 0x85, 0xc0}, "test %rax,%rax", "%rax"},
		{[]byte{0x84, 0xe4}, "test %ah,%ah", "%ah"},
	} {
		f := Function{Arch: "amd64", Parts: []Part{{0x1000, append(tt.code, 0x74, 0, 0xc3)}}}
		in, err := decode("amd64", tt.code, 0x1000)
		if err != nil || len(in.operands) != 1 || in.operands[0].Text != tt.operand || f.Text(0x1000) != tt.text {
			t.Errorf("%q, %+v, %v; want %q and %q", f.Text(0x1000), in.operands, err, tt.text, tt.operand)
		}
	}
}

// TestIntact has moves between a compare and its jump that change what was compared.
func TestIntact(t *testing.T) {
	for _, tt := range []struct {
		text string
		move []byte
		left int
	}{
		{"mov %rsi, %rax", []byte{0x48, 0x89, 0xf0}, 1},
		{"mov %rsi, %rdi", []byte{0x48, 0x89, 0xf7}, 0}, // the address
		{"mov %edi, %edi", []byte{0x89, 0xff}, 0},
		{"mov %rsi, 8(%rax)", []byte{0x48, 0x89, 0x70, 8}, 0}, // perhaps the memory
		{"pop %rdi", []byte{0x5f}, 0},
	} {
		code := append([]byte{0x83, 0x7f, 0x04, 0x04}, tt.move...) // cmpl $4, 4(%rdi)
		code = append(code, 0x75, 0x01, 0x90, 0xc3)                // jne
		g, err := NewGraph(&Function{Arch: "amd64", Parts: []Part{{0x1000, code}}})
		if err != nil {
			t.Fatal(err)
		}
		s := g.Sites(nil)
		if len(s) != 1 || s[0].Compare != 0x1000 || len(s[0].Operands) != tt.left {
			t.Errorf("%s: %+v", tt.text, s)
		}
	}
}
