// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"sync"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// The types of this file are the grammar. participle fills them from the text; parse.go
// turns them into the syntax tree. Binary operators are a flat list here. The builder in
// parse.go gives them their shape with the precedences of the operator table.

type specGrammar struct {
	Selector  string           `parser:"@Selector"`
	Signature []*wantedGrammar `parser:"( (?= '(' ':') '(' ':' @@ ( ',' @@ )* ')' )?"`
	Parens    bool             `parser:"( @'('"`
	Items     []*exprGrammar   `parser:"( @@ ( ',' @@ )* )? ')' )?"`
}

type wantedGrammar struct {
	Return bool         `parser:"@'return'?"`
	Type   *typeGrammar `parser:"@@"`
}

type exprGrammar struct {
	First *unaryGrammar    `parser:"@@"`
	Rest  []*binaryGrammar `parser:"@@*"`
}

type binaryGrammar struct {
	Op string        `parser:"@('||' | '&&' | '|' | '^' | '&' | '==' | '!=' | '~' | '<=' | '>=' | '<<' | '>>' | '<' | '>' | '+' | '-' | '*' | '/' | '%')"`
	Y  *unaryGrammar `parser:"@@"`
}

// A parenthesis opens a cast in three cases: a type word follows it; a name and stars fill
// it; or an operand follows the closing parenthesis directly. In any other case, such as
// (a) - b, it is a parenthesised expression. C decides this by knowing the typedefs; the
// parser has none.
type unaryGrammar struct {
	Pos     lexer.Position
	Op      string          `parser:"(   @('!' | '~' | '-' | '+' | '*' | '&')"`
	X       *unaryGrammar   `parser:"    @@ )"`
	Type    *typeGrammar    `parser:"| (?= '(' (TypeWord | Ident '*'+ ')' | Ident ')' (Ident | TypeWord | Int | Duration | Char | String | Context | '('))) '(' @@ ')'"`
	Cast    *unaryGrammar   `parser:"    @@"`
	Postfix *postfixGrammar `parser:"| @@"`
	EndPos  lexer.Position
}

type postfixGrammar struct {
	Primary  *primaryGrammar  `parser:"@@"`
	Suffixes []*suffixGrammar `parser:"@@*"`
}

type suffixGrammar struct {
	Op     string         `parser:"(   @('->' | '.')"`
	Name   *nameGrammar   `parser:"    @@ )"`
	Index  *exprGrammar   `parser:"| '[' @@"`
	More   []*exprGrammar `parser:"    ( ',' @@ )* ']'"`
	EndPos lexer.Position
}

type primaryGrammar struct {
	Pos         lexer.Position
	Int         *string             `parser:"  @Int"`
	Duration    *string             `parser:"| @Duration"`
	Char        *string             `parser:"| @Char"`
	String      *string             `parser:"| @String"`
	Any         *typeGrammar        `parser:"| '$any' '(' @@ ')'"`
	Context     *string             `parser:"| @Context"`
	Sizeof      *sizeofGrammar      `parser:"| 'sizeof' '(' @@ ')'"`
	ContainerOf *containerOfGrammar `parser:"| 'container_of' '(' @@ ')'"`
	Call        *callGrammar        `parser:"| (?= Ident '(') @@"`
	Name        *nameGrammar        `parser:"| @@"`
	Parens      *exprGrammar        `parser:"| '(' @@ ')'"`
	EndPos      lexer.Position
}

type nameGrammar struct {
	Pos    lexer.Position
	Name   string `parser:"@(Ident | TypeWord)"`
	EndPos lexer.Position
}

type sizeofGrammar struct {
	Type *typeGrammar `parser:"  (?= TypeWord | Ident '*'+ ')') @@"`
	X    *exprGrammar `parser:"| @@"`
}

type containerOfGrammar struct {
	X    *exprGrammar   `parser:"@@ ','"`
	Type *typeGrammar   `parser:"@@ ','"`
	Path []*nameGrammar `parser:"@@ ( '.' @@ )*"`
}

type callGrammar struct {
	Func *nameGrammar    `parser:"@@ '('"`
	Args []*callArgument `parser:"( @@ ( ',' @@ )* )? ')'"`
}

type callArgument struct {
	X *exprGrammar `parser:"@@"`
}

type typeGrammar struct {
	Pos    lexer.Position
	Words  []string `parser:"( @TypeWord @(TypeWord | Ident)* | @Ident )"`
	Stars  []string `parser:"@'*'*"`
	EndPos lexer.Position
}

// typeWords are words that can only begin a type, which makes (u32)-x a cast. The
// fixed-width types and the _t suffix are kernel conventions.
const typeWords = `(?:struct|union|enum|const|volatile|unsigned|signed|int|char|short|long|void|bool|_Bool|float|double|(?:__)?(?:[us](?:8|16|32|64)|[bl]e(?:16|32|64))|\w+_t)\b`

var tokens = sync.OnceValue(func() *lexer.StatefulDefinition {
	return lexer.MustStateful(lexer.Rules{
		"Root": {
			{Name: "space", Pattern: `\s+`},
			{Name: "Selector", Pattern: `[^\s()]+`, Action: lexer.Push("Items")},
		},
		"Items": {
			{Name: "space", Pattern: `\s+`},
			{Name: "Duration", Pattern: `[0-9]+(?:\.[0-9]+)?(?:ns|us|ms|s|m|h)\b`},
			{Name: "Int", Pattern: `(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|[0-9]+)[uUlL]*\b`},
			{Name: "Char", Pattern: `'(?:\\[^\n]{1,3}|[^'\\\n])'`},
			{Name: "String", Pattern: `"(?:\\.|[^"\\\n])*"`},
			{Name: "Context", Pattern: `\$[A-Za-z_][A-Za-z0-9_]*`},
			{Name: "TypeWord", Pattern: typeWords},
			{Name: "Ident", Pattern: `[A-Za-z_][A-Za-z0-9_]*`},
			{Name: "Op", Pattern: `->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%!~<>=&|^.,:()\[\]]`},
		},
	})
})

var grammar = sync.OnceValue(func() *participle.Parser[specGrammar] {
	return participle.MustBuild[specGrammar](
		participle.Lexer(tokens()), participle.Elide("space"), participle.UseLookahead(1))
})
