// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"sort"

	"github.com/ksnoop/ksnoop/internal/errno"
)

//go:generate go run ../internal/genconst

// A namedConst is a constant that C programs know by name.
type namedConst struct {
	name  string
	value int64
}

// constantTables are what the kernel's UAPI headers define, each sorted by name.
var constantTables = [...][]namedConst{uapiConsts, uapiArchConsts}

// constant finds NULL, true, false, an errno name or a UAPI constant.
func constant(name string) (operand, bool) {
	switch name {
	case "NULL":
		t := pointerTo(typeVoid)
		return value(t, &Const{t, 0}), true
	case "true":
		return value(typeInt, &Const{typeInt, 1}), true
	case "false":
		return value(typeInt, &Const{typeInt, 0}), true
	}
	if n, ok := errno.Number(name); ok {
		return value(typeInt, &Const{typeInt, uint64(n)}), true
	}
	for _, table := range constantTables {
		i := sort.Search(len(table), func(i int) bool { return table[i].name >= name })
		if i < len(table) && table[i].name == name {
			return integer(table[i].value), true
		}
	}
	return operand{}, false
}

// integer gives v the type that it has in a header.
func integer(v int64) operand {
	t := typeInt
	switch {
	case v == int64(uint32(v)) && v > math.MaxInt32:
		t = typeUint // the headers write these in hexadecimal
	case v != int64(int32(v)):
		t = typeLong
	}
	return value(t, &Const{t, uint64(v)})
}

// constantNames lists the names that a mistyped one may have meant.
func constantNames() []string {
	names := append([]string{"NULL", "true", "false"}, errno.All()...)
	for _, table := range constantTables {
		for _, k := range table {
			names = append(names, k.name)
		}
	}
	return names
}
