// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/errno"
)

// typeOf returns the type of a part of the text.
func (c *completer) typeOf(text string) (btf.Type, bool) {
	if text == "" {
		return nil, false
	}
	return expr.TypeOf(text, c.scope)
}

// members adds the members behind -> or a dot.
func (c *completer) members() {
	n := len(c.tokens) - 1
	if b := c.top(); b.call == "container_of" && b.arg == 2 {
		c.path(b.first)
		return
	}
	x := c.postfix(n)
	if x == "" {
		return
	}
	if c.tokens[n].text == "->" {
		x = "*(" + x + ")"
	}
	if t, ok := c.typeOf(x); ok {
		c.membersOf(t)
	}
}

func (c *completer) membersOf(t btf.Type) {
	for m := range expr.Members(t) {
		about := spelled(m.Type)
		if m.BitfieldSize != 0 {
			about += " : " + strconv.Itoa(int(m.BitfieldSize))
		}
		if identifier(m.Name) && c.suits(m.Type) {
			c.add(m.Name, about)
		}
	}
}

// path adds the members of the type in container_of, of which the path begins at a token.
func (c *completer) path(first int) {
	from := first - 2
	for from > 0 && c.tokens[from].text != "," {
		from--
	}
	if from <= 0 || first < 2 {
		return
	}
	t, err := expr.LookupType(strings.Join(strings.Fields(c.text[c.tokens[from].end():c.tokens[first-1].at]), " "), c.outline)
	if err != nil || t == nil {
		return
	}
	for i := first; i+1 < len(c.tokens); i += 2 { // name .
		found := false
		for m := range expr.Members(t) {
			if m.Name == c.tokens[i].text {
				t, found = m.Type, true
				break
			}
		}
		if !found {
			return
		}
	}
	c.membersOf(t)
}

// constant matches the beginning of a constant's name, which is worth looking for.
var constant = regexp.MustCompile(`^_*[A-Z][A-Z0-9_]+$`)

// operands adds what an operand can begin with.
func (c *completer) operands() {
	b := c.top()
	switch {
	case b.call == "$any":
		c.parameterTypes()
		return
	case b.call == "container_of" && b.arg == 1:
		c.typeKinds()
		return
	case b.call == "container_of" && b.arg == 2:
		c.path(b.first)
		return
	case b.arg > 0 && b.call == "lhist" || b.arg > 0 && b.call == "hist" || b.arg == 0 && b.call == "top":
		return // a number
	case b.call == "count" || b.call == "path":
		c.add(")", about[")"])
		return
	}
	if c.comparisons() {
		return
	}
	c.values()
	c.functions()
	if b.text == "(" && (b.call == "" || b.call == "sizeof") && len(c.open) > 1 && len(c.expression()) == 0 {
		c.typeKinds()
	}
	if constant.MatchString(c.partial) {
		c.constants()
	}
}

// parameterTypes adds the types of parameters, as $any takes them.
func (c *completer) parameterTypes() {
	for _, p := range c.scope.Params {
		if p.Name != "" && !strings.HasPrefix(p.Name, "$") {
			c.add(strings.TrimPrefix(spelled(p.Type), "const "), p.Name)
		}
	}
}

// typeKinds adds the words in front of types.
func (c *completer) typeKinds() {
	for _, kind := range kinds {
		if rest, ok := strings.CutPrefix(kind, c.partial); ok {
			c.found = append(c.found, Candidate{rest + " ", kind, about[kind]})
		}
	}
	if c.partial != "" {
		c.types("")
	}
}

// types adds the types with a word in front of their names.
func (c *completer) types(kind string) {
	c.found = append(c.found, c.engine.typeNames(kind, c.partial, c.module)...)
}

// wantsPointer reports whether the argument at the cursor must be a pointer, or lead to one.
func (c *completer) wantsPointer() bool {
	for _, b := range slices.Backward(c.open) {
		switch b.call {
		case "str", "ustr", "user", "mac":
			return true
		case "buf", "container_of":
			return b.arg == 0
		case "entry", "exit":
			continue
		}
		if b.call != "" || b.text == "[" {
			return false
		}
	}
	return false
}

// begins reports whether the cursor is where a truth value, an item or a key begins: only there can a string
// stand, which is to be compared or shown.
func (c *completer) begins() bool {
	if slices.ContainsFunc(c.open[1:], func(b bracket) bool {
		return b.text == "[" && !b.keys || b.call != "" && b.call != "exit" && b.call != "entry"
	}) {
		return false
	}
	tokens := c.expression()
	return len(tokens) == 0 || tokens[len(tokens)-1].text == "&&" || tokens[len(tokens)-1].text == "||"
}

// suits reports whether a value can be, or can lead to, what is wanted at the cursor.
func (c *completer) suits(t btf.Type) bool { return c.leads(t, 0) }

// maxLeads is how many structs in structs are looked through.
const maxLeads = 4

func (c *completer) leads(t btf.Type, depth int) bool {
	size, _, number := expr.Number(t)
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Float:
		return len(c.open) == 1
	case *btf.Pointer, *btf.Array:
		return true
	case *btf.Struct, *btf.Union:
		for m := range expr.Members(u) {
			if depth < maxLeads && c.leads(m.Type, depth+1) {
				return true
			}
		}
		return len(c.open) == 1
	}
	return number && (!c.wantsPointer() || size == 8 && !c.within("container_of", "mac")) // an address
}

// taskVar is the context value that is a pointer, and stands where a parameter of its type can.
const taskVar = "$task"

// values adds parameters, the result and context values.
func (c *completer) values() {
	for i, p := range c.scope.Params {
		name := p.Name
		if name == "" {
			name = "$arg" + strconv.Itoa(i+1)
		}
		if !p.Absent && c.suits(p.Type) && identifier(strings.TrimPrefix(name, "$")) {
			c.add(name, spelled(p.Type))
		}
	}
	early := c.within("entry", "diff")
	if t := c.scope.Return; t != nil && !c.scope.Point && c.scope.ReturnWhy == "" && !early && c.suits(t) {
		c.add("return", spelled(t))
	}
	if found, err := c.scope.Types.TypesByName("struct task_struct"); err == nil && len(found) > 0 && !c.scope.User && c.suits(&btf.Pointer{Target: found[0]}) {
		c.add(taskVar, about[taskVar])
	}
	if c.wantsPointer() {
		return
	}
	values, shown, keys := expr.ContextNames()
	for _, name := range values {
		if name != taskVar && (name != "$duration" || !early && !c.scope.Point) && (name != "$comm" || c.begins()) {
			c.add(name, about[name])
		}
	}
	if len(c.expression()) == 0 && (len(c.open) == 1 || c.top().keys) {
		for _, name := range shown {
			c.add(name, about[name])
		}
	}
	if c.top().keys && len(c.expression()) == 0 {
		for _, name := range keys {
			c.add(name, about[name])
		}
	}
	if len(c.scope.Params) > 0 && c.partial != "" {
		c.call("$any")
	}
}

// call adds a function with its parenthesis.
func (c *completer) call(name string) {
	if rest, ok := strings.CutPrefix(name, c.partial); ok {
		c.found = append(c.found, Candidate{rest + "(", name + "(", about[name]})
	}
}

// readings are functions that say how a value is shown, or show bytes. It is never changed.
var readings = []string{"hex", "dec", "sym", "ip", "mac", "buf"}

// functions adds functions of the language, except those that the checker refuses at the cursor whatever
// follows: aggregations beside captures, strings where a number is wanted, exit() where nothing returns. Of
// what it takes, one in itself is left out as useless.
func (c *completer) functions() {
	shown := len(c.expression()) == 0 && (len(c.open) == 1 || c.top().keys || c.top().call == "top")
	item := shown && len(c.open) == 1
	for _, f := range expr.Builtins() {
		switch {
		case f.Aggregates && !(item && c.goesWith("count()")), f.Name == "path" && !(item && c.goesWith("path()")), f.Name == "diff" && (!item || c.scope.Point):
		case f.Name == "exit" && (c.scope.Point || c.within("entry", "diff", "exit")), f.Name == "entry" && c.within("exit", "diff", "entry"), f.Name == "user" && c.within("user"):
		case c.wantsPointer() && f.Name != "user" && f.Name != "entry" && f.Name != "exit":
		case c.within("sizeof", "container_of") && f.Name != "user":
		case slices.Contains(readings, f.Name) && !shown, (f.Name == "str" || f.Name == "ustr") && !c.begins():
		default:
			c.call(f.Name)
		}
	}
	if !c.within("container_of") {
		c.call("container_of")
	}
	if !c.wantsPointer() && !c.within("diff", "entry", "exit") {
		c.call("sizeof")
	}
}

// goesWith reports whether an item can stand behind those that there are.
func (c *completer) goesWith(item string) bool {
	return c.holds(c.text[:c.tokens[c.top().first-1].end()] + item + ")")
}

// comparisons adds what a value can be compared with: enumerators, error names, a string. It reports
// whether nothing else is to be added.
func (c *completer) comparisons() bool {
	n := len(c.tokens) - 1
	if n < 0 || !c.tokens[n].binary && c.tokens[n].text != "-" {
		return false
	}
	negative := !c.tokens[n].binary
	if negative {
		n--
	}
	if n < 0 || !c.tokens[n].binary {
		return false
	}
	op := c.tokens[n].text
	if p := precedence(op); p < precedence("&") || p > precedence("<") {
		return false
	}
	left := c.compared(n)
	t, ok := c.typeOf(left)
	switch {
	case !ok:
		return op == "~"
	case op == "~":
		c.add(`"`, about[`"`])
		return true
	case negative:
		c.errors()
		return true
	case isArray(t) && stringLike(t):
		c.add(`"`, about[`"`])
		return true
	}
	c.comparable(t, op, left)
	return false
}

// comparable adds what a value of a type can be compared with.
func (c *completer) comparable(t btf.Type, op, left string) {
	_, signed, number := expr.Number(t)
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Enum:
		for _, v := range u.Values {
			about := strconv.FormatInt(int64(v.Value), 10)
			if identifier(v.Name) && !slices.ContainsFunc(c.scope.Params, func(p expr.Param) bool { return p.Name == v.Name }) {
				c.add(v.Name, about)
			}
		}
	case *btf.Int:
		if u.Encoding&btf.Bool != 0 && op != "&" {
			c.add("true", "")
			c.add("false", "")
		}
	case *btf.Pointer:
		if op == "==" || op == "!=" {
			c.add("NULL", about["NULL"])
		}
	}
	if stringLike(t) && (op == "==" || op == "!=") {
		c.add(`"`, about[`"`])
	}
	if number && signed && strings.TrimSpace(left) == "return" && c.partial == "" {
		c.found = append(c.found, Candidate{"-", "-", "an error, such as -ENOENT"})
	}
}

func isArray(t btf.Type) bool {
	_, ok := btf.UnderlyingType(t).(*btf.Array)
	return ok
}

// stringLike reports whether a value can be compared with a string.
func stringLike(t btf.Type) bool {
	var of btf.Type
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Array:
		of = u.Type
	case *btf.Pointer:
		of = u.Target
	default:
		return false
	}
	i, ok := btf.UnderlyingType(of).(*btf.Int)
	return ok && i.Size == 1 && i.Encoding&btf.Bool == 0
}

// errors adds the names of errors.
func (c *completer) errors() {
	for _, name := range errno.All() {
		n, _ := errno.Number(name)
		text := strconv.Itoa(n)
		if n < 512 { // others stay in the kernel
			text += ": " + syscall.Errno(n).Error()
		}
		c.add(name, text)
	}
}

// constants adds the kernel's enumerators and other constants. What has several values is left out: it
// would be refused as ambiguous.
func (c *completer) constants() {
	value := map[string]string{}
	for name, v := range c.engine.View.EnumeratorNames(c.partial, c.module) {
		text := strconv.FormatInt(int64(v), 10)
		if old, ok := value[name]; ok && old != text {
			text = ambiguous
		}
		value[name] = text
	}
	for _, name := range expr.ConstantNames() {
		if strings.HasPrefix(name, c.partial) {
			value[name] = ""
		}
	}
	var names []string
	for name, text := range value {
		if text != ambiguous && identifier(name) && !slices.ContainsFunc(c.found, func(f Candidate) bool { return f.Name == name }) {
			names = append(names, name)
		}
	}
	c.found = append(c.found, grouped(names, c.partial, "_", "constants", func(name string) string { return value[name] })...)
}

// ambiguous stands for several values, which no number looks like.
const ambiguous = "?"
