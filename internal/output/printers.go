// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
)

// Printers are the printers of types, each compiled on first use.
type Printers map[btf.Type]*btfprint.Printer

// Of returns the printer of a type.
func (p Printers) Of(t btf.Type) (*btfprint.Printer, error) {
	if known := p[t]; known != nil {
		return known, nil
	}
	made, err := btfprint.Compile(t, binary.LittleEndian)
	if err != nil {
		return nil, fmt.Errorf("printing a value: %w", err)
	}
	p[t] = made
	return made, nil
}
