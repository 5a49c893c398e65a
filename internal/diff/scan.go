// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
)

// members yields the members of a JSON object as jsonlines writes it: without blanks. Keys have
// their escapes. Anything else yields nothing.
func members(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if len(raw) == 0 || raw[0] != '{' {
			return
		}
		for rest := raw[1:]; len(rest) > 0 && rest[0] == '"'; {
			end := length(rest)
			if end+1 > len(rest) || end < 2 {
				return
			}
			key := rest[1 : end-1]
			rest = rest[end+1:] // the colon
			n := length(rest)
			if !yield(key, rest[:n]) {
				return
			}
			rest = behind(rest, n)
		}
	}
}

// elements yields the elements of a JSON array.
func elements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(raw) == 0 || raw[0] != '[' {
			return
		}
		for rest := raw[1:]; len(rest) > 0 && rest[0] != ']'; {
			n := length(rest)
			if n == 0 || !yield(rest[:n]) {
				return
			}
			rest = behind(rest, n)
		}
	}
}

// behind returns what follows n bytes and a comma.
func behind(b []byte, n int) []byte {
	if n < len(b) && b[n] == ',' {
		n++
	}
	return b[n:]
}

// member returns a member of an object; nil: there is none.
func member(raw []byte, key string) []byte {
	for k, v := range members(raw) {
		if string(k) == key {
			return v
		}
	}
	return nil
}

// length returns how many bytes the value at the begin of b has.
func length(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"':
		return stringLength(b)
	case '{', '[':
		depth := 0
		for i := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				i += stringLength(b[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(b)
	}
	if n := bytes.IndexAny(b, ",]}"); n >= 0 {
		return n
	}
	return len(b)
}

// stringLength returns how many bytes a string has, with its quotes.
func stringLength(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// text returns what a JSON string says, and of any other value its JSON.
func text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return string(raw)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

func number(raw []byte) uint64 {
	n, _ := strconv.ParseUint(string(raw), 10, 64) // 0 for what is none
	return n
}
