// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/dw"
	"github.com/ksnoop/ksnoop/internal/elfhead"
	"github.com/ksnoop/ksnoop/internal/regular"
)

// Types are what debug info says of functions, as BTF.
type Types struct {
	Raw []byte // a blob that stands alone
	// Functions has, by address, the ID of a function in Raw.
	Functions map[uint64]uint32
	// Left is how many other functions debug info could not be read for, and Why the first reason.
	Left int
	Why  error
}

// mostDebugInfo bounds the sections of debug info that are read, in bytes, decompressed.
const mostDebugInfo = 512 << 20

// ErrNoTypes is why functions have no types where nothing is wrong.
var ErrNoTypes = errors.New("no types are known")

// Reasons for not knowing types.
var (
	errNoDebugInfo = fmt.Errorf("%w: the file has no debug info (gcc -g), and none is installed for it", ErrNoTypes)
	errNotC        = fmt.Errorf("%w: it is not written in C", ErrNoTypes)
	errNotDebugged = fmt.Errorf("%w: debug info does not describe it", ErrNoTypes)
	errSplit       = errors.New("its debug info is in files of its own (gcc -gsplit-dwarf), of which only lines and inlined functions are read")
	errCut         = errors.New("the compiler has removed parameters or the result, and debug info does not say which (DW_CC_nocall)")
	errLinesOnly   = fmt.Errorf("%w: debug info has only lines and names of functions (gcc -g1, clang -gline-tables-only)", ErrNoTypes)
)

// languages are those whose functions are called as C's are, by DW_AT_language. It is never changed.
var languages = map[int64]bool{0x1: true, 0x2: true, 0xc: true, 0x1d: true, 0x2c: true, 0x3e: true} // C89, C, C99, C11, C17, C23

// nocall is the DW_AT_calling_convention of a function that is not called as its type says (DW_CC_nocall). LLVM gives it to one whose
// parameters or result nobody needs.
const nocall = 0x03

// attrGNUDwoName is what names the file with the rest of a unit before DWARF 5.
const attrGNUDwoName = dwarf.Attr(0x2130)

// Types returns what debug info says of functions. It is an error if it describes none.
func (f *File) Types(fns []Function) (*Types, error) {
	data, err := f.debugInfo()
	if err != nil {
		return nil, err
	}
	types := dw.NewTypes(data)
	c := typeCollector{data: data, reader: data.Reader(), types: types, maker: typeMaker{arch: f.arch, types: types, made: map[dwarf.Type]btf.Type{}, named: map[structKey][]namedStruct{}, alikeTo: map[dwarf.Type]dwarf.Type{}}, units: map[dwarf.Offset]*unit{}}
	t := &Types{Functions: map[uint64]uint32{}}
	b, err := btf.NewBuilder(nil, nil)
	if err != nil {
		return nil, err
	}
	// SeekPC looks for the next address in the unit of the last one first.
	sorted := slices.SortedFunc(slices.Values(fns), func(a, b Function) int { return cmp.Compare(a.Addr, b.Addr) })
	for i := range sorted {
		made, why := c.function(&sorted[i])
		if c.maker.err != nil {
			return nil, c.maker.err
		}
		if why != nil {
			if err == nil || errors.Is(err, ErrNoTypes) { // what is wrong says more than what is not there
				err = why
			}
			if !errors.Is(why, ErrNoTypes) {
				t.Left, t.Why = t.Left+1, cmp.Or(t.Why, why)
			}
			continue
		}
		id, why := b.Add(made)
		if why != nil {
			return nil, why
		}
		t.Functions[sorted[i].Addr] = uint32(id)
	}
	if len(t.Functions) == 0 {
		return nil, cmp.Or(err, errNotDebugged)
	}
	for _, named := range c.namedTypes() {
		if _, err := b.Add(named); err != nil {
			return nil, err
		}
	}
	if t.Raw, err = b.Marshal(nil, nil); err != nil {
		return nil, fmt.Errorf("its types: %w", err)
	}
	return t, nil
}

// debugInfo reads the debug info of the file or, if it has none, the file that distributions install
// for its build ID.
func (f *File) debugInfo() (*dwarf.Data, error) {
	data, id, err := f.ownDebugInfo()
	if !errors.Is(err, errNoDebugInfo) || len(id) < 2 {
		return data, err
	}
	name := hex.EncodeToString(id)
	r, err := regular.Open("/usr/lib/debug/.build-id/" + name[:2] + "/" + name[2:] + ".debug")
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNoDebugInfo
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, _, err = debugInfoOf(r)
	return data, err
}

// ownDebugInfo reads the debug info of the file itself, and its build ID.
func (f *File) ownDebugInfo() (data *dwarf.Data, id []byte, err error) {
	r, err := f.Identity.Reopen(f.Path)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	return debugInfoOf(r)
}

func debugInfoOf(r io.ReaderAt) (data *dwarf.Data, id []byte, err error) {
	e, err := elfhead.Open(r)
	if err != nil {
		return nil, nil, err
	}
	defer e.Close()
	there := false
	for _, s := range e.Sections {
		there = there || (s.Name == ".debug_info" || s.Name == ".zdebug_info") && s.Type != elf.SHT_NOBITS
		if s.Name == ".note.gnu.build-id" && s.Size < 1<<10 {
			if note, err := s.Data(); err == nil && len(note) > 16 {
				id = note[16:]
			}
		}
	}
	if !there {
		return nil, id, errNoDebugInfo
	}
	data, err = elfhead.DWARF(e, mostDebugInfo)
	return data, id, err
}

// A typeCollector finds functions in debug info.
type typeCollector struct {
	data   *dwarf.Data
	reader *dwarf.Reader // of units
	types  *dw.Types
	maker  typeMaker
	units  map[dwarf.Offset]*unit // those that were read
	order  []dwarf.Offset         // of units
	ranges int                    // parts of functions that were read
}

// A unit is what is known of a unit of debug info.
type unit struct {
	functions  map[uint64]dwarf.Offset // by address
	begin, end dwarf.Offset            // the unit itself, and the last entry directly below it
	typed      bool                    // it has types, so what has none is void
}

// describes reports whether a function without a type, parameters and a prototype is known to have none.
// A definition without a prototype, as void f() {}, looks as all do in a unit that has only lines.
func (u *unit) describes(fn dwarf.Offset) bool { return u.typed && u.begin < fn && fn <= u.end }

// function returns a function with its parameters and what these lead to.
func (c *typeCollector) function(fn *Function) (*btf.Func, error) {
	if strings.Contains(fn.Name, ".") {
		return nil, errNotDebugged // a copy that the compiler made with other parameters
	}
	unit, err := c.reader.SeekPC(fn.Addr)
	switch {
	case errors.Is(err, dwarf.ErrUnknownPC):
		return nil, errNotDebugged
	case err != nil:
		c.reader = c.data.Reader() // units before a broken one can be read
		return nil, undecoded(err)
	}
	if unit.Val(dwarf.AttrDwoName) != nil || unit.Val(attrGNUDwoName) != nil {
		return nil, errSplit
	}
	if lang, _ := unit.Val(dwarf.AttrLanguage).(int64); !languages[lang] {
		return nil, errNotC
	}
	inUnit, err := c.unit(unit)
	if err != nil {
		return nil, err
	}
	off, ok := inUnit.functions[fn.Addr]
	if !ok {
		return nil, errNotDebugged
	}
	return c.signature(off, fn.Name, inUnit)
}

// unit returns what is known of the unit at an entry.
func (c *typeCollector) unit(at *dwarf.Entry) (*unit, error) {
	if known, ok := c.units[at.Offset]; ok {
		return known, nil
	}
	found := &unit{functions: map[uint64]dwarf.Offset{}, begin: at.Offset}
	for e, err := range c.children(at.Offset) {
		if err != nil {
			return nil, err
		}
		found.end = e.Offset
		found.typed = found.typed || typed(e)
		if e.Tag != dwarf.TagSubprogram {
			continue
		}
		if begin, ok := c.begins(e); ok {
			found.functions[begin] = e.Offset
		}
	}
	c.units[at.Offset] = found
	c.order = append(c.order, at.Offset)
	return found, nil
}

// typed reports whether an entry has what is left out where debug info has only lines.
func typed(e *dwarf.Entry) bool {
	return e.Val(dwarf.AttrType) != nil || e.Val(dwarf.AttrPrototyped) != nil
}

// mostRanges is how many parts of functions are read of one file. Many functions can name one long list.
const mostRanges = 1 << 22

// begins returns the address at which a function begins. A compiler may divide one into a part that runs often and
// one that hardly ever does; the first that debug info names has its beginning, unless that is said apart.
func (c *typeCollector) begins(fn *dwarf.Entry) (uint64, bool) {
	if at, ok := fn.Val(dwarf.AttrEntrypc).(uint64); ok {
		return at, true
	}
	off, _ := fn.Val(dwarf.AttrEntrypc).(int64) // DWARF 5 also counts from the first address
	if at, ok := fn.Val(dwarf.AttrLowpc).(uint64); ok {
		return at + uint64(off), true
	}
	if fn.Val(dwarf.AttrRanges) == nil || c.ranges > mostRanges {
		return 0, false
	}
	parts, err := c.data.Ranges(fn)
	if c.ranges += len(parts); err != nil || len(parts) == 0 {
		return 0, false
	}
	return parts[0][0] + uint64(off), true
}

// undecoded says what it is that cannot be decoded: debug/dwarf does not always.
func undecoded(err error) error { return fmt.Errorf("its debug info: %w", err) }

// mostNested is how many entries are within each other below the one whose children are read.
const mostNested = 1000

var errNested = fmt.Errorf("its debug info has more than %d entries within each other", mostNested)

// children yields the entries below one. It passes over those below them by itself, as [dwarf.Reader.SkipChildren] recurses
// without bound.
func (c *typeCollector) children(of dwarf.Offset) func(yield func(*dwarf.Entry, error) bool) {
	return func(yield func(*dwarf.Entry, error) bool) {
		r := c.data.Reader()
		r.Seek(of)
		parent, err := r.Next()
		if err != nil {
			yield(nil, undecoded(err))
			return
		}
		if parent == nil || !parent.Children {
			return
		}
		for depth := 0; ; {
			e, err := r.Next()
			if err != nil {
				err = undecoded(err)
			}
			if depth > mostNested {
				err = errNested
			}
			if err != nil {
				yield(nil, err)
				return
			}
			switch {
			case e == nil || depth == 0 && (e.Tag == 0 || !yield(e, nil)):
				return
			case e.Tag == 0:
				depth--
			case e.Children && !seekSibling(r, e):
				depth++
			}
		}
	}
}

// seekSibling passes over what is below an entry if that says where it ends, which must be further on: a walk must end.
func seekSibling(r *dwarf.Reader, e *dwarf.Entry) bool {
	next, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset)
	if ok = ok && next > e.Offset; ok {
		r.Seek(next)
	}
	return ok
}

// signature returns the function at an entry of a unit, or at the one that it is an instance of, which may be in another unit (LTO).
func (c *typeCollector) signature(off dwarf.Offset, name string, in *unit) (*btf.Func, error) {
	const most = 4 // an instance, the function, its declaration
	for range most {
		r := c.data.Reader()
		r.Seek(off)
		e, err := r.Next()
		if err != nil {
			return nil, undecoded(err)
		}
		if e == nil {
			return nil, errNotDebugged
		}
		if err := dw.Shared(e); err != nil {
			return nil, err
		}
		if how, _ := e.Val(dwarf.AttrCalling).(int64); how == nocall {
			return nil, errCut
		}
		origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			origin, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset)
		}
		if ok {
			off = origin
			continue
		}
		result, err := c.returned(e)
		if err != nil {
			return nil, err
		}
		proto := &btf.FuncProto{Return: result}
		for p, err := range c.children(off) {
			if err != nil {
				return nil, err
			}
			switch p.Tag {
			case dwarf.TagFormalParameter:
				if err := dw.Shared(p); err != nil {
					return nil, err
				}
				param, _ := p.Val(dwarf.AttrName).(string)
				t, err := c.passed(p)
				if err != nil {
					return nil, err
				}
				if void(t) {
					t = &btf.Pointer{Target: t} // debug info of a word lacks its type
				}
				proto.Params = append(proto.Params, btf.FuncParam{Name: identifier(param), Type: t})
			case dwarf.TagUnspecifiedParameters:
				proto.Params = append(proto.Params, btf.FuncParam{Type: &btf.Void{}})
			}
		}
		if len(proto.Params) == 0 && !typed(e) && !in.describes(off) {
			return nil, errLinesOnly
		}
		return &btf.Func{Name: identifier(name), Type: proto, Linkage: btf.GlobalFunc}, nil
	}
	return nil, errNotDebugged
}

// typeOf returns the type that an entry refers to, void if it refers to none or to one that C does not have.
func (c *typeCollector) typeOf(e *dwarf.Entry) (btf.Type, error) {
	off, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return &btf.Void{}, nil
	}
	t, err := c.types.Type(off)
	if errors.Is(err, dw.ErrTypes) {
		return nil, err
	}
	if err != nil {
		return &btf.Void{}, nil
	}
	return c.maker.of(t), nil
}

// mostNamed is how many types are known by name besides those that functions lead to.
const mostNamed = 10_000

// namedTypes returns the types that the units of the functions define, for casts.
func (c *typeCollector) namedTypes() (types []btf.Type) {
	for _, unit := range c.order {
		for e, err := range c.children(unit) {
			if err != nil || len(types) == mostNamed {
				return types
			}
			switch e.Tag {
			case dwarf.TagStructType, dwarf.TagUnionType, dwarf.TagEnumerationType, dwarf.TagTypedef:
			default:
				continue
			}
			if name, _ := e.Val(dwarf.AttrName).(string); identifier(name) == "" || e.Val(dwarf.AttrDeclaration) != nil {
				continue
			}
			t, err := c.types.Type(e.Offset)
			if err != nil {
				continue
			}
			before := c.maker.err
			if made := c.maker.of(t); c.maker.err == nil && !void(made) {
				types = append(types, made)
			}
			if c.maker.err = before; c.maker.full() {
				return types
			}
		}
	}
	return types
}
