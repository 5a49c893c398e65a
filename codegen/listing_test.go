// SPDX-License-Identifier: Apache-2.0

package codegen_test

import (
	"fmt"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
)

// appendListing appends a function. Instructions have no numbers, so that one more does not change all lines. The text
// that an instruction stands for is above it.
func appendListing(dst []byte, t *testing.T, f bpf.Subprogram) []byte {
	t.Helper()
	dst = fmt.Appendf(dst, "%s, %d instructions:\n", f.Name, len(f.Insns))
	source := ""
	for _, ins := range f.Insns {
		if label := ins.Symbol(); label != "" && label != f.Name {
			dst = fmt.Appendf(dst, "%s:\n", label)
		}
		if s := ins.Source(); s != nil && s.String() != source {
			source = s.String()
			dst = fmt.Appendf(dst, "  ; %s\n", source)
		}
		line, ok := codegen.FormatInstruction(ins)
		if !ok {
			t.Errorf("%s: %v cannot be listed", f.Name, ins)
		}
		dst = fmt.Appendf(dst, "  (%02x) %s\n", uint8(ins.OpCode), line)
	}
	return dst
}
