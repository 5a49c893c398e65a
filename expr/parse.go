// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"

	"github.com/ksnoop/ksnoop/internal/suggest"
)

// Limits on a SPEC's text. They are far above what anyone types. They keep every later
// stage, all of which recurse over the tree, from running out of stack.
const (
	MaxLength  = 8192 // bytes
	MaxNesting = 64   // parentheses, brackets and unary operators inside one another
)

// Parse reads one SPEC. A non-nil error is an *ErrorList with code CodeSyntax or CodeLimit.
func Parse(text string) (*Spec, error) {
	if err := checkLimits(text); err != nil {
		return nil, &ErrorList{text, []*Error{err}}
	}
	g, err := grammar().ParseString("", text)
	if err != nil {
		return nil, &ErrorList{text, []*Error{syntaxError(text, err)}}
	}
	b := &builder{text: text}
	spec := b.spec(g)
	if len(b.errs) > 0 {
		return nil, &ErrorList{text, b.errs}
	}
	return spec, nil
}

// checkLimits refuses text that would make the recursive stages deep. It counts tokens and
// runs before the parser, which is recursive too.
func checkLimits(text string) *Error {
	if len(text) > MaxLength {
		return &Error{CodeLimit, Span{MaxLength, MaxLength},
			fmt.Sprintf("the SPEC is %d bytes long, the limit is %d", len(text), MaxLength), ""}
	}
	lex, err := tokens().LexString("", text)
	if err != nil {
		return nil // reported by the parser, in its own words
	}
	depth, unary := 0, 0
	for {
		tok, err := lex.Next()
		if err != nil || tok.EOF() {
			return nil
		}
		switch tok.Value {
		case "(", "[":
			depth++
		case ")", "]":
			depth--
		case "!", "~", "-", "+", "*", "&":
			unary++
		default:
			if strings.TrimSpace(tok.Value) != "" {
				unary = 0
			}
		}
		if depth+unary > MaxNesting {
			at := Span{tok.Pos.Offset, tok.Pos.Offset + len(tok.Value)}
			return &Error{CodeLimit, at, fmt.Sprintf("nested more than %d deep", MaxNesting), ""}
		}
	}
}

// syntaxError translates the parser's complaint into the terms of the language.
func syntaxError(text string, err error) *Error {
	e := &Error{Code: CodeSyntax, Span: Span{len(text), len(text)}, Msg: "unexpected end of the SPEC"}
	var perr participle.Error
	if !errors.As(err, &perr) {
		e.Msg = err.Error()
		return e
	}
	at := perr.Position().Offset
	if filter := bpftraceFilter.FindStringSubmatchIndex(text); filter != nil && at >= filter[3] {
		e.Span, e.Msg = Span{filter[4], filter[5]}, "unexpected filter"
		e.Hint = "a filter is a predicate in parentheses: " + text[filter[2]:filter[3]] + "(" + shortened(text[filter[4]:filter[5]]) + ")"
		return e
	}
	_, n := utf8.DecodeRuneInString(text[at:])
	e.Span = Span{at, at + n}
	var unexpected *participle.UnexpectedTokenError
	if !errors.As(err, &unexpected) {
		lexicalError(text, at, e)
		return e
	}
	tok := culprit(text, unexpected.Unexpected)
	at = tok.Pos.Offset
	if before := strings.TrimRight(text[:at], " \t"); strings.HasSuffix(before, ",") && !strings.Contains(before, "(") {
		e.Span, e.Msg, e.Hint = Span{len(before) - 1, len(before)}, `unexpected ","`, apartHint(text)
		return e
	}
	e.Span = Span{at, at + len(tok.Value)}
	if !tok.EOF() {
		e.Msg = "unexpected " + strconv.Quote(tok.Value)
	}
	e.Hint = syntaxHint(text, tok)
	return e
}

// culprit returns the token to blame. The parser names the last token at which it still had
// a choice. If that is an operator or a comma, it is fine in itself, and the next token is
// wrong.
func culprit(text string, tok lexer.Token) lexer.Token {
	if tok.Value != "," && binaryOp(tok.Value) == OpInvalid || atStart(text[:tok.Pos.Offset]) {
		return tok
	}
	lex, err := tokens().LexString("", text)
	for err == nil {
		var next lexer.Token
		next, err = lex.Next()
		if next.EOF() || next.Pos.Offset > tok.Pos.Offset && strings.TrimSpace(next.Value) != "" {
			return next
		}
	}
	return tok
}

// atStart reports whether an item begins behind text.
func atStart(text string) bool {
	text = strings.TrimRight(text, " \t")
	return strings.HasSuffix(text, "(") || strings.HasSuffix(text, ",")
}

// syntaxHint guesses from the text around tok what the user left out or meant.
func syntaxHint(text string, tok lexer.Token) string {
	before := text[:tok.Pos.Offset]
	open := strings.Count(before, "(") - strings.Count(before, ")")
	trimmed := strings.TrimRight(before, " \t")
	ours, bare := otherOperator(text, tok), bareString(text, tok.Pos.Offset)
	operator := trimmed[len(strings.TrimRight(trimmed, "|&=~<>+-*/%!")):]
	switch {
	case strings.Contains(before, "(:") && !strings.Contains(before, ")"):
		return `write types only, as in "*(:struct sk_buff *, return int)"`
	case ours != "":
		return ours
	case fraction.MatchString(text[len(strings.TrimRight(before, "0123456789.")):]):
		return "numbers are whole here"
	case tok.Value == "by":
		return "keys stand in brackets: count()[$comm]"
	case timeUnit.MatchString(tok.Value) && trimmed != "" && trimmed[len(trimmed)-1] >= '0' && trimmed[len(trimmed)-1] <= '9':
		return "no blank stands before the unit: 10" + tok.Value
	case bare != "":
		return quotesHint(bare)
	case trimmed == "":
		return `a SPEC begins with a function, as in "vfs_read(count > 4096)"`
	case tok.Value == ")" && !strings.Contains(before, "("):
		return `no "(" stands before it`
	case !tok.EOF() && open <= 0 && !strings.Contains(before, "("):
		items := text[tok.Pos.Offset:]
		if strings.Count(items, ")") > strings.Count(items, "(") {
			items = strings.TrimSuffix(strings.TrimRight(items, " \t"), ")")
		}
		hint := "items stand in parentheses: " + trimmed + "(" + shortened(items) + ")"
		if listOfNames.MatchString(text) {
			hint += "; " + apartHint(text)
		}
		return hint
	case !tok.EOF() && open <= 0:
		return `nothing may follow the closing ")"; another function is another SPEC`
	case tok.Value == ")" && fewInContainerOf(before):
		return "container_of takes 3 arguments: a pointer, the type of what it points into, and the member"
	case operator != "":
		return "a value is missing after " + strconv.Quote(operator)
	case strings.HasSuffix(trimmed, ",") && tok.Value == ")":
		return "an item is missing after the comma"
	case tok.Value == "[" && strings.IndexAny(strings.TrimLeft(text[tok.Pos.Offset+1:], " \t"), "])") == 0,
		tok.Value == "]" && (strings.HasSuffix(trimmed, "[") || strings.HasSuffix(trimmed, ",")):
		return "a value is missing in the brackets"
	case strings.Count(before, "[") > strings.Count(before, "]") && (tok.EOF() || tok.Value == ")"):
		return `a closing "]" is missing`
	case tok.EOF():
		return `a closing ")" is missing`
	case binaryOp(tok.Value) != OpInvalid && atStart(before):
		return "a value is missing before it; in double quotes the shell replaces $comm and the like: use single ones"
	case tok.Value == "," || tok.Value == ")":
		return "a value is missing before it"
	case tok.Value != "]" && binaryOp(tok.Value) == OpInvalid:
		return `items are separated by ","`
	}
	return ""
}

// bpftraceFilter matches a probe with a filter as bpftrace has it, and what is done behind it.
var bpftraceFilter = regexp.MustCompile(`^\s*([^\s()]+)\s+/\s*(.+?)\s*/\s*(?:\{.*)?$`)

// fewInContainerOf reports whether a text ends in a container_of that lacks arguments.
func fewInContainerOf(text string) bool {
	at := strings.LastIndex(text, "container_of(")
	return at >= 0 && strings.Count(text[at:], ",") < 2
}

// otherOperator says how an operator of another language is written here, if tok is one or belongs to one.
func otherOperator(text string, tok lexer.Token) string {
	before, from := strings.TrimRight(text[:tok.Pos.Offset], " \t"), text[tok.Pos.Offset:]
	switch {
	case strings.HasPrefix(from, "=>"):
		return `write ">="`
	case strings.HasPrefix(from, "=~"):
		return `for a glob write "~", as in $comm ~ "*.conf"`
	case strings.HasPrefix(from, "=<"), tok.Value == "=" && strings.HasSuffix(before, "<"):
		return `write "<="`
	case tok.Value == ">" && strings.HasSuffix(before, "<"):
		return `write "!="`
	case tok.Value == "!" && strings.HasPrefix(from, "!~"), tok.Value == "~" && strings.HasSuffix(before, "!"):
		return `write !(x ~ "*.conf")`
	case tok.Value == "=":
		return `to compare, write "=="`
	case tok.Value == "and":
		return `write "&&"`
	case tok.Value == "or":
		return `write "||"`
	}
	word := before[strings.LastIndexAny(before, " \t(,")+1:]
	if word == "not" && tok.Value != "," && tok.Value != ")" && !tok.EOF() {
		return `write "!"`
	}
	return ""
}

// unquoted matches what is compared with something that begins as a path or a glob does.
var unquoted = regexp.MustCompile(`(?:~|[=!]=)\s*([*/.][^\s,()"&|]*)`)

// unquotedName matches a glob that begins with a name.
var unquotedName = regexp.MustCompile(`~\s*(\w+[*?][^\s,()"&|]*)`)

// bareString returns the string at an offset that lacks its quotes, as in $comm ~ *.conf.
func bareString(text string, offset int) string {
	globs := unquotedName.FindAllStringSubmatchIndex(text, -1)
	for _, at := range append(globs, unquoted.FindAllStringSubmatchIndex(text, -1)...) {
		if at[2] <= offset && offset <= at[3] {
			return text[at[2]:at[3]]
		}
	}
	return ""
}

// quotesHint says how to write a string that lacks its quotes.
func quotesHint(bare string) string {
	return "a string stands in double quotes: " + strconv.Quote(shortened(bare))
}

// fraction matches a number with a point, which the parser takes for several tokens.
var fraction = regexp.MustCompile(`^[0-9]+\.[0-9]`)

// timeUnit matches the units of durations.
var timeUnit = regexp.MustCompile(`^(?:ns|us|ms|s|m|h)$`)

// sizeUnit matches a number of kilobytes and the like, which the language does not have.
var sizeUnit = regexp.MustCompile(`^[0-9]+([kKMG])i?[bB]?$`)

// shortened returns text, or "…" if it is too long to quote in a hint.
func shortened(text string) string {
	if len(text) > drawWidth {
		return "…"
	}
	return text
}

// lexicalError fills in e for text at which no token begins: an unterminated string, a
// malformed number or character, or a character that the language does not have.
func lexicalError(text string, at int, e *Error) {
	rest := text[min(at, len(text)):]
	switch {
	case rest == "":
	case rest[0] == '\'' && strings.IndexByte(rest[1:], '\'') > 0:
		n := strings.IndexByte(rest[1:], '\'') + 2
		e.Span.End = at + n
		e.Msg, e.Hint = "malformed character "+rest[:n], "single quotes hold one character; a string is in double ones: "+strconv.Quote(shortened(rest[1:n-1]))
	case rest[0] == '"' || rest[0] == '\'':
		e.Span.End = len(text)
		e.Msg, e.Hint = "unterminated literal", "the closing "+rest[:1]+" is missing"
	case rest[0] >= '0' && rest[0] <= '9':
		n := len(rest) - len(strings.TrimLeft(rest, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_."))
		e.Span.End = at + n
		e.Msg, e.Hint = "malformed number "+strconv.Quote(rest[:n]), "write 84, 0x54, 0b101, 0o17 or a duration such as 10ms"
		if unit := sizeUnit.FindStringSubmatch(rest[:n]); unit != nil {
			e.Hint = "sizes have no units here: write " + rest[:strings.Index(rest, unit[1])] + map[string]string{"k": " * 1024", "K": " * 1024", "M": " << 20", "G": " << 30"}[unit[1]]
		}
	default:
		char, size := utf8.DecodeRuneInString(rest)
		e.Msg, e.Hint = "unexpected "+strconv.Quote(rest[:size]), typeset[char] // \xff of what is no UTF-8
		if bare := bareString(text, at); bare != "" {
			e.Hint = quotesHint(bare)
		}
	}
}

// typeset maps characters to hints: those that word processors and web pages substitute for the plain
// one, and those of other tracers' languages. It is never changed.
var typeset = map[rune]string{
	'–': minusHint, '—': minusHint, '−': minusHint, '‐': minusHint, '‑': minusHint,
	'“': stringHint, '”': stringHint, '„': stringHint, '«': stringHint, '»': stringHint,
	'‘': charHint, '’': charHint, '‚': charHint,
	'≤': `write "<="`, '≥': `write ">="`, '≠': `write "!="`, '×': `write "*"`, '→': `write "->"`,
	'\u00a0': "this is not the space that the space bar types",
	'{':      "items stand in parentheses: vfs_read(count)", '@': "there are no maps: count()[$comm] counts by a key", '?': "there is no ?:", ';': `items are separated by ","`,
}

const (
	minusHint  = `the minus sign is "-"`
	stringHint = `strings are in plain quotes: "text"`
	charHint   = "characters are in plain quotes: 'a'"
)

// A builder turns grammar nodes into the syntax tree. It also finds faults that the grammar
// cannot express: numbers out of range, unknown escapes, malformed selectors.
type builder struct {
	text string
	errs []*Error
}

func (b *builder) fault(at Span, msg, hint string) {
	b.errs = append(b.errs, &Error{CodeSyntax, at, msg, hint})
}

// span converts two lexer positions to a Span. The lexer's end position is where the next
// token begins, so span drops the white space before it.
func (b *builder) span(from, to lexer.Position) Span {
	return Span{from.Offset, len(strings.TrimRight(b.text[:to.Offset], " \t\r\n\v\f"))}
}

// spec builds the whole tree. It reports signatures on targets that have none.
func (b *builder) spec(g *specGrammar) *Spec {
	at := strings.Index(b.text, g.Selector)
	s := &Spec{Text: b.text, Parens: g.Parens, Selector: b.selector(g.Selector, Span{at, at + len(g.Selector)})}
	for _, w := range g.Signature {
		s.Selector.Signature = append(s.Selector.Signature, Wanted{w.Return, b.typeName(w.Type)})
	}
	if s.Selector.Kind != Function && len(g.Signature) > 0 {
		b.fault(s.Selector.Signature[0].Type.Pos, "only functions are selected by type", "")
	}
	for _, it := range g.Items {
		s.Items = append(s.Items, b.expr(it))
	}
	return s
}

// selector parses the text before the parenthesis, which the lexer delivers as one token.
func (b *builder) selector(s string, at Span) Selector {
	sel := Selector{Span: at}
	if path, ok := strings.CutPrefix(s, ":"); ok {
		sel.Path = path
		if path == "" {
			b.fault(at, "no path after the colon", `write ":kernel/bpf/*.c"`)
		}
		return sel
	}
	if kind, rest, ok := strings.Cut(s, ":"); ok {
		s = b.kind(&sel, kind, rest)
	}
	sel.Name = s
	if sel.Kind == UserFunction || sel.Kind == StaticProbe {
		return sel // names of other languages have all kinds of runes
	}
	if name, rest, ok := strings.Cut(s, "["); ok {
		module, behind, closed := strings.Cut(rest, "]")
		switch {
		case closed && behind != "":
			b.fault(at, "brackets hold the name of a module, and nothing may follow them", `a glob has only * and ?: write `+strconv.Quote(name+"?"+behind))
			return sel
		case !closed || module == "" || name == "":
			if sel.Kind == Program {
				b.fault(at, "malformed name of a BPF program", `write "bpf:name" or "bpf:subprogram[name]"`)
			} else {
				b.fault(at, "malformed module", `write "function[module]"`)
			}
			return sel
		}
		sel.Name, sel.Module = name, module
	}
	for _, r := range sel.Name + sel.System + sel.Module {
		if !selectorRune(r) {
			b.fault(at, fmt.Sprintf("%q cannot be part of a function's name", r), separatorHint(sel, s, r))
			break
		}
	}
	return sel
}

// listOfNames matches names with commas between them.
var listOfNames = regexp.MustCompile(`^[\w.*?:, \t]+$`)

// apartHint says that commas do not separate SPECs, and of a list of functions what to write.
func apartHint(text string) string {
	const hint = "each SPEC is an argument of its own"
	if !listOfNames.MatchString(text) {
		return hint
	}
	return hint + ": write " + shortened(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t", r) }), " "))
}

// separatorHint says what to write for two names, with a rune between them that names do not have.
func separatorHint(sel Selector, s string, r rune) string {
	first, rest, _ := strings.Cut(s, string(r))
	switch {
	case r == ',':
		return apartHint(s)
	case r != '/':
		return ""
	case sel.Kind == Tracepoint:
		return "write " + strconv.Quote("tp:"+strings.ReplaceAll(s, "/", ":"))
	case first == "":
		return `functions of a source file are ":kernel/bpf/*.c"; a command stands behind --`
	case sel.Kind == Function && rest != "":
		return fmt.Sprintf(`a tracepoint is "tp:%s:%s", a source file ":%s"`, first, rest, s)
	}
	return ""
}

// kind handles a selector with a colon. kind and rest are the text on either side of it. It
// fills in sel and returns the name that is left for selector to parse.
func (b *builder) kind(sel *Selector, kind, rest string) (name string) {
	sel.Return = kind == userReturns
	if sel.Return {
		kind = UserFunction.String()
	}
	k := slices.Index(kindNames[:], kind)
	if k <= 0 {
		hint := otherKinds[kind]
		if hint != "" {
			hint = strings.ReplaceAll(hint, "NAME", rest)
			if items := strings.TrimSpace(b.text[sel.Span.End:]); len(items) > len("()") && len(items) <= drawWidth { // they say what is wanted of the return
				hint = strings.Replace(hint, "(return)", items, 1)
			}
		} else if hint = suggest.Hint(kind, slices.Values(kindNames[1:])); hint == "" {
			hint = fmt.Sprintf("there are %s:; a tracepoint is %q, a module's function %q", strings.Join(kindNames[1:], ": "), "tp:"+kind+":"+rest, rest+"["+kind+"]")
		}
		b.fault(Span{sel.Span.Start, sel.Span.Start + len(kind)}, fmt.Sprintf("%q is not a kind of target", kind), hint)
		return strings.NewReplacer(":", "", "/", "").Replace(rest) // which is another one's, and no fault
	}
	sel.Kind = Kind(k)
	switch sel.Kind {
	case Tracepoint:
		system, name, ok := strings.Cut(rest, ":")
		if !ok {
			system, name = "*", rest
		}
		sel.System, rest = system, name
	case Instruction:
		rest = b.offset(sel, rest, `write "kprobe:function+0x1a"`)
	case UserFunction:
		colon := strings.LastIndexByte(rest, ':')
		if colon <= 0 || colon == len(rest)-1 {
			b.fault(sel.Span, "a function of user space is named by its file and its name", fmt.Sprintf("write %q or %q", sel.prefix()+":/usr/bin/program:function", sel.prefix()+":libc.so.6:function"))
			return rest
		}
		sel.File = rest[:colon]
		if sel.Return && strings.Contains(rest[colon:], "+") {
			b.fault(sel.Span, "an instruction does not return", `an instruction is "uprobe:/usr/bin/program:function+0x1a"`)
		}
		rest = b.offset(sel, rest[colon+1:], `write "uprobe:/usr/bin/program:function+0x1a"`)
	}
	if sel.Kind == StaticProbe {
		return b.staticProbe(sel, rest)
	}
	if rest == "" {
		b.fault(sel.Span, "a name is missing after the colon", "")
	}
	return rest
}

// staticProbe takes the file and the provider from the front of a name, and returns the name.
func (b *builder) staticProbe(sel *Selector, text string) (name string) {
	last := max(strings.LastIndexByte(text, ':'), 0)
	second := max(strings.LastIndexByte(text[:last], ':'), 0)
	sel.File, sel.System, name = text[:second], strings.TrimPrefix(text[second:last], ":"), strings.TrimPrefix(text[last:], ":")
	if second == 0 || sel.System == "" || name == "" {
		b.fault(sel.Span, "a USDT probe is named by its file, its provider and its name", `write "usdt:/usr/bin/program:provider:name"; "usdt:FILE:*:*" are all of a file`)
	}
	return name
}

// offset takes the offset from the end of a name, and returns the name.
func (b *builder) offset(sel *Selector, text, hint string) (name string) {
	name, offset, ok := strings.Cut(text, "+")
	var err error
	if ok {
		sel.Offset, err = strconv.ParseUint(offset, 0, 64)
	}
	if err != nil {
		b.fault(sel.Span, "malformed offset "+strconv.Quote(offset), hint)
	}
	return name
}

// otherKinds are the words of other tracers for kinds of targets, with what to write. It is never changed.
var otherKinds = map[string]string{
	"fentry": functionHere, "fexit": functionHere, "kfunc": functionHere, "kretfunc": functionHere, "f": functionHere, "k": functionHere, "p": functionHere,
	"kretprobe": `write "NAME(return)"`, "r": `write "NAME(return)"`, "kr": `write "NAME(return)"`,
	"tracepoint": `write "tp:NAME"`, "t": `write "tp:NAME"`, "rawtracepoint": `write "rawtp:NAME"`, "raw_tp": `write "rawtp:NAME"`, "rt": `write "rawtp:NAME"`,
	"tracepoint_raw": `write "rawtp:NAME"`, "prog": programHere, "program": programHere, "xdp": programHere, "u": userHere, "ur": `write "uretprobe:NAME"`, "U": `write "usdt:NAME"`,
}

const programHere = `a function of a BPF program: write "bpf:NAME"`

const userHere = `a function of user space: write "uprobe:NAME"`

const functionHere = `a function is its name: write "NAME"`

func selectorRune(r rune) bool {
	return r == '_' || r == '.' || r == '*' || r == '?' || r == '-' || r == '$' ||
		r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// expr builds a tree from the flat list of operands and operators by precedence climbing.
// All binary operators are left-associative.
func (b *builder) expr(g *exprGrammar) Expr {
	rest := g.Rest
	var climb func(x Expr, min int) Expr
	climb = func(x Expr, min int) Expr {
		for len(rest) > 0 {
			op := binaryOp(rest[0].Op)
			if ops[op].prec < min {
				break
			}
			y := b.unary(rest[0].Y)
			rest = rest[1:]
			for len(rest) > 0 && ops[binaryOp(rest[0].Op)].prec > ops[op].prec {
				y = climb(y, ops[binaryOp(rest[0].Op)].prec)
			}
			x = &Binary{op, x, y}
		}
		return x
	}
	return climb(b.unary(g.First), 1)
}

// unary builds operators and casts before an operand.
func (b *builder) unary(g *unaryGrammar) Expr {
	at := Span{Start: g.Pos.Offset}
	switch {
	case g.X != nil:
		x := b.unary(g.X)
		at.End = x.Span().End
		return &Unary{at, unaryOp(g.Op), x}
	case g.Type != nil:
		x := b.unary(g.Cast)
		at.End = x.Span().End
		return &Cast{at, b.typeName(g.Type), x}
	}
	return b.postfix(g.Postfix)
}

// postfix builds members and indexes, from the left: a->b[1] is (a->b)[1].
func (b *builder) postfix(g *postfixGrammar) Expr {
	x := b.primary(g.Primary)
	for _, s := range g.Suffixes {
		if s.Index != nil {
			x = b.brackets(x, s, b.span(g.Primary.Pos, s.EndPos))
			continue
		}
		x = &Member{x, s.Op == "->", s.Name.Name, nameSpan(s.Name)}
	}
	return x
}

// brackets builds an index, or the keys of a function that adds calls up.
func (b *builder) brackets(x Expr, s *suffixGrammar, at Span) Expr {
	first := b.expr(s.Index)
	if call, ok := x.(*Call); ok {
		if _, adds := aggregators[call.Func.Name]; adds {
			keys := []Expr{first}
			for _, k := range s.More {
				keys = append(keys, b.expr(k))
			}
			return &Keyed{at, call, keys}
		}
	}
	if len(s.More) > 0 {
		b.fault(b.expr(s.More[0]).Span(), "an index is one number", "only what adds calls up has several keys, as in count()[a, b]")
	}
	return &Index{at, x, first}
}

func nameSpan(n *nameGrammar) Span { return Span{n.Pos.Offset, n.Pos.Offset + len(n.Name)} }

// primary builds a literal, a name, a call or an expression in parentheses.
func (b *builder) primary(g *primaryGrammar) Expr {
	start := g.Pos.Offset
	tok := func(s string) Span { return Span{start, start + len(s)} }
	switch {
	case g.Int != nil:
		return b.integer(*g.Int, tok(*g.Int))
	case g.Duration != nil:
		return b.duration(*g.Duration, tok(*g.Duration))
	case g.Char != nil:
		return b.char(*g.Char, tok(*g.Char))
	case g.String != nil:
		s, ok := unquote(*g.String)
		if !ok {
			b.fault(tok(*g.String), "malformed string", `escapes are \n \t \\ \" \x41`)
		}
		return &String{tok(*g.String), s}
	case g.Any != nil:
		return &Any{b.span(g.Pos, g.EndPos), b.typeName(g.Any)}
	case g.Context != nil:
		return &Context{tok(*g.Context), *g.Context}
	case g.Sizeof != nil:
		return b.sizeof(g.Sizeof, b.span(g.Pos, g.EndPos))
	case g.ContainerOf != nil:
		return b.containerOf(g.ContainerOf, b.span(g.Pos, g.EndPos))
	case g.Call != nil:
		c := &Call{Pos: b.span(g.Pos, g.EndPos), Func: Name{nameSpan(g.Call.Func), g.Call.Func.Name}}
		for _, a := range g.Call.Args {
			c.Args = append(c.Args, b.expr(a.X))
		}
		return c
	case g.Name != nil && g.Name.Name == "return":
		return &Return{nameSpan(g.Name)}
	case g.Name != nil:
		return &Name{nameSpan(g.Name), g.Name.Name}
	}
	return &Paren{b.span(g.Pos, g.EndPos), b.expr(g.Parens)}
}

// unquote returns the bytes that a string literal stands for. Unlike strconv.Unquote it leaves those that are no
// UTF-8 as they are: names in the kernel may have any.
func unquote(literal string) (text string, ok bool) {
	var out []byte
	for rest := literal[1 : len(literal)-1]; rest != ""; {
		if rest[0] >= utf8.RuneSelf {
			out, rest = append(out, rest[0]), rest[1:]
			continue
		}
		r, multibyte, tail, err := strconv.UnquoteChar(rest, '"')
		switch {
		case err != nil:
			return "", false
		case multibyte: // \u00e9
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, byte(r))
		}
		rest = tail
	}
	return string(out), true
}

func (b *builder) sizeof(g *sizeofGrammar, at Span) Expr {
	if g.Type != nil {
		return &Sizeof{Pos: at, Type: b.typeName(g.Type)}
	}
	return &Sizeof{Pos: at, X: b.expr(g.X)}
}

func (b *builder) containerOf(g *containerOfGrammar, at Span) Expr {
	c := &ContainerOf{Pos: at, X: b.expr(g.X), Type: b.typeName(g.Type)}
	for _, n := range g.Path {
		c.Path = append(c.Path, Name{nameSpan(n), n.Name})
	}
	return c
}

// typeName builds a type as TypeName has it. Qualifiers mean nothing for a value, so
// they are dropped.
func (b *builder) typeName(g *typeGrammar) TypeName {
	words := make([]string, 0, len(g.Words))
	for _, w := range g.Words {
		if w != "const" && w != "volatile" {
			words = append(words, w)
		}
	}
	t := TypeName{Pos: b.span(g.Pos, g.EndPos), Name: strings.Join(words, " "), Stars: len(g.Stars)}
	if len(words) == 0 {
		b.fault(t.Pos, "a type is missing", "")
	}
	return t
}

// integer parses a literal and gives it the type that C would: see C11 6.4.4.1.
func (b *builder) integer(s string, at Span) Expr {
	digits := strings.TrimRight(s, "uUlL")
	suffix := strings.ToLower(s[len(digits):])
	decimal := len(digits) == 1 || digits[0] != '0'
	if !decimal && digits[1] >= '0' && digits[1] <= '9' {
		digits = "0o" + digits[1:] // C's octal
	}
	v, err := strconv.ParseUint(digits, 0, 64)
	switch {
	case err != nil && strings.HasPrefix(digits, "0o") && strings.ContainsAny(digits, "89"):
		b.fault(at, "malformed number "+strconv.Quote(s)+": the leading 0 makes it octal, where 7 is the last digit",
			"write "+strings.TrimLeft(digits[2:], "0")+" if it is decimal")
	case err != nil:
		b.fault(at, "malformed number "+strconv.Quote(s), "the largest is 0xffffffffffffffff")
	}
	switch suffix {
	case "", "u", "l", "ul", "lu", "ll", "ull", "llu":
	default:
		b.fault(at, "malformed number "+strconv.Quote(s), "suffixes are u, l and ul")
	}
	x := &Int{Pos: at, Value: v, Unsigned: strings.Contains(suffix, "u"), Long: strings.Contains(suffix, "l")}
	// C11 6.4.4.1: the first type in which the value fits.
	if v > math.MaxInt64 {
		x.Unsigned = true
	}
	if v > math.MaxUint32 || (v > math.MaxInt32 && decimal && !x.Unsigned) {
		x.Long = true
	}
	if v > math.MaxInt32 && !decimal && !x.Long {
		x.Unsigned = true
	}
	return x
}

// duration converts a duration to nanoseconds, a long.
func (b *builder) duration(s string, at Span) Expr {
	d, err := time.ParseDuration(s)
	if err != nil {
		b.fault(at, "malformed duration "+strconv.Quote(s), "the longest is some 292 years")
	}
	return &Int{Pos: at, Value: uint64(d.Nanoseconds()), Long: true}
}

// char converts a character literal of one byte to an int.
func (b *builder) char(s string, at Span) Expr {
	body := s[1 : len(s)-1]
	if body == `\0` {
		return &Int{Pos: at}
	}
	r, multibyte, tail, err := strconv.UnquoteChar(body, '\'')
	if err != nil || tail != "" || multibyte {
		b.fault(at, "malformed character "+s, `write 'a', '\n' or '\x41'`)
	}
	return &Int{Pos: at, Value: uint64(uint8(r))}
}
