// SPDX-License-Identifier: Apache-2.0

package completion_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/completion"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A judge tells by the real parser and checker whether a text can become a SPEC. It looks types up in
// the view, and shares nothing with the engine but candidates for members, which it tries.
type judge struct {
	engine *completion.Engine
	scopes map[string]*expr.Scope
	budget int // texts that are still tried
}

// viewTypes are the types of a view, decoded whole.
type viewTypes struct{ *kernel.View }

func (v viewTypes) TypesByName(spelling string) ([]btf.Type, error) {
	return v.View.TypesByName(spelling, "")
}

func (v viewTypes) Enumerators(name string) (out []expr.Enumerator, err error) {
	found, err := v.View.Enumerators(name, "")
	for _, e := range found {
		for _, value := range e.Values {
			if value.Name == name {
				out = append(out, expr.Enumerator{Enum: e, Value: value.Value})
			}
		}
	}
	return out, err
}

// scope returns what a function's SPECs can name.
func (j *judge) scope(function string) *expr.Scope {
	if s, ok := j.scopes[function]; ok {
		return s
	}
	var scope *expr.Scope
	if funcs, err := j.engine.View.Match(function, ""); err == nil && len(funcs) > 0 {
		scope, _ = plan.Declared(funcs[0], plan.Hook{}, viewTypes{j.engine.View}, "amd64")
		scope.Doubt = func(*expr.Error) {}
	}
	j.scopes[function] = scope
	return scope
}

// valid reports whether a whole text is a SPEC.
func (j *judge) valid(text string) bool {
	if j.budget--; j.budget < 0 {
		return true // nobody knows
	}
	spec, err := expr.Parse(text)
	if err != nil {
		return false
	}
	scope := j.scope(spec.Selector.Name)
	if scope == nil {
		return false
	}
	_, err = expr.Check(spec, scope)
	return err == nil
}

// open returns what closes the brackets of a text.
func open(text string) string {
	closing := ""
	quoted := false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			closing = ")" + closing
		case c == '[':
			closing = "]" + closing
		case (c == ')' || c == ']') && closing != "":
			closing = closing[1:]
		}
	}
	if quoted {
		return `"` + closing
	}
	return closing
}

// finishes reports whether a text can become a SPEC, in few steps.
func (j *judge) finishes(text string, depth int) bool {
	closing := open(text)
	if closing == "" && strings.Contains(text, "(") {
		return j.valid(text)
	}
	if closing == "" { // a selector, perhaps without its end
		closing = "()"
	}
	for _, more := range endings {
		closing := closing
		if strings.Contains(more, ")") {
			closing = open(text + more)
		}
		if j.valid(text + more + closing) {
			return true
		}
		for _, then := range [...]string{" == 0", "0", ` == "x"`, ", 1, 2, 1", ", 1"} { // the 0 is what a cast converts
			for i := 1; i < len(closing); i++ {
				if j.valid(text + more + closing[:i] + then + closing[i:]) {
					return true
				}
			}
		}
	}
	if depth == 0 {
		return false
	}
	tried := 0
	for _, c := range j.engine.Complete(text) {
		leads := c.Text == "->" || c.Text == "." || c.Text == "[" || strings.HasSuffix(text, "->") || strings.HasSuffix(text, ".")
		if c.Text == "" || !leads && tried == 4 {
			continue
		}
		if !leads {
			tried++
		}
		if j.finishes(text+c.Text, depth-1) {
			return true
		}
	}
	return false
}

// endings are what can be missing of an expression.
var endings = [...]string{"", "1", " == 0", ` == "x"`, "0 == 0", "*", ", 1", "x*", "1, $pid", "1, 2, 1", "1, 1, 2, 1", ", 1, 2, 1", "1), 1, 2, 1", "file *)0", "file",
	"(struct file *)0, struct file, f_flags", ", struct file, f_flags", "struct file, f_flags", "file, f_flags", "0ul), struct file, f_flags", "), struct file, f_flags", "(char *)0", `x"`, `"x"`}

// TestCandidatesFinish: a text with a candidate behind it is the beginning of a SPEC that the parser and
// the checker take. Random candidates are taken, one behind the other.
func TestCandidatesFinish(t *testing.T) {
	e := engine(t)
	j := &judge{engine: e, scopes: map[string]*expr.Scope{}}
	starts := described // of a glob, parameters of different functions do not go together
	n := 40
	if os.Getenv("KSNOOP_SOAK") != "" {
		n = 40_000
	}
	random := rand.New(rand.NewPCG(1, 2))
	steps, unknown := 0, 0
	for range n {
		text := starts[random.IntN(len(starts))] + "("
		for range 1 + random.IntN(9) {
			found := e.Complete(text)
			if len(found) == 0 {
				break
			}
			c := found[random.IntN(len(found))]
			before := text
			text += c.Text
			if random.IntN(3) == 0 && c.Text != "" { // in the middle of a word
				part := text[:len(text)-random.IntN(len(c.Text))]
				j.budget = 1000
				if middle := e.Complete(part); len(middle) == 0 && isWord(c.Text) && !j.finishes(part, 0) {
					t.Fatalf("%q led to %q, and %q leads nowhere", before, text, part)
				}
			}
			if steps++; strings.HasSuffix(text, "union ") || strings.HasSuffix(text, "enum ") || strings.HasSuffix(text, "mac(") {
				break // few types have six bytes, and the judge knows no enum
			}
			j.budget = 600
			if !j.finishes(text, 4) {
				t.Errorf("%q: %q (%s) leads nowhere", before, c.Text, c.About)
				break
			}
			if j.budget < 0 {
				unknown++
			}
		}
	}
	t.Logf("%d candidates, of %d of which too much would have to be tried", steps, unknown)
	if steps < n || unknown > steps/8 {
		t.Errorf("%d candidates were tried, %d in vain", steps, unknown)
	}
}

func isWord(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) < 0
}

// FuzzComplete: whatever has been typed, there is no panic, and nothing that a terminal would act on.
func FuzzComplete(f *testing.F) {
	for _, seed := range []string{"", "vfs_read(file->", "vfs_read(((struct sock *)buf)->", "*(:struct s", "tp:a:b(", "kprobe:vfs_read+0x9($", "vfs_read[a](",
		"vfs_read(count()[$comm", "vfs_read(container_of(pos, struct file, f_path.", `vfs_read($comm == "`, "vfs_read(a]b)c[", "vfs_read(return == -", ":fs/", "vfs_read((((((",
		"syscall:op", "vfs_read('\\", "vfs_read(hist(", "vfs_read(x.->.", "vfs_read(\xff\x1b[31m"} {
		f.Add(seed)
	}
	e := engine(f)
	f.Fuzz(func(t *testing.T, text string) {
		for _, selectorOnly := range []bool{false, true} {
			e.SelectorOnly = selectorOnly
			for _, c := range e.Complete(text) {
				for _, s := range []string{c.Text, c.Name, c.About} {
					if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
						t.Errorf("%q: %q", text, c)
					}
				}
			}
		}
	})
}
