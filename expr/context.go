// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/suggest"
)

// contextVars are the numeric context values. It is never changed.
var contextVars = map[string]ContextVar{"$pid": ContextPID, "$tid": ContextTID, "$uid": ContextUID,
	"$cpu": ContextCPU, "$time": ContextTime, "$duration": ContextDuration, "$cgroup": ContextCgroup}

// keyVars are the context values that only tell rows of an aggregation apart. It is never changed.
var keyVars = map[string]ContextVar{"$func": ContextFunc, "$stack": ContextStack, "$ustack": ContextUserStack}

// groupVars are what the cgroup of a task tells of where it runs. The kernel knows no containers, so they are
// values of $cgroup that are shown in another notation. It is never changed.
var groupVars = map[string]View{"$container": ViewContainer, "$pod": ViewPod}

// group returns the capture that such a name is as an item or as a key, by itself or in entry() or exit().
func (c *checker) group(x Expr) (Capture, bool) {
	at, inner := c.at, x
	if call, ok := x.(*Call); ok && len(call.Args) == 1 {
		switch name := call.Func.Name; {
		case name == "entry":
			at = AtEntry
		case name == "exit" && !c.scope.Point:
			at = AtReturn
		default:
			return Capture{}, false
		}
		inner = unparen(call.Args[0])
	}
	name, ok := inner.(*Context)
	if !ok {
		return Capture{}, false
	}
	view, ok := groupVars[name.Name]
	return Capture{Label: c.textOf(x), Value: &ContextTerm{typeUlong, ContextCgroup, at}, View: view}, ok
}

// context checks a name with a $: a context value, a register, or $argN.
func (c *checker) context(x *Context) (operand, bool) {
	if name, ok := contextVars[x.Name]; ok {
		if name == ContextDuration && c.scope.Point {
			return c.point(x.Pos)
		}
		t := btf.Type(typeUint)
		if name == ContextTime || name == ContextDuration || name == ContextCgroup {
			t = typeUlong
		}
		return value(t, &ContextTerm{t, name, c.at}), true
	}
	if _, key := keyVars[x.Name]; key {
		return c.fault(CodeType, x.Pos, "write count()["+x.Name+"]", "%s is a key in brackets by itself, and nothing else", x.Name)
	}
	if _, group := groupVars[x.Name]; group {
		return c.fault(CodeType, x.Pos, "the option --"+x.Name[1:]+" selects calls", "%s is an item or a key by itself: the kernel knows no containers", x.Name)
	}
	if x.Name == taskVar {
		return c.task(x)
	}
	if x.Name == "$comm" {
		t := &btf.Array{Type: typeChar, Nelems: 16} // comm of struct task_struct
		return operand{t: t, text: &Text{T: t, Max: 16, At: c.at}}, true
	}
	if i := slices.IndexFunc(c.scope.Params, func(p Param) bool { return p.Name == x.Name }); i >= 0 {
		o := c.param(i) // a register
		o.view = ViewHex
		return o, true
	}
	if digits, ok := strings.CutPrefix(x.Name, "$arg"); ok {
		n, err := strconv.Atoi(digits)
		known := slices.IndexFunc(c.scope.Params, isRegister)
		if known < 0 {
			known = len(c.scope.Params)
		}
		switch {
		case err != nil || n < 1:
		case n <= known:
			return c.parameter(n-1, x.Pos)
		case known > 0 && c.scope.Untyped && c.scope.UntypedWhy == "" && (c.scope.User || c.scope.Params[0].Base == nil): // a system call has no more
			return c.fault(CodeUnknownName, x.Pos, c.untypedHint(), "no types of %s are known, and so only the arguments in registers are: $arg1 to $arg%d", c.scope.Func, known)
		default:
			return c.fault(CodeUnknownName, x.Pos, "", "%s has %d parameters, not %d", c.scope.Func, known, n)
		}
	}
	return c.fault(CodeUnknownName, x.Pos, c.contextHint(x.Name), "%q is not a context value", x.Name)
}

// untypedHint says what tells where an argument on the stack is.
func (c *checker) untypedHint() string {
	if c.scope.User {
		return "others would be on the stack, and only the debug info of C (gcc -g) tells where"
	}
	return ""
}

// taskVar is the one context value that leads to more: the kernel's object for the task.
const taskVar = "$task"

// task checks $task. A pointer in user space leads to user space, and the object does not lie there.
func (c *checker) task(x *Context) (operand, bool) {
	if c.scope.User {
		return c.fault(CodeType, x.Pos, "", "%s is an object of the kernel, which a function of user space does not reach", x.Name)
	}
	found, err := c.scope.Types.TypesByName("struct task_struct")
	if err != nil || len(found) == 0 {
		return c.fault(CodeType, x.Pos, "", "%s needs the type struct task_struct, which is not known here", x.Name)
	}
	t := pointerTo(found[0])
	return value(t, &ContextTerm{t, ContextTask, c.at}), true
}

// isRegister reports whether a parameter is a register, which has a name of its own. Registers come last.
func isRegister(p Param) bool {
	return strings.HasPrefix(p.Name, "$") && !strings.HasPrefix(p.Name, "$arg")
}

// contextHint guesses which context value was meant, or lists those that exist here: registers if
// the scope has any.
func (c *checker) contextHint(name string) string {
	if meant := c.otherwiseCalled(name); meant != "" {
		return suggest.DidYouMean(meant)
	}
	if hint := otherHints[strings.TrimPrefix(name, "$")]; hint != "" {
		return hint
	}
	if slices.Contains([]string{"$name", "$process", "$cmd", "$command"}, name) {
		return suggest.DidYouMean("$comm")
	}
	registers := ""
	for _, p := range c.scope.Params {
		if strings.HasPrefix(p.Name, "$") {
			registers += " " + p.Name
		}
	}
	if registers == "" {
		names := append(slices.Collect(maps.Keys(contextVars)), slices.Collect(maps.Keys(keyVars))...)
		names = slices.AppendSeq(names, maps.Keys(groupVars))
		slices.Sort(names)
		if hint := suggest.Hint(name, slices.Values(append(names, "$comm", taskVar))); hint != "" {
			return hint
		}
		args := ""
		switch n := len(c.scope.Params); n {
		case 0:
		case 1:
			args = " and $arg1"
		default:
			args = fmt.Sprintf(" and $arg1 to $arg%d", n)
		}
		return "there are $pid $tid $uid $comm $task $cpu $cgroup $container $pod $time $duration" + args
	}
	if hint := suggest.Hint(name, slices.Values(strings.Fields(registers))); hint != "" {
		return hint
	}
	return "the registers are" + registers
}

// otherHints say what there is here for names of other tracers that no name here takes the place of. It is never changed.
var otherHints = map[string]string{
	"kstack":  "the option --stack shows stacks, count()[$stack] counts by them",
	"ustack":  "the option --ustack shows stacks, count()[$ustack] counts by them",
	"elapsed": "bpftrace counts it from its own start; $duration is how long a call took, $time when it was made",
	"func":    "each call is shown with its function; count()[$func] counts by it",
}
