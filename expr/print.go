// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"strconv"
)

// String returns the canonical form of the SPEC: however it was written, String gives the
// same text, and that text parses to the same tree.
func (s *Spec) String() string {
	b := []byte(s.Selector.String())
	if !s.Parens {
		return string(b)
	}
	b = append(b, '(')
	return string(append(appendList(b, s.Items), ')'))
}

// String returns the selector in the syntax that Parse reads.
func (s Selector) String() string {
	b := []byte(s.names())
	for i, w := range s.Signature {
		b = append(b, [...]string{"(:", ", "}[min(i, 1)]...)
		if w.Return {
			b = append(b, "return "...)
		}
		b = appendType(b, w.Type)
	}
	if len(s.Signature) > 0 {
		b = append(b, ')')
	}
	return string(b)
}

// names writes the part between the prefix and the signature.
func (s Selector) names() string {
	if s.Path != "" {
		return ":" + s.Path
	}
	text := s.Name
	if s.Module != "" {
		text += "[" + s.Module + "]"
	}
	switch {
	case s.Kind == Function:
		return text
	case s.Kind == Tracepoint:
		text = s.System + ":" + text
	case s.Kind == StaticProbe:
		text = s.File + ":" + s.System + ":" + text
	case s.Kind == UserFunction:
		text = s.File + ":" + text
		if s.Offset != 0 {
			text += "+0x" + strconv.FormatUint(s.Offset, 16)
		}
	case s.Offset != 0:
		text += "+0x" + strconv.FormatUint(s.Offset, 16)
	}
	return s.prefix() + ":" + text
}

// prefix is what stands before the first colon.
func (s Selector) prefix() string {
	if s.Return {
		return userReturns
	}
	return s.Kind.String()
}

// Format returns an expression as text. It writes the parentheses that the tree has, and
// those that precedence requires. The result parses to the same tree.
func Format(x Expr) string { return string(appendExpr(nil, x)) }

// Precedences of the non-binary forms, above those of all binary operators.
const (
	precUnary   = 20
	precPostfix = 21
)

// appendExpr appends what Format returns.
func appendExpr(b []byte, x Expr) []byte { return appendPrec(b, x, 0) }

// appendPrec writes x, in parentheses if it binds less tightly than min.
func appendPrec(b []byte, x Expr, min int) []byte {
	if precedence(x) < min {
		b = appendNode(append(b, '('), x)
		return append(b, ')')
	}
	return appendNode(b, x)
}

// precedence returns how tightly the topmost operator of x binds.
func precedence(x Expr) int {
	switch x := x.(type) {
	case *Binary:
		return ops[x.Op].prec
	case *Unary, *Cast:
		return precUnary
	}
	return precPostfix
}

// appendNode writes x without parentheses around it.
func appendNode(b []byte, x Expr) []byte {
	switch x := x.(type) {
	case *Name:
		return append(b, x.Name...)
	case *Return:
		return append(b, "return"...)
	case *Context:
		return append(b, x.Name...)
	case *Any:
		return append(appendType(append(b, "$any("...), x.Type), ')')
	case *Int:
		return appendInt(b, x)
	case *String:
		return strconv.AppendQuote(b, x.Value)
	case *Unary:
		return appendUnary(b, x)
	case *Binary:
		prec := ops[x.Op].prec
		b = appendPrec(b, x.X, prec)
		b = append(b, ' ')
		b = append(append(b, x.Op.String()...), ' ')
		return appendPrec(b, x.Y, prec+1)
	case *Paren:
		return append(appendExpr(append(b, '('), x.X), ')')
	case *Member:
		b = appendPrec(b, x.X, precPostfix)
		if x.Arrow {
			return append(append(b, "->"...), x.Name...)
		}
		return append(append(b, '.'), x.Name...)
	case *Index:
		b = append(appendPrec(b, x.X, precPostfix), '[')
		return append(appendExpr(b, x.I), ']')
	case *Cast:
		return appendCast(b, x)
	case *Sizeof:
		b = append(b, "sizeof("...)
		if x.X != nil {
			return append(appendExpr(b, x.X), ')')
		}
		return append(appendType(b, x.Type), ')')
	case *ContainerOf:
		return appendContainerOf(b, x)
	case *Call:
		b = append(append(b, x.Func.Name...), '(')
		return append(appendList(b, x.Args), ')')
	case *Keyed:
		b = append(appendNode(b, x.X), '[')
		return append(appendList(b, x.Keys), ']')
	}
	panic(fmt.Sprintf("expr: no text for %T", x))
}

func appendList(b []byte, list []Expr) []byte {
	for i, x := range list {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendExpr(b, x)
	}
	return b
}

// appendInt writes a number in decimal, with the suffix that its type needs.
func appendInt(b []byte, x *Int) []byte {
	b = strconv.AppendUint(b, x.Value, 10)
	if x.Unsigned {
		b = append(b, 'u')
	}
	if x.Long {
		b = append(b, 'l')
	}
	return b
}

// appendUnary writes an operator and its operand.
func appendUnary(b []byte, x *Unary) []byte {
	b = append(b, x.Op.String()...)
	if inner, ok := x.X.(*Unary); ok && x.Op == OpAddr && inner.Op == OpAddr {
		b = append(b, ' ') // && is another operator
	}
	return appendPrec(b, x.X, precUnary)
}

// appendCast writes a cast. It puts a unary operand in parentheses where the parser would
// otherwise read (name)-x as a subtraction.
func appendCast(b []byte, x *Cast) []byte {
	b = append(appendType(append(b, '('), x.Type), ')')
	if _, unary := x.X.(*Unary); unary && x.Type.Stars == 0 && !beginsWithTypeWord(x.Type.Name) {
		return append(appendNode(append(b, '('), x.X), ')')
	}
	return appendPrec(b, x.X, precUnary)
}

// beginsWithTypeWord reports whether the lexer would read name as a type without further
// hints.
func beginsWithTypeWord(name string) bool {
	lex, err := tokens().LexString("", "f("+name)
	if err != nil {
		return false
	}
	word := tokens().Symbols()["TypeWord"]
	for range 3 {
		tok, err := lex.Next()
		if err != nil {
			return false
		}
		if tok.Type == word {
			return true
		}
	}
	return false
}

func appendContainerOf(b []byte, x *ContainerOf) []byte {
	b = appendExpr(append(b, "container_of("...), x.X)
	b = appendType(append(b, ", "...), x.Type)
	b = append(b, ", "...)
	for i, n := range x.Path {
		if i > 0 {
			b = append(b, '.')
		}
		b = append(b, n.Name...)
	}
	return append(b, ')')
}

// appendType writes a type as in a cast.
func appendType(b []byte, t TypeName) []byte {
	b = append(b, t.Name...)
	for i := range t.Stars {
		if i == 0 {
			b = append(b, ' ')
		}
		b = append(b, '*')
	}
	return b
}
