// SPDX-License-Identifier: Apache-2.0

package btfprint

import "github.com/cilium/ebpf/btf"

// skipQualifiers returns the type below const, volatile, restrict and tags.
func skipQualifiers(t btf.Type) btf.Type {
	for range maxDeclDepth {
		switch q := t.(type) {
		case *btf.Const:
			t = q.Type
		case *btf.Volatile:
			t = q.Type
		case *btf.Restrict:
			t = q.Type
		case *btf.TypeTag:
			t = q.Type
		default:
			return t
		}
	}
	return (*btf.Void)(nil)
}

func hasQualifier(t btf.Type, word string) bool {
	for range maxDeclDepth {
		switch q := t.(type) {
		case *btf.Const:
			if word == "const" {
				return true
			}
			t = q.Type
		case *btf.Volatile:
			if word == "volatile" {
				return true
			}
			t = q.Type
		case *btf.Restrict:
			if word == "restrict" {
				return true
			}
			t = q.Type
		case *btf.TypeTag:
			t = q.Type
		default:
			return false
		}
	}
	return false
}

func isVoid(t btf.Type) bool {
	_, ok := skipQualifiers(t).(*btf.Void)
	return ok || t == nil
}
