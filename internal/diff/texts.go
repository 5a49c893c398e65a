// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"strconv"
	"strings"
)

// texts makes texts of what was captured in one run, and knows what is left out.
type texts struct {
	names  *Names
	ignore *Ignore
	exact  bool // addresses are compared
	// ignored keeps the answers of ignore, by the name of a function and of a value.
	ignored map[[2]string]bool
	memory  int // of calls and values so far, in bytes
}

// What calls and values take, in bytes, besides their texts.
const (
	callMemory  = 256
	valueMemory = 56
)

// ignores reports whether a value is left out.
func (t *texts) ignores(fn, name string) bool {
	key := [2]string{fn, name}
	is, known := t.ignored[key]
	if !known {
		is = t.ignore.value(fn, name)
		t.ignored[key] = is
		t.memory += valueMemory + len(name)
	}
	return is
}

// flat returns the text of a value that is one: a scalar, an enum, or an array of numbers.
func (t *texts) flat(raw []byte) string {
	switch {
	case len(raw) == 0:
		return ""
	case raw[0] == '{':
		return enumerator(raw)
	case raw[0] != '[':
		return t.scalar(raw)
	}
	var all []string
	for v := range elements(raw) {
		all = append(all, t.scalar(v))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// address stands for all addresses, which no two runs have in common.
const address = "an address"

// scalar returns the text of a number, a string, a bool or null.
func (t *texts) scalar(raw []byte) string {
	switch {
	case string(raw) == "null":
		return "unreadable"
	case raw[0] == '"':
		return string(raw)
	case !t.exact && isAddress(raw):
		return address
	}
	return string(raw)
}

// isAddress reports whether a number is as large as addresses are: of the kernel, or of a process whose
// addresses are randomised.
func isAddress(raw []byte) bool {
	if len(raw) < 14 { // 2^44 has as many digits
		return false
	}
	if raw[0] == '-' {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		return err == nil && n >= -1<<56 && n < -1<<32
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	return err == nil && addressLike(n, false)
}

// Where addresses are.
const (
	firstProcess, lastProcess = 1 << 44, 1 << 48
	firstKernel, firstError   = 0xff << 56, 1<<64 - 4096 // with five levels of page tables, on amd64
)

// pointer returns the text of a pointer: the name of what is at an address, else that it is one.
func (t *texts) pointer(addr, raw []byte) string {
	at := text(addr)
	if at == "0x0" {
		return "NULL"
	}
	if name := member(raw, "name"); len(name) > 0 && string(name) != "null" {
		return text(name)
	}
	if t.exact {
		return at
	}
	return address
}

// addressOf returns the address of a pointer; nil: it is none, and a struct may have a member of this name, too.
func addressOf(raw []byte) []byte {
	if addr, ok := first(raw, "addr"); ok && bytes.HasPrefix(addr, []byte(`"0x`)) {
		return addr
	}
	return nil
}

// first returns the value of the first member, if it has this key.
func first(raw []byte, key string) ([]byte, bool) {
	for k, v := range members(raw) {
		return v, string(k) == key
	}
	return nil, false
}

// isEnum reports whether an object is an enum: a name, or none, and a number.
func isEnum(raw []byte) bool {
	i := 0
	for k, v := range members(raw) {
		switch {
		case i == 0 && string(k) == "name" && (v[0] == '"' || v[0] == 'n'), i == 1 && string(k) == "value" && v[0] != '{' && v[0] != '[':
		default:
			return false
		}
		i++
	}
	return i == 2
}

// enumerator returns the text of an enum.
func enumerator(raw []byte) string {
	name, _ := first(raw, "name")
	if string(name) == "null" {
		return string(member(raw, "value"))
	}
	return text(name)
}

// addressLike reports whether a number is as large as addresses are, as isAddress does of its text.
func addressLike(n uint64, signed bool) bool {
	if s := int64(n); signed && s < 0 {
		return s >= -1<<56 && s < -1<<32
	}
	return n >= firstProcess && n < lastProcess || n >= firstKernel && n < firstError
}
