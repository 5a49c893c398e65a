// SPDX-License-Identifier: Apache-2.0

package expr

// A Span is a range of bytes [Start, End) of a SPEC's text.
type Span struct{ Start, End int }

// A Spec is one request: a selector of functions and the items wanted of each
// call. Selector "(" Item "," … ")"
type Spec struct {
	Text     string
	Selector Selector
	Parens   bool // "f()" differs from "f": no values instead of all
	Items    []Expr
}

// A Selector says what to trace. A function is selected by glob, glob[module-glob] or
// :path-glob. Anything else has its Kind and a colon in front.
type Selector struct {
	Kind   Kind
	Name   string // glob over names; empty with Path
	Module string // glob over module names; empty means any module, and vmlinux. With Program: glob over programs, or an ID
	Path   string // glob over source files; empty with Name
	File   string // with UserFunction and StaticProbe: path of the program or library, or its name alone
	System string // with Tracepoint: glob over tracepoint groups, such as "sched"; with StaticProbe: over providers
	Offset uint64 // with Instruction and UserFunction: bytes from the start of the function
	Return bool   // with UserFunction: uretprobe:, all is read and decided when the function returns
	// Signature lists types that a function must take or return, as written in (:struct
	// sk_buff *, return int). Nil means any.
	Signature []Wanted
	Span      Span
}

// A Wanted is one entry of a Signature: a parameter type, or the result type if Return is
// set.
type Wanted struct {
	Return bool
	Type   TypeName
}

// A Kind says what sort of thing a Selector selects.
type Kind uint8

const (
	Function      Kind = iota // vfs_read
	Syscall                   // syscall:openat
	Tracepoint                // tp:sched:sched_switch
	RawTracepoint             // rawtp:sched_switch
	Instruction               // kprobe:vfs_read+0x1a
	Program                   // bpf:xdp_main, a function of a loaded BPF program
	UserFunction              // uprobe:/bin/sh:main+0x4, of a program or library in user space
	StaticProbe               // usdt:/bin/x:provider:name, a place that a program's source marks
)

// kindNames holds the prefixes of selectors. Function has none.
var kindNames = [...]string{Syscall: "syscall", Tracepoint: "tp", RawTracepoint: "rawtp", Instruction: "kprobe", Program: "bpf", UserFunction: "uprobe", StaticProbe: "usdt"}

// userReturns is the prefix of a UserFunction with Return.
const userReturns = "uretprobe"

// Known reports whether k is a defined kind. Decoders of recordings use it to check input.
func (k Kind) Known() bool { return int(k) < len(kindNames) }

// String returns the selector's prefix without the colon; it is empty for Function.
func (k Kind) String() string { return kindNames[k] }

// An Expr is a node of the syntax tree. The set of implementations is closed. The comment
// of each ends with the syntax it stands for.
type Expr interface {
	// Span returns the text the node was read from.
	Span() Span
	expr()
}

type (
	// A Name is a parameter, an enumerator, a macro or a constant. skb, EINVAL, NULL
	Name struct {
		Pos  Span
		Name string
	}
	// A Return is the traced function's return value. return
	Return struct{ Pos Span }
	// A Context is a value that belongs to the call rather than to its arguments. $pid,
	// $arg1
	Context struct {
		Pos  Span
		Name string // with the $
	}
	// An Any is the first parameter that has the given type, whatever its name. $any(type)
	Any struct {
		Pos  Span
		Type TypeName
	}
	// An Int is an integer, character or duration literal. 84, 0x54, 'a', 10ms
	Int struct {
		Pos      Span
		Value    uint64
		Unsigned bool // suffix u, or needed to hold the value
		Long     bool // suffix l, a duration, or needed to hold the value
	}
	// A String is a string literal. "eth0"
	String struct {
		Pos   Span
		Value string
	}
	// A Unary is an operator before its operand. !x, ~x, -x, +x, *x, &x
	Unary struct {
		Pos Span
		Op  Op
		X   Expr
	}
	// A Binary is an operator between its operands. x + y
	Binary struct {
		Op   Op
		X, Y Expr
	}
	// A Paren is an expression in parentheses. (x)
	Paren struct {
		Pos Span
		X   Expr
	}
	// A Member selects from a struct or union, or through a pointer to one. x.name, x->name
	Member struct {
		X       Expr
		Arrow   bool
		Name    string
		NamePos Span
	}
	// An Index selects an array element. x[i]
	Index struct {
		Pos  Span
		X, I Expr
	}
	// A Cast converts a value, or says what a pointer points to. (type)x
	Cast struct {
		Pos  Span
		Type TypeName
		X    Expr
	}
	// A Sizeof is the size of a type in bytes, or the size of X's type if X is set.
	// sizeof(type), sizeof(x)
	Sizeof struct {
		Pos  Span
		Type TypeName
		X    Expr
	}
	// A ContainerOf computes the address of an object from the address of a member.
	// container_of(x, type, path)
	ContainerOf struct {
		Pos  Span
		X    Expr
		Type TypeName
		Path []Name
	}
	// A Keyed is a function that adds calls up, for each combination of keys apart.
	// count()[$comm]
	Keyed struct {
		Pos  Span
		X    *Call
		Keys []Expr
	}
	// A Call applies one of the language's functions. user(x), buf(p, n)
	Call struct {
		Pos  Span
		Func Name
		Args []Expr
	}
)

// A TypeName is a type as written in a cast.
type TypeName struct {
	Pos   Span
	Name  string // "struct sk_buff", "u32", "unsigned long"; words single-spaced, qualifiers dropped
	Stars int    // levels of pointer
}

func (x *Name) Span() Span        { return x.Pos }
func (x *Return) Span() Span      { return x.Pos }
func (x *Context) Span() Span     { return x.Pos }
func (x *Any) Span() Span         { return x.Pos }
func (x *Int) Span() Span         { return x.Pos }
func (x *String) Span() Span      { return x.Pos }
func (x *Unary) Span() Span       { return x.Pos }
func (x *Binary) Span() Span      { return Span{x.X.Span().Start, x.Y.Span().End} }
func (x *Paren) Span() Span       { return x.Pos }
func (x *Member) Span() Span      { return Span{x.X.Span().Start, x.NamePos.End} }
func (x *Index) Span() Span       { return x.Pos }
func (x *Cast) Span() Span        { return x.Pos }
func (x *Sizeof) Span() Span      { return x.Pos }
func (x *ContainerOf) Span() Span { return x.Pos }
func (x *Keyed) Span() Span       { return x.Pos }
func (x *Call) Span() Span        { return x.Pos }

func (*Name) expr()        {}
func (*Return) expr()      {}
func (*Context) expr()     {}
func (*Any) expr()         {}
func (*Int) expr()         {}
func (*String) expr()      {}
func (*Unary) expr()       {}
func (*Binary) expr()      {}
func (*Paren) expr()       {}
func (*Member) expr()      {}
func (*Index) expr()       {}
func (*Cast) expr()        {}
func (*Sizeof) expr()      {}
func (*ContainerOf) expr() {}
func (*Keyed) expr()       {}
func (*Call) expr()        {}

// unparen strips parentheses. (x == 1) is a predicate just as x == 1 is.
func unparen(x Expr) Expr {
	for {
		p, ok := x.(*Paren)
		if !ok {
			return x
		}
		x = p.X
	}
}
