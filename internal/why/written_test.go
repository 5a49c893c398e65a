// SPDX-License-Identifier: Apache-2.0

package why

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// A writer is a process that has made a system call, of which the SPECs read what it writes. Its memory
// ends where what it has put there ends.
type writer struct {
	stopped
	types    *x86Types
	t        *testing.T
	narrow   bool // it is a 32-bit program
	memory   []byte
	captures []expr.Capture
}

const userAddr = 0x40000000

func newWriter(t *testing.T, narrow bool) *writer {
	w := &writer{types: newX86Types(), t: t, narrow: narrow}
	if narrow {
		w.status = 2
	}
	return w
}

// put puts bytes into memory, and returns where they are.
func (w *writer) put(b []byte) uint64 {
	w.memory = append(w.memory, b...)
	return userAddr + uint64(len(w.memory)-len(b))
}

func (w *writer) Read(space expr.Space, at expr.Phase, addr uint64, p []byte) bool {
	if space == expr.Kernel {
		return w.stopped.Read(space, at, addr, p)
	}
	if end := uint64(userAddr + len(w.memory)); addr < userAddr || addr > end || end-addr < uint64(len(p)) {
		return false
	}
	copy(p, w.memory[addr-userAddr:])
	return true
}

// make makes the call that a function serves. It returns what the process has written to standard error, by the SPECs.
func (w *writer) make(function string, second, third uint64) (text string) {
	w.t.Helper()
	w.regs = map[string]uint64{"di": 2, "si": second, "dx": third}
	if w.narrow { // only the lower halves count
		const upper = 0xdead << 32
		w.regs = map[string]uint64{"bx": 2, "cx": second | upper, "dx": third | upper}
	}
	w.ret = third
	a := abis["amd64"]
	found := 0
	for _, writing := range []*writing{newWriting(&a, false), newWriting(&a, true)} {
		for _, spec := range writing.specs() {
			if name, _, _ := strings.Cut(spec, "("); name != function || !w.check(spec) {
				continue
			}
			found++
			var ok bool
			if text, ok = writing.text(w); !ok {
				w.t.Errorf("no text is known of %s", spec)
			}
		}
	}
	if found != 1 {
		w.t.Errorf("%d SPECs are about the call, not 1", found)
	}
	return text
}

// check reports whether a SPEC is about the call that the process has made.
func (w *writer) check(text string) bool {
	w.t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		w.t.Fatal(err)
	}
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	scope := &expr.Scope{Func: spec.Selector.Name, Params: []expr.Param{{Name: "regs", Type: &btf.Pointer{Target: w.types.regs}}}, Return: long, Types: w.types}
	if scope.Func == "sys_exit" {
		scope.Params, scope.Return, scope.Point = append(scope.Params, expr.Param{Name: "ret", Type: long}), nil, true
	}
	items, err := expr.Check(spec, scope)
	if err != nil {
		w.t.Fatal(err)
	}
	w.captures = nil
	for _, item := range items {
		w.captures = append(w.captures, item.Captures...)
		if item.Predicate != nil {
			if v, err := expr.Eval(item.Predicate, w); err != nil || v == 0 {
				return false
			}
		}
	}
	return true
}

func (w *writer) has(label string) bool {
	return slices.ContainsFunc(w.captures, func(c expr.Capture) bool { return c.Label == label })
}

func (w *writer) capture(label string) *expr.Capture {
	i := slices.IndexFunc(w.captures, func(c expr.Capture) bool { return c.Label == label })
	if i < 0 {
		w.t.Fatalf("no item %q", label)
	}
	return &w.captures[i]
}

func (w *writer) number(label string) uint64 {
	v, _ := expr.Eval(w.capture(label).Value, w)
	return v
}

func (w *writer) text(label string) *string {
	switch t := w.capture(label).Target.(type) {
	case *expr.Text: // up to its NUL
		addr, err := expr.Eval(t.Addr, w)
		text := ""
		for b := []byte{0}; ; text += string(b) {
			switch {
			case err != nil || !w.Read(t.Space, t.At, addr+uint64(len(text)), b):
				return nil
			case b[0] == 0 || len(text) == expr.MaxText-1:
				return &text
			}
		}
	case *expr.Buffer:
		addr, err := expr.Eval(t.Addr, w)
		n, err2 := expr.Eval(t.N, w)
		b := make([]byte, n)
		if err != nil || err2 != nil || !w.Read(t.Space, t.At, addr, b) {
			return nil
		}
		text := string(b)
		return &text
	}
	w.t.Fatalf("%s is no text", label)
	return nil
}

// TestWritten: of what a process writes to standard error the beginning and the end are read, and of writev
// the first and the last pieces.
func TestWritten(t *testing.T) {
	numbered := func(n int) (text string) {
		for i := 0; len(text) < n; i++ {
			text += string(rune('a'+i%26)) + strings.Repeat("-", i%7)
		}
		return text[:n]
	}
	for _, narrow := range []bool{false, true} {
		write := "__x64_sys_write"
		if narrow {
			write = "__ia32_sys_write"
		}
		for _, n := range []int{1, 17, 254, 255, 256, 257, 300, 511, 512, 513, 1000, 1023, 1024, 1279, 1280, 5000} {
			text := numbered(n)
			want := text
			if n > 255+endPart*endParts {
				want = text[:255] + gap + text[n-endPart*endParts:]
			}
			w := newWriter(t, narrow)
			at := w.put([]byte(text))
			w.put([]byte("which is not written\x00"))
			if got := w.make(write, at, uint64(n)); got != want {
				t.Errorf("%d bytes: %q, want %q", n, got, want)
			}
			last := newWriter(t, narrow)
			last.put(make([]byte, 300))
			at = last.put([]byte(text))
			if got := last.make(write, at, uint64(n)); got != want {
				t.Errorf("%d bytes at the end of memory: %q, want %q", n, got, want)
			}
			if got, want := newWriter(t, narrow).vector("tool: ", text, "\n"), "tool: "+want+"\n"; n <= 255+endPart && got != want {
				t.Errorf("a piece of %d bytes: %q, want %q", n, got, want)
			}
		}
		for n := 2; n < 12; n++ { // the first one is empty, as musl's
			var pieces []string
			for i := range n {
				pieces = append(pieces, strings.Repeat(string(rune('a'+i)), i))
			}
			want := strings.Join(pieces, "")
			if n > 8 {
				want = strings.Join(pieces[:4], "") + gap + strings.Join(pieces[n-4:], "")
			}
			if got := newWriter(t, narrow).vector(pieces...); got != want {
				t.Errorf("%d pieces: %q, want %q", n, got, want)
			}
		}
		if got := newWriter(t, narrow).make(write, 0x99, 300); got != "" {
			t.Errorf("of memory that cannot be read: %q", got)
		}
	}
}

// vector makes a call of writev.
func (w *writer) vector(pieces ...string) string {
	w.t.Helper()
	var vector []byte
	for _, p := range pieces {
		at, size := w.put([]byte(p)), len(p)
		w.put([]byte{0})
		if w.narrow {
			vector = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(vector, uint32(at)), uint32(size))
		} else {
			vector = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(vector, at), uint64(size))
		}
	}
	function := "__x64_sys_writev"
	if w.narrow {
		function = "__ia32_sys_writev"
	}
	return w.make(function, w.put(vector), uint64(len(pieces)))
}

// TestNotWritten: a call that fails is no text, though its arguments are read in the same way.
func TestNotWritten(t *testing.T) {
	a := abis["amd64"]
	failing, _ := a.failing(0)
	w := newWriter(t, false)
	w.ret, w.regs, w.memory = ^uint64(0), map[string]uint64{"orig_ax": 1, "di": 2, "si": userAddr, "dx": 3}, []byte("text")
	if !w.check(failing) || !w.has("ustr((char *)regs->si)") {
		t.Error("it is not read")
	}
	if text, ok := newWriting(&a, false).text(w); ok {
		t.Errorf("%q", text)
	}
}

// TestAddMessage: a line that comes in parts is one message, whatever other processes write meanwhile.
func TestAddMessage(t *testing.T) {
	s := &Seen{}
	for i, m := range []Message{{PID: 1, Text: "mount: "}, {PID: 2, Text: "well\n"}, {PID: 1, Text: "I"}, {PID: 1, Text: "nvalid"}, {PID: 3, Text: "50 %\r"}, {PID: 1, Text: " argument"}, {PID: 1, Text: "\n"}, {PID: 1, Text: "usage\n"}} {
		m.Time = uint64(i + 1)
		s.addMessage(m)
	}
	want := []Message{{2, 2, "well\n"}, {5, 3, "50 %\r"}, {7, 1, "mount: Invalid argument\n"}, {8, 1, "usage\n"}}
	if !slices.Equal(s.Messages, want) {
		t.Errorf("%+v, want %+v", s.Messages, want)
	}
}
