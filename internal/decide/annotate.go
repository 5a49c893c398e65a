// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"bufio"
	"io/fs"
	"path"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// A Source is debug info. *symbols.Resolver implements it.
type Source interface {
	Frames(dst []symbols.Frame, addr uint64, returnAddress bool) []symbols.Frame
	Variables(addr uint64) []debuginfo.Variable
}

var _ Source = (*symbols.Resolver)(nil)

// An Annotator notes what debug info says of the instructions that decide, so that a recording
// says the same as a live trace.
type Annotator struct {
	Source Source
	// Types returns the types with a spelling, as kernel.View does.
	Types func(spelling, module string) ([]btf.Type, error)
	// Tree has the kernel's sources; nil if they are not at hand.
	Tree fs.FS

	frames []symbols.Frame
	files  map[string][]string // lines
}

// Annotate returns the plan with notes.
func (a *Annotator) Annotate(p *plan.Plan) *plan.Plan {
	out, err := p.WithWays(func(probe *plan.Probe) (*plan.Way, error) {
		if probe.Way == nil {
			return nil, nil
		}
		return probe.Way.Annotated(a.notes(probe)), nil
	})
	if err != nil {
		return p // Annotated returns no error
	}
	return out
}

func (a *Annotator) notes(p *plan.Probe) (notes []plan.Note) {
	for i := range p.Way.Sites() {
		s := &p.Way.Sites()[i]
		if s.Start {
			continue
		}
		n, ok := a.note(s.Addr)
		if !ok {
			return nil // there is no debug info of this function
		}
		if len(s.Operands) > 0 {
			a.name(&n, s, p)
		}
		notes = append(notes, n)
	}
	for addr := range p.Way.Code.Choices(p.Way.Graph()) {
		if n, ok := a.note(addr); ok {
			notes = append(notes, n)
		}
	}
	return notes
}

// note returns where an instruction is.
func (a *Annotator) note(addr uint64) (n plan.Note, ok bool) {
	n.Addr = addr
	a.frames = a.Source.Frames(a.frames[:0], addr, false)
	for i := range a.frames {
		f := &a.frames[i]
		if f.File == "" {
			continue
		}
		l := plan.Line{Place: string(f.AppendSource(nil))}
		if f.Inlined {
			l.Inlined = f.Name
		}
		n.Lines = append(n.Lines, l)
	}
	if len(n.Lines) > 0 {
		n.Text = a.text(&a.frames[0])
	}
	return n, len(n.Lines) > 0
}

// name names the operands of a site by the variables that are there.
func (a *Annotator) name(n *plan.Note, s *code.Site, p *plan.Probe) {
	if s.Compare == 0 || s.Compare != s.Addr && p.Way.Code.Computes(s.Compare) {
		return // the registers are not yet what is compared
	}
	variables := a.Source.Variables(s.Compare)
	names := make([]plan.Name, len(s.Operands))
	known := false
	for i := range s.Operands {
		names[i] = a.operand(&s.Operands[i], variables, p, n.Text)
		known = known || names[i].Text != ""
	}
	if known {
		n.Names = names
	}
}

// operand names an operand by the innermost variable that it is, or one that the source has in this
// line.
func (a *Annotator) operand(o *code.Operand, variables []debuginfo.Variable, p *plan.Probe, line string) (name plan.Name) {
	for i := range variables {
		v := &variables[i]
		found := a.variable(v, o, p, line)
		switch {
		case found.Text == "":
		case line != "" && mentions(line, v.Name):
			return found
		case name.Text == "":
			name = found
		}
	}
	return name
}

// variable names an operand that a variable is, or what it points to.
func (a *Annotator) variable(v *debuginfo.Variable, o *code.Operand, p *plan.Probe, line string) (name plan.Name) {
	ops := v.Place.Ops
	// A macro's own variables are not in the source's words.
	if strings.HasPrefix(v.Name, "__") || len(ops) == 0 || ops[0].Code != debuginfo.OpRegister || o.Index != code.None || o.Shift != 0 {
		return name
	}
	word, ok := ptregs.DWARF(p.Way.Code.Arch, ops[0].N)
	if !ok || word != o.Base {
		return name
	}
	disp := int64(0)
	switch {
	case len(ops) == 3 && ops[1].Code == debuginfo.OpConst && ops[2].Code == debuginfo.OpAdd:
		disp = int64(ops[1].N)
	case len(ops) != 1:
		return name
	}
	itself := plan.Name{Text: v.Name, Class: code.Class{Size: int(v.Type.Size), Signed: v.Type.Signed, Pointer: strings.HasSuffix(v.Type.Name, "*")}}
	size := int64(v.Type.Size)
	switch {
	case !o.Memory && !v.Place.Memory && disp == 0 && size <= 8 && o.Size <= max(int(size), 4):
		return itself
	case o.Memory && !v.Place.Memory:
		return member(v.Name, "->", pointedTo(a.typeNamed(v.Type.Name, p.Func.Module)), o.Disp-disp, o.Size, line)
	case o.Memory && o.Disp == disp && o.Size == int(size):
		return itself
	case o.Memory && o.Disp >= disp && o.Disp+int64(o.Size) <= disp+size:
		return member(v.Name, ".", aggregate(a.typeNamed(v.Type.Name, p.Func.Module)), o.Disp-disp, o.Size, line)
	}
	return name
}

// typeNamed finds a type by how debug info spells it; nil if it is not known.
func (a *Annotator) typeNamed(spelling, module string) btf.Type {
	base, pointer := strings.CutSuffix(strings.TrimPrefix(spelling, "const "), " *")
	found, err := a.Types(base, module)
	if err != nil || len(found) != 1 {
		return nil
	}
	if pointer {
		return &btf.Pointer{Target: found[0]}
	}
	return found[0]
}

// longestLine bounds a line of a source file, and mostLines how many are read.
const (
	longestLine = 1 << 12
	mostLines   = 1 << 17
)

// text returns the source's text of a frame, without the space around it; "" if it is not at hand.
func (a *Annotator) text(f *symbols.Frame) string {
	if a.Tree == nil || f.Line <= 0 || !fs.ValidPath(path.Clean(f.File)) {
		return ""
	}
	lines, ok := a.files[f.File]
	if !ok {
		lines = readLines(a.Tree, path.Clean(f.File))
		if a.files == nil {
			a.files = map[string][]string{}
		}
		a.files[f.File] = lines
	}
	if f.Line > len(lines) {
		return ""
	}
	return lines[f.Line-1]
}

// readLines returns the lines of a file; none if it cannot be read.
func readLines(tree fs.FS, name string) (lines []string) {
	file, err := tree.Open(name)
	if err != nil {
		return nil
	}
	defer file.Close()
	scan := bufio.NewScanner(file)
	for len(lines) < mostLines && scan.Scan() {
		text := strings.TrimSpace(scan.Text())
		lines = append(lines, text[:min(len(text), longestLine)])
	}
	return lines
}
