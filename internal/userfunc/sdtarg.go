// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"slices"
	"strconv"
	"strings"
)

// An Arg says where an argument of a Mark is. The value is Disp plus Base plus Index times Scale, as
// far as these are set; in memory, it is at that address.
type Arg struct {
	Size   int // in bytes; negative for a signed number
	Memory bool
	// Base and Index are registers, as ptregs names them; "" for none. Shift is 8 for a register's
	// second byte, as in %ah.
	Base, Index string `json:",omitempty"`
	Shift       int    `json:",omitempty"`
	Scale       int64  `json:",omitempty"`
	Disp        int64  `json:",omitempty"`
	// Unknown says that the value is where ksnoop cannot read it, or not integer. Float says that it is
	// a floating-point number, wherever it is.
	Unknown bool `json:",omitempty"`
	Float   bool `json:",omitempty"`
}

// parseArgs decodes the arguments of a mark: "-4@%edi 8@-16(%rbp) 4@$7" as the assembler of amd64
// writes them, "-4@x0 8@[sp, 16] 4@7" as that of arm64 does.
func parseArgs(text, arch string) []Arg {
	var args []Arg
	for _, word := range splitArgs(text) {
		size, operand, ok := strings.Cut(word, "@")
		if of, float := strings.CutSuffix(size, "f"); ok && float && slices.Contains([]string{"4", "8", "16"}, of) {
			n, _ := strconv.Atoi(of)
			args = append(args, Arg{Size: n, Unknown: true, Float: true})
			continue
		}
		a := Arg{}
		n, err := strconv.Atoi(size)
		if ok && err == nil && strconv.Itoa(n) == size && slices.Contains([]int{1, 2, 4, 8}, max(n, -n)) {
			a.Size = n
			if arch == "arm64" {
				ok = a.arm64(operand)
			} else {
				ok = a.amd64(operand)
			}
		} else {
			ok = false
		}
		if !ok {
			a = Arg{Size: 8, Unknown: true}
		}
		args = append(args, a)
	}
	return args
}

// splitArgs splits at blanks that are not in brackets.
func splitArgs(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		}
		return r == ' ' && depth == 0
	})
}

// amd64 decodes an operand: %rax, $-5, 8(%rbp), (%rdi,%rsi,4), -0x10(%rsp).
func (a *Arg) amd64(text string) (ok bool) {
	if number, ok := strings.CutPrefix(text, "$"); ok {
		return a.constant(number)
	}
	if strings.HasPrefix(text, "%") {
		a.Base, a.Shift, ok = registerAMD64(text)
		return ok
	}
	disp, rest, ok := strings.Cut(text, "(")
	rest, closed := strings.CutSuffix(rest, ")")
	if !ok || !closed {
		return false
	}
	a.Memory = true
	if disp != "" && !a.constant(disp) {
		return false // a symbol, or a segment
	}
	parts := strings.Split(rest, ",")
	if len(parts) > 3 {
		return false
	}
	if base := strings.TrimSpace(parts[0]); base != "" {
		if a.Base, _, ok = registerAMD64(base); !ok || a.Base == "ip" {
			return false
		}
	}
	if len(parts) > 1 {
		a.Scale = 1
		if a.Index, _, ok = registerAMD64(strings.TrimSpace(parts[1])); !ok || a.Index == "ip" {
			return false
		}
	}
	if len(parts) > 2 {
		scale := strings.TrimSpace(parts[2])
		if !slices.Contains([]string{"1", "2", "4", "8"}, scale) {
			return false
		}
		a.Scale = int64(scale[0] - '0')
	}
	return true
}

// constant reads a number into Disp.
func (a *Arg) constant(text string) bool {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		u, err := strconv.ParseUint(text, 0, 64)
		a.Disp = int64(u)
		return err == nil
	}
	a.Disp = n
	return true
}

// registerAMD64 returns the whole register that a name is of, as ptregs calls it.
func registerAMD64(text string) (name string, shift int, ok bool) {
	text, ok = strings.CutPrefix(text, "%")
	if !ok {
		return "", 0, false
	}
	whole := []string{"ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip"}
	if bare := strings.TrimLeft(text, "re"); slices.Contains(whole, bare) && len(text)-len(bare) <= 1 {
		return bare, 0, true
	}
	if len(text) == 2 && strings.ContainsRune("abcd", rune(text[0])) && (text[1] == 'l' || text[1] == 'h') {
		if text[1] == 'h' {
			shift = 8
		}
		return text[:1] + "x", shift, true
	}
	if bare, ok := strings.CutSuffix(text, "l"); ok && slices.Contains([]string{"si", "di", "bp", "sp"}, bare) {
		return bare, 0, true
	}
	if strings.HasPrefix(text, "r") {
		bare := strings.TrimRight(text, "dwb")
		n, ok := registerNumber(bare[1:])
		return bare, 0, ok && n >= 8 && n <= 15 && len(text)-len(bare) <= 1
	}
	return "", 0, false
}

// arm64 decodes an operand: x0, w3, -5, [sp, 16], [x0, x1], [x2].
func (a *Arg) arm64(text string) (ok bool) {
	inner, memory := strings.CutPrefix(text, "[")
	if !memory {
		if a.Base, ok = registerARM64(text); ok {
			return true
		}
		return a.constant(strings.TrimPrefix(text, "#"))
	}
	inner, ok = strings.CutSuffix(inner, "]")
	parts := strings.Split(inner, ",")
	if !ok || len(parts) > 2 {
		return false
	}
	a.Memory = true
	if a.Base, ok = registerARM64(strings.TrimSpace(parts[0])); !ok || len(parts) == 1 {
		return ok
	}
	second := strings.TrimSpace(parts[1])
	if a.Index, ok = registerARM64(second); ok {
		a.Scale = 1
		return true
	}
	return a.constant(strings.TrimPrefix(second, "#"))
}

func registerARM64(text string) (string, bool) {
	if text == "sp" {
		return text, true
	}
	if len(text) < 2 || text[0] != 'x' && text[0] != 'w' {
		return "", false
	}
	n, ok := registerNumber(text[1:])
	return "x" + text[1:], ok && n <= 30
}

// registerNumber reads a number as assemblers write it: without a sign or zeros before it.
func registerNumber(text string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, 8)
	return n, err == nil && strconv.FormatUint(n, 10) == text
}
