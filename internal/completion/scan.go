// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"regexp"
	"slices"
	"strings"
)

// A tokenKind tells operands from operators.
type tokenKind uint8

const (
	operator tokenKind = iota // brackets and commas included
	word                      // a name or a keyword
	context                   // $pid; also a $ alone
	literal                   // a number, character or string
)

// A token is a part of the text.
type token struct {
	kind   tokenKind
	at     int // in the text
	text   string
	binary bool // an operator between operands
}

func (t *token) end() int { return t.at + len(t.text) }

// tokenForms match tokens at the beginning of a text. Strings and characters must be closed.
// It is never changed.
var tokenForms = [...]struct {
	kind tokenKind
	form *regexp.Regexp
}{
	{word, regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)},
	{context, regexp.MustCompile(`^\$[A-Za-z0-9_]*`)},
	{literal, regexp.MustCompile(`^[0-9][A-Za-z0-9_.]*`)},
	{literal, regexp.MustCompile(`^"(?:\\.|[^"\\])*"`)},
	{literal, regexp.MustCompile(`^'(?:\\.[^']*|[^'\\])'`)},
	{operator, regexp.MustCompile(`^(?:->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%!~<>=&|^.,:()\[\]])`)},
}

// tokensOf splits a text. ok is false if a part of it is no token, such as a string that is not closed.
func tokensOf(text string) (tokens []token, ok bool) {
	for at := 0; at < len(text); {
		rest := text[at:]
		if blank := len(rest) - len(strings.TrimLeft(rest, " \t\n")); blank > 0 {
			at += blank
			continue
		}
		i := slices.IndexFunc(tokenForms[:], func(f struct {
			kind tokenKind
			form *regexp.Regexp
		}) bool {
			return f.form.MatchString(rest)
		})
		if i < 0 {
			return nil, false
		}
		t := token{kind: tokenForms[i].kind, at: at, text: tokenForms[i].form.FindString(rest)}
		tokens = append(tokens, t)
		at = t.end()
	}
	return tokens, true
}

// A bracket is one that is open at the cursor.
type bracket struct {
	text string // "(" or "["
	call string // the function or operator whose arguments are in it
	keys bool   // of an aggregation
	// first is the token that begins the expression at the cursor, and arg its number in the bracket.
	first, arg int
}

// A place says what can stand at the cursor.
type place uint8

const (
	operandPlace  place = iota
	operatorPlace       // behind an operand
	memberPlace         // behind -> or .
	nowhere
)

// A scan is a text of items up to the cursor, read.
type scan struct {
	text    string
	partial string  // the word that ends at the cursor
	tokens  []token // before partial
	open    []bracket
	at      place
	closing map[int]int // the token of the bracket that a closing one closes
}

// maxTokens bounds the work for one key. A SPEC that somebody types has fewer.
const maxTokens = 2000

// scanned reads the text of a SPEC from its opening parenthesis on.
func scanned(text string) *scan {
	s := &scan{text: text, at: nowhere, closing: map[int]int{}}
	tokens, ok := tokensOf(text)
	if !ok || len(tokens) > maxTokens {
		return s
	}
	if n := len(tokens) - 1; n >= 0 && tokens[n].end() == len(text) && (tokens[n].kind == word || tokens[n].kind == context) {
		s.partial, tokens = tokens[n].text, tokens[:n]
	}
	s.tokens = tokens
	var opened []int
	at := operandPlace
	for i := range tokens {
		at = s.step(i, at, &opened)
	}
	if len(s.open) > 0 {
		s.at = at
	}
	return s
}

// step reads one token.
func (s *scan) step(i int, at place, opened *[]int) place {
	t := &s.tokens[i]
	switch {
	case at == nowhere:
		return nowhere
	case t.kind != operator:
		return operatorPlace
	}
	switch t.text {
	case "(", "[":
		s.open = append(s.open, s.bracket(i, at))
		*opened = append(*opened, i)
		return operandPlace
	case ")", "]":
		n := len(*opened) - 1
		if n < 0 || (s.tokens[(*opened)[n]].text == "(") != (t.text == ")") {
			return nowhere
		}
		from := (*opened)[n]
		s.closing[i] = from
		b := s.open[n]
		*opened, s.open = (*opened)[:n], s.open[:n]
		if b.text == "(" && b.call == "" && n > 0 && isType(s.tokens[from+1:i]) {
			return operandPlace // behind a cast
		}
		return operatorPlace
	case ",":
		if len(s.open) == 0 {
			return nowhere
		}
		b := &s.open[len(s.open)-1]
		b.arg++
		b.first = i + 1
		return operandPlace
	case "->", ".":
		return memberPlace
	}
	t.binary = at == operatorPlace
	return operandPlace
}

// bracket describes an opening bracket.
func (s *scan) bracket(i int, at place) bracket {
	b := bracket{text: s.tokens[i].text, first: i + 1}
	if at != operatorPlace || i == 0 {
		return b
	}
	switch before := &s.tokens[i-1]; {
	case b.text == "(" && before.kind != operator:
		b.call = before.text
	case b.text == "[" && before.text == ")":
		if from := s.closing[i-1]; from > 0 {
			b.keys = aggregates(s.tokens[from-1].text)
		}
	}
	return b
}

// top returns the innermost open bracket.
func (s *scan) top() *bracket { return &s.open[len(s.open)-1] }

// expression returns the tokens of the expression at the cursor, before the partial word.
func (s *scan) expression() []token { return s.tokens[s.top().first:] }

// last returns the token before the partial word.
func (s *scan) last() *token {
	if len(s.tokens) == 0 {
		return &token{}
	}
	return &s.tokens[len(s.tokens)-1]
}

// within reports whether the cursor is in the arguments of one of some functions, at any depth.
func (s *scan) within(calls ...string) bool {
	return slices.ContainsFunc(s.open, func(b bracket) bool { return slices.Contains(calls, b.call) })
}

// postfix returns the operand that ends before token n, such as p->m[3]; "" if there is none.
func (s *scan) postfix(n int) string {
	end, j := n, n-1
	for j >= 0 {
		t := &s.tokens[j]
		switch {
		case t.text == ")" || t.text == "]":
			from, ok := s.closing[j]
			if !ok {
				return ""
			}
			j = from
			if t.text == "]" {
				j-- // what it is an element of
				continue
			}
			if j > 0 && s.tokens[j-1].kind != operator && s.calls(j-1) {
				j--
			}
		case t.kind == operator:
			return ""
		}
		if j > 0 && (s.tokens[j-1].text == "->" || s.tokens[j-1].text == ".") {
			j -= 2
			continue
		}
		return s.text[s.tokens[j].at:s.tokens[end-1].end()]
	}
	return ""
}

// calls reports whether the word before a parenthesis is the function that is called.
func (s *scan) calls(i int) bool {
	return i == 0 || s.tokens[i-1].kind == operator
}

// compared returns what the operator at token n compares with, the operand to its left.
func (s *scan) compared(n int) string {
	depth, first := 0, s.top().first
	limit := precedence(s.tokens[n].text)
	j := n
	for ; j > first; j-- {
		switch t := &s.tokens[j-1]; {
		case t.text == ")" || t.text == "]":
			depth++
		case t.text == "(" || t.text == "[":
			depth--
		case depth == 0 && t.binary && precedence(t.text) <= limit:
			return s.text[s.tokens[j].at:s.tokens[n].at]
		}
	}
	if j == n {
		return ""
	}
	return s.text[s.tokens[j].at:s.tokens[n].at]
}

// closers returns what closes all brackets that are open, the innermost first.
func closers(open []bracket) string {
	var b strings.Builder
	for _, o := range slices.Backward(open) {
		if o.text == "(" {
			b.WriteByte(')')
		} else {
			b.WriteByte(']')
		}
	}
	return b.String()
}

// kinds are the words in front of types' names.
var kinds = [...]string{"struct", "union", "enum"}

// typeWord matches words that can only begin a type, as in the grammar of package expr.
var typeWord = regexp.MustCompile(`^(?:struct|union|enum|const|volatile|unsigned|signed|int|char|short|long|void|bool|_Bool|float|double|(?:__)?(?:[us](?:8|16|32|64)|[bl]e(?:16|32|64))|\w+_t)$`)

// isType reports whether tokens spell a type.
func isType(tokens []token) bool {
	stars := 0
	for i := range tokens {
		switch t := &tokens[i]; {
		case t.text == "*" && i > 0:
			stars++
		case t.kind != word || stars > 0:
			return false
		}
	}
	return len(tokens) > 0 && (typeWord.MatchString(tokens[0].text) || stars > 0 && len(tokens) == stars+1)
}
