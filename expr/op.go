// SPDX-License-Identifier: Apache-2.0

package expr

// An Op is an operator of the language.
type Op uint8

// Binary operators come first, the loosest first, then unary ones.
const (
	OpInvalid Op = iota
	OpOr         // x || y
	OpAnd        // x && y
	OpBitOr      // x | y
	OpXor        // x ^ y
	OpBitAnd     // x & y
	OpEq         // x == y
	OpNe         // x != y
	OpMatch      // x ~ "glob"
	OpLt         // x < y
	OpLe         // x <= y
	OpGt         // x > y
	OpGe         // x >= y
	OpShl        // x << y
	OpShr        // x >> y
	OpAdd        // x + y
	OpSub        // x - y
	OpMul        // x * y
	OpDiv        // x / y
	OpMod        // x % y
	OpNot        // !x
	OpCompl      // ~x
	OpNeg        // -x
	OpPlus       // +x
	OpDeref      // *x
	OpAddr       // &x
	opCount
)

// opClass groups operators with the same typing rule.
type opClass uint8

const (
	classNone     opClass = iota
	classLogic            // operands become truth values, y may stay unread; yields int
	classBitwise          // usual arithmetic conversions
	classEquality         // usual arithmetic conversions, pointers or strings; yields int
	classMatch            // a string and a glob; yields int
	classRelation         // usual arithmetic conversions, or pointers; yields int
	classShift            // operands are promoted separately; yields the left one's type
	classAdd              // usual arithmetic conversions, or pointer arithmetic
	classMul              // usual arithmetic conversions
	classUnary
)

type opInfo struct {
	text  string
	prec  int // precedence of a binary operator, as in C; 0 for unary ones
	class opClass
}

// ops is the single table of operators. Parser, checker, Eval, printer and code generation
// use it.
var ops = [opCount]opInfo{
	OpOr:     {"||", 1, classLogic},
	OpAnd:    {"&&", 2, classLogic},
	OpBitOr:  {"|", 3, classBitwise},
	OpXor:    {"^", 4, classBitwise},
	OpBitAnd: {"&", 5, classBitwise},
	OpEq:     {"==", 6, classEquality},
	OpNe:     {"!=", 6, classEquality},
	OpMatch:  {"~", 6, classMatch},
	OpLt:     {"<", 7, classRelation},
	OpLe:     {"<=", 7, classRelation},
	OpGt:     {">", 7, classRelation},
	OpGe:     {">=", 7, classRelation},
	OpShl:    {"<<", 8, classShift},
	OpShr:    {">>", 8, classShift},
	OpAdd:    {"+", 9, classAdd},
	OpSub:    {"-", 9, classAdd},
	OpMul:    {"*", 10, classMul},
	OpDiv:    {"/", 10, classMul},
	OpMod:    {"%", 10, classMul},
	OpNot:    {"!", 0, classUnary},
	OpCompl:  {"~", 0, classUnary},
	OpNeg:    {"-", 0, classUnary},
	OpPlus:   {"+", 0, classUnary},
	OpDeref:  {"*", 0, classUnary},
	OpAddr:   {"&", 0, classUnary},
}

// String returns the operator's text.
func (o Op) String() string { return ops[o].text }

// Comparison reports whether o compares two values and yields 0 or 1.
func (o Op) Comparison() bool {
	c := ops[o].class
	return c == classEquality || c == classRelation || c == classMatch
}

// Predicate reports whether an item with o as its topmost operator is a predicate.
func (o Op) Predicate() bool {
	return o.Comparison() || ops[o].class == classLogic || o == OpNot
}

func binaryOp(text string) Op { return findOp(text, false) }
func unaryOp(text string) Op  { return findOp(text, true) }

// findOp returns the operator with this text, binary or unary: "-" is both.
func findOp(text string, unary bool) Op {
	for op := OpInvalid + 1; op < opCount; op++ {
		if ops[op].text == text && (ops[op].class == classUnary) == unary {
			return op
		}
	}
	return OpInvalid
}
