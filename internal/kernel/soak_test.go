// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestSoak reads damaged types, of a kernel and of a module, and looks up what is in them.
func TestSoak(t *testing.T) {
	base := vmlinuxBTF(t)
	s := livetest.Soak{Name: "BTF files", Quick: 60, Full: 600, Memory: 1 << 28, Seeds: [][]byte{base, moduleBTF(t, base)}}
	s.Read = func(file []byte) error {
		var errs []error
		for _, under := range [][]byte{nil, base} {
			var from *bytes.Reader
			if under != nil {
				from = bytes.NewReader(under)
			}
			view, err := openTypes(file, from)
			if err == nil {
				err = lookAround(view)
			}
			errs = append(errs, err)
		}
		if slices.Contains(errs, nil) {
			return nil // read as what it is
		}
		return errors.Join(errs...)
	}
	s.Run(t)
}

// openTypes opens types that may be those of a module.
func openTypes(file []byte, base *bytes.Reader) (*View, error) {
	if base == nil {
		return OpenBTF(bytes.NewReader(file), nil, "")
	}
	return OpenBTF(bytes.NewReader(file), base, "mod")
}

// lookAround asks for all functions and for some types.
func lookAround(v *View) error {
	funcs, err := v.Match("*", "")
	for _, f := range funcs {
		if f.Type != nil {
			_ = f.String()
		}
	}
	_, err2 := v.Match("*", "*")
	_, err3 := v.TypesByName("struct sk_buff", "")
	_, err4 := v.Enumerators("GREEN", "")
	return errors.Join(err, err2, err3, err4)
}
