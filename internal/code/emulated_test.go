// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/hex"
	"testing"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMisemulated: calls with a prefix are those that the kernel returns from to a wrong place.
func TestMisemulated(t *testing.T) {
	for text, want := range map[string]bool{
		"e8f0d18900":     false, // call
		"2ee8f0d18900":   true,  // cs call, of the thunk of r13
		"66e8f0d18900":   true,
		"ffd0":           false, // call *%rax
		"41ffd3":         false, // call *%r11
		"0f1f440000":     false, // nopl 0x0(%rax,%rax,1)
		"2e0f1f84000000": false, // cs nopw
		"4889de":         false, // mov %rbx,%rsi
		"2e":             false,
		"":               false,
	} {
		if got := Misemulated(unhex(t, text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestCallProbes: where the kernel would go wrong behind the call, the instruction before it is
// probed, if what it sets is known.
func TestCallProbes(t *testing.T) {
	const at = 0x1000
	for _, tt := range []struct {
		name, text string
		probe      uint64
		sets       string
	}{
		{"call", "4889de" + "e8f0d18900", at + 3, ""},
		{"cs call behind mov %rbx,%rsi", "4889de" + "2ee8f0d18900", at, "$si"},
		{"cs call behind mov %r9,%r13", "4d89cd" + "2ee8f0d18900", at, "$r13"},
		{"cs call behind cmp $0,%eax", "83f800" + "2ee8f0d18900", at, "$ax"},
		{"cs call behind mov %rax,(%rbx)", "488903" + "2ee8f0d18900", at, ""},
		{"cs call behind a jump", "7402" + "2ee8f0d18900", 0, ""},
		{"cs call behind push %rbx", "53" + "2ee8f0d18900", 0, ""},
		{"cs call at the start", "2ee8f0d18900", 0, ""},
		{"call *%rax", "4889de" + "ffd0", at, "$si"},
		{"jmp *%rax", "4889de" + "ffe0", at + 3, ""},
	} {
		calls := Calls("amd64", unhex(t, tt.text), at)
		c := calls[len(calls)-1]
		if c.Probe != tt.probe || c.Sets != tt.sets {
			t.Errorf("%s: probed at %#x, sets %q; want %#x, %q", tt.name, c.Probe, c.Sets, tt.probe, tt.sets)
		}
	}
}
