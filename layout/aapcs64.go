// SPDX-License-Identifier: Apache-2.0

package layout

import "github.com/cilium/ebpf/btf"

// homogeneous returns how many floating-point registers AAPCS64 passes a value in: one for a float,
// up to four for an aggregate of floats of one kind (HFA, AAPCS64 5.9.5). It is 0 for any other value.
func homogeneous(t btf.Type) int {
	if !bounded(t) {
		return 0
	}
	n, size := floatsIn(t)
	if whole, err := btf.Sizeof(t); err != nil || n < 1 || n > 4 || whole != n*int(size) {
		return 0 // the compiler has added padding, as for an attribute, and then it is none
	}
	return n
}

// floatsIn counts the floats in a value and returns their common size in bytes. The size is
// 0 if they differ or if the value contains anything else.
func floatsIn(t btf.Type) (n int, size uint32) {
	if f, ok := btf.UnderlyingType(t).(*btf.Float); ok {
		return 1, f.Size
	}
	list, _ := members(t)
	for _, m := range list {
		k, s := floatsIn(m.Type)
		if s == 0 || size != 0 && s != size {
			return 0, 0
		}
		switch u := btf.UnderlyingType(t).(type) {
		case *btf.Union:
			n = max(n, k)
		case *btf.Array:
			n = int(u.Nelems) * k
		default:
			n += k
		}
		size = s
	}
	return n, size
}
