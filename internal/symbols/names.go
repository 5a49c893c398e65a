// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bufio"
	"io/fs"
	"path"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
)

// A variabler tells which variables there are at an address. *DebugInfo implements it.
type variabler interface {
	Variables(addr uint64, module string) []debuginfo.Variable
}

var _ variabler = (*DebugInfo)(nil)

// Variables implements variabler.
func (d *DebugInfo) Variables(addr uint64, module string) []debuginfo.Variable {
	info := d.of(module)
	if info == nil {
		return nil
	}
	return info.Variables(addr)
}

// WithTree sets where source files are read from.
func (r *Resolver) WithTree(tree fs.FS) { r.tree = tree }

// Function returns the function that begins at an address.
func (r *Resolver) Function(addr uint64) (name string, ok bool) {
	s, ok := r.symbol(addr)
	return s.Name, ok && s.Offset == 0
}

// Returns returns the type of what a function returns; nil if it is not known or ambiguous.
func (r *Resolver) Returns(function string) btf.Type {
	found, err := r.kernel.Match(function, "")
	if err != nil || len(found) != 1 || found[0].Type == nil {
		return nil
	}
	proto, ok := found[0].Type.Type.(*btf.FuncProto)
	if !ok {
		return nil
	}
	return proto.Return
}

// Types returns the types with a spelling; none if that fails.
func (r *Resolver) Types(spelling, module string) []btf.Type {
	found, err := r.kernel.TypesByName(spelling, module)
	if err != nil {
		return nil
	}
	return found
}

// Variables returns the variables at an address; none without debug info.
func (r *Resolver) Variables(addr uint64) []debuginfo.Variable {
	v, ok := r.source.(variabler)
	s, known := r.symbol(addr)
	if !ok || !known || r.level == LevelNone {
		return nil
	}
	return v.Variables(addr, s.Module)
}

// longestLine bounds a line of a source file.
const longestLine = 1 << 12

// Line returns the source's text at an address, without the space around it; "" without a tree,
// or if that does not have it.
func (r *Resolver) Line(addr uint64) string {
	if r.tree == nil {
		return ""
	}
	at := r.Frames(nil, addr, false)[0]
	if at.File == "" || at.Line <= 0 || !fs.ValidPath(path.Clean(at.File)) {
		return ""
	}
	f, err := r.tree.Open(path.Clean(at.File))
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if text := strings.TrimSpace(lines.Text()); n == at.Line && len(text) <= longestLine {
			return text
		}
	}
	return ""
}
