// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/userfunc"
	"github.com/ksnoop/ksnoop/layout"
)

const userProgram = "../livetest/user/testdata/user_amd64"

func resolveUser(t *testing.T, text string, o Options) (*Plan, error) {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	o.Arch = "amd64"
	o.UserFile = userfunc.Opener("", "amd64")
	p, _, err := Resolve(kernel.Open(fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: rawBTF(t)}}), []*expr.Spec{spec}, o)
	return p, err
}

// TestUserFunctions: functions of a program are probes at their places in the file, and whatever
// their registers lead to is in user space.
func TestUserFunctions(t *testing.T) {
	p, err := resolveUser(t, "uprobe:"+userProgram+":user_*(*(int *)$si, str($di), *(long *)($sp + 8), buf($di, 4))", Options{})
	if err != nil || len(p.Probes) != 5 {
		t.Fatalf("%v, %v", p, err)
	}
	for _, probe := range p.Probes {
		if probe.Method != layout.MethodUprobe || probe.Hook.Place == 0 || !strings.HasPrefix(probe.Name, "uprobe:/") || !strings.HasSuffix(probe.Name, ":"+probe.Func.Name) {
			t.Errorf("%+v", probe.Hook)
		}
		for _, it := range probe.Items {
			for _, term := range []expr.Term{it.Captures[0].Value, it.Captures[0].Target} {
				if term == nil {
					continue
				}
				expr.Walk(term, func(t2 expr.Term) bool {
					switch term := t2.(type) {
					case *expr.Load:
						if term.Space != expr.User && !expr.InRecord(term) {
							t.Errorf("%s reads the kernel's memory", it.Captures[0].Label)
						}
					case *expr.Text:
						if term.Space != expr.User {
							t.Errorf("%s reads the kernel's memory", it.Captures[0].Label)
						}
					case *expr.Buffer:
						if term.Space != expr.User {
							t.Errorf("%s reads the kernel's memory", it.Captures[0].Label)
						}
					}
					return true
				})
			}
		}
	}
	deny, err := expr.Parse("uprobe:user_amd64:user_m*")
	if err != nil {
		t.Fatal(err)
	}
	if p, err = resolveUser(t, "uprobe:"+userProgram+":user_*", Options{Deny: []expr.Selector{deny.Selector}}); err != nil || len(p.Probes) != 4 {
		t.Errorf("with one function left out: %v, %v", p, err)
	}
}

// TestUserTypes: parameters have the names and types of the program's debug info, and what they lead to,
// at any depth, is in user space.
func TestUserTypes(t *testing.T) {
	p, err := resolveUser(t, "uprobe:"+userProgram+`:user_weigh(p->next->next->name == "second", p->next->x, label, *p, (struct point *)label, return, exit(p)->x)`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	probe := p.Probes[0]
	texts := ""
	for _, it := range probe.Items {
		terms := []expr.Term{it.Predicate}
		for _, c := range it.Captures {
			terms = append(terms, c.Value, c.Target)
			if c.Value != nil {
				texts += c.Label + " " + fmt.Sprint(c.Value.Type()) + ";"
			}
		}
		for _, term := range terms {
			if term == nil {
				continue
			}
			expr.Walk(term, func(x expr.Term) bool {
				space := expr.User
				switch x := x.(type) {
				case *expr.Load:
					space = x.Space
				case *expr.Object:
					space = x.Space
				case *expr.Text:
					space = x.Space
				}
				if space != expr.User {
					t.Errorf("%s: %T is in the kernel's memory", probe.ItemText(0), x)
				}
				return true
			})
		}
	}
	for _, want := range []string{"p->next->x Int", "return Int"} {
		if !strings.Contains(texts, want) {
			t.Errorf("no %q in %s", want, texts)
		}
	}
	if probe.Func.String() != probe.Name {
		t.Errorf("%s is called %s", probe.Name, probe.Func)
	}
	for text, want := range map[string]string{"user_weigh(q->x)": "did you mean \"p\"", "user_weigh(p->z)": "struct point has no member", "user_add(a->x)": "long", "user_open(return->x)": "long"} {
		if _, err := resolveUser(t, "uprobe:"+userProgram+":"+text, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %q", text, err, want)
		}
	}
}

// TestUserReturns: with uretprobe: nothing is read or decided before the function returns, but for what the
// call was passed.
func TestUserReturns(t *testing.T) {
	shape := func(text string) (*Probe, string) {
		t.Helper()
		p, err := resolveUser(t, text, Options{})
		if err != nil || len(p.Probes) != 1 {
			t.Fatalf("%s: %v, %v", text, p, err)
		}
		shown := ""
		for _, it := range p.Probes[0].Items {
			for _, c := range it.Captures {
				shown += c.Label + ";"
				for _, term := range []expr.Term{c.Value, c.Target} {
					if term != nil && expr.PhaseOf(term) != expr.AtReturn {
						t.Errorf("%s: %s is read at entry: %s", text, c.Label, expr.FormatTerm(term, func(i int) string { return p.Probes[0].Params[i].Name }))
					}
				}
			}
		}
		return p.Probes[0], shown
	}
	for text, want := range map[string]string{
		"user_open":                                      "return;",
		"user_open()":                                    "",
		"user_open($comm, $cpu)":                         "$comm;$cpu;",
		"user_open(return < 0, $pid)":                    "return;$pid;",
		"user_open($cpu == 1)":                           "$cpu;",
		"user_open(count())":                             "",
		"user_open(count()[$func])":                      "",
		"user_open(hist(return)[$comm, $cpu], $pid > 1)": "",
	} {
		probe, shown := shape("uretprobe:" + userProgram + ":" + text)
		if probe.Entry != nil || probe.Return == nil || shown != want {
			t.Errorf("%s: entry %v, return %v, shown %q, want %q", text, probe.Entry, probe.Return, shown, want)
		}
	}
	for text, want := range map[string]string{ // what was passed is kept, and memory is read at return
		"user_open(path, flags)":        "path;flags;",
		"user_open($duration, *path)":   "$duration;*path;",
		"user_weigh(p->x > 3, p->next)": "p->x;p->next;",
		"user_weigh(sum(p->x)[label])":  "",
	} {
		probe, shown := shape("uretprobe:" + userProgram + ":" + text)
		if probe.Entry == nil || probe.Entry.Record != nil || len(probe.Entry.Predicates) > 0 || !probe.Stashed || probe.Return == nil || shown != want {
			t.Errorf("%s: entry %+v, return %v, shown %q, want %q", text, probe.Entry, probe.Return, shown, want)
		}
	}
	// Both are at one place, and each is called what the SPEC says: also when a recording is read.
	for _, kind := range []string{"uretprobe:", "uprobe:"} {
		for _, items := range []string{"", "(count())"} {
			p, err := resolveUser(t, kind+userProgram+":user_open"+items, Options{})
			if err != nil || len(p.Probes) != 1 {
				t.Fatalf("%v, %v", p, err)
			}
			probe := p.Probes[0]
			view := kernel.Open(fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: rawBTF(t)}})
			kept, err := Restore(view, []Recorded{{Func: probe.Func, Hook: probe.Hook, Spec: probe.Spec, Method: probe.Method, Role: probe.Role}}, false, false, Options{Arch: "amd64"})
			if want := kind + probe.Hook.File + ":user_open"; err != nil || probe.Name != want || kept.Probes[0].Name != want {
				t.Errorf("%v: %s, restored %s; want %s", err, probe.Name, kept.Probes[0].Name, want)
			}
		}
	}
	if _, err := resolveUser(t, "uretprobe:../livetest/user/testdata/user.c:f", Options{}); err == nil {
		t.Error("a source file has functions")
	}
}

// TestUserPlaces: records of both ends of a call tell its place. A recording from before that is read as it was written.
func TestUserPlaces(t *testing.T) {
	for text, want := range map[string]bool{"uprobe:F:user_add(*(int *)$arg1, return)": true, "uprobe:F:user_add": true, "uprobe:F:user_add($arg1)": false,
		"uprobe:F:user_add($arg1, return < 0)": false, "uretprobe:F:user_add": false, "uprobe:F:user_open+0x4($di)": false} {
		p, err := resolveUser(t, strings.Replace(text, "F", userProgram, 1), Options{})
		if err != nil || len(p.Probes) != 1 {
			t.Fatalf("%s: %v, %v", text, p, err)
		}
		probe := p.Probes[0]
		for _, placed := range []bool{true, false} {
			view := kernel.Open(fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: rawBTF(t)}})
			kept, err := Restore(view, []Recorded{{Func: probe.Func, Hook: probe.Hook, Spec: probe.Spec, Method: probe.Method, Placed: placed}}, false, false, Options{Arch: "amd64"})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for i, halves := range [][2]*layout.Half{{probe.Entry, kept.Probes[0].Entry}, {probe.Return, kept.Probes[0].Return}} {
				if halves[0] == nil || halves[0].Record == nil {
					continue
				}
				is, restored := halves[0].Record, halves[1].Record
				size := is.Size
				if want && !placed {
					size -= layout.PlaceSize
				}
				if is.Placed != want || restored.Placed != (want && placed) || restored.Size != size {
					t.Errorf("%s: half %d: %+v, restored %+v", text, i, is, restored)
				}
			}
		}
	}
	// What filled a record before there were places still does.
	items := make([]string, 7)
	for i := range items {
		items[i] = fmt.Sprintf("buf($arg1 + %d, 4096)", i)
	}
	full := "uprobe:" + userProgram + ":user_add(" + strings.Join(items, ", ") + ", buf($arg1 + 9, 3004), return)"
	spec, err := expr.Parse(full)
	if err != nil {
		t.Fatal(err)
	}
	p, err := resolveUser(t, "uprobe:"+userProgram+":user_add", Options{})
	if err != nil {
		t.Fatal(err)
	}
	probe := p.Probes[0]
	if old, err := Restore(testView(t), []Recorded{{Func: probe.Func, Hook: probe.Hook, Spec: spec, Method: probe.Method}}, false, false, Options{Arch: "amd64"}); err != nil || old.Probes[0].Entry.Record.Size != layout.MaxRecord {
		t.Errorf("%v, %+v", err, old)
	}
	// The kernel's functions have none, whatever a recording says.
	view := testView(t)
	f := resolveOne(t, view, "send", Options{Arch: "amd64"}).Probes[0]
	kept, err := Restore(view, []Recorded{{Func: f.Func, Spec: f.Spec, Method: f.Method, Placed: true}}, false, false, Options{Arch: "amd64"})
	if err != nil || f.Entry.Record.Placed || kept.Probes[0].Entry.Record.Placed {
		t.Errorf("send: %v, %+v", err, kept)
	}
}

func TestUserFunctionFaults(t *testing.T) {
	for text, want := range map[string]string{
		"uprobe:/no/such:f":                                     "/no/such: no such file or directory",
		"uprobe:" + userProgram + ":user_opne":                  `did you mean "user_open"?`,
		"uprobe:" + userProgram + ":none_*":                     `matches "none_*"`,
		"uprobe:" + userProgram + ":user_open+2":                "no instruction begins there; one does at +0x1 and at +0x4",
		"uprobe:" + userProgram + ":user_open+99":               "it ends after 0x20 bytes",
		"uprobe:../livetest/user/testdata/user_arm64:user_open": "a program for arm64",
		"uprobe:" + userProgram + ":user_open+1(return)":        "is passed, and does not return",
		"uretprobe:" + userProgram + ":none_*":                  `matches "none_*"`,
		"uprobe:" + userProgram + ":user_open(path())":          "the way through a function of the kernel",
		"uprobe:" + userProgram + ":user_open(paht)":            "did you mean \"path\"",
	} {
		_, err := resolveUser(t, text, Options{})
		var fault *expr.ErrorList
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %q", text, err, want)
		}
	}
	if file, err := userfunc.Locate("libc.so.6", "", "amd64"); err == nil {
		if _, err := userfunc.Open(file, "amd64"); err == nil {
			for text, want := range map[string]string{"uprobe:libc.so.6:strlen": "IFUNC", "uprobe:libc.so.6:*": "no more than 256"} {
				if _, err := resolveUser(t, text, Options{}); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v\nwant %q", text, err, want)
				}
			}
		}
	}
}

// TestStaticProbes: arguments of USDT probes have the types that the notes say, and a recording's cannot
// make them anything else.
func TestStaticProbes(t *testing.T) {
	p, err := resolveUser(t, "usdt:"+userProgram+":user:*($arg1, $arg2)", Options{})
	if err != nil || len(p.Probes) != 2 {
		t.Fatalf("%v, %v", p, err)
	}
	step := p.Probes[1]
	if step.Hook.Semaphore == 0 || step.Hook.Place == 0 || len(step.Params) != 4 || step.Returns() {
		t.Errorf("%+v", step.Hook)
	}
	var types []string
	for _, param := range step.Params {
		types = append(types, param.Type.TypeName())
	}
	if got := strings.Join(types, ", "); got != "int, short, int, unsigned char" { // user.c
		t.Error(got)
	}
	for text, want := range map[string]string{
		"usdt:/no/such:a:b":                          "no such file",
		"usdt:" + userProgram + ":user:stpe":         `did you mean "user:step"?`,
		"usdt:" + userProgram + ":user:step($arg5)":  "4 parameters",
		"usdt:" + userProgram + ":user:step(return)": "is passed, and does not return",
	} {
		if _, err := resolveUser(t, text, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %q", text, err, want)
		}
	}
	for size, want := range map[int]string{4: "float", 8: "double", 16: "long double", 3: "long unsigned int"} {
		if param := staticArg(&userfunc.Arg{Size: size, Float: true, Base: "ax"}, "amd64"); !param.Absent || param.Type.TypeName() != want || size != 3 && !strings.HasPrefix(param.Why, "is a floating-point number") {
			t.Errorf("%d bytes: %+v", size, param)
		}
	}
	for _, a := range []userfunc.Arg{{Size: 3, Base: "ax"}, {Size: 8, Base: "none"}, {Size: 8, Unknown: true}, {}, {Size: -1 << 63, Base: "ax"}, {Size: 8, Memory: true, Base: "ax", Index: "x9"}} {
		if param := staticArg(&a, "amd64"); !param.Absent {
			t.Errorf("%+v is %+v", a, param)
		}
	}
}

// TestUserSessions: a function of user space opens sessions in which functions of the kernel are recorded,
// and is not taken for one of the kernel of its name.
func TestUserSessions(t *testing.T) {
	parse := func(text string) *expr.Spec {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	view := kernel.Open(fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: rawBTF(t, &btf.Func{Name: "user_open", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer}})}})
	o := Options{Arch: "amd64", UserFile: userfunc.Opener("", "amd64"), Described: true}
	user := "uprobe:" + userProgram + ":"
	p, _, err := ResolveSession(view, SessionRequest{Entry: []*expr.Spec{parse(user + "user_open"), parse(user + "user_o*")}, Allow: []*expr.Spec{parse("user_open")}, Args: true,
		Specs: []*expr.Spec{parse(user + "user_open(path, return < 0)")}}, o)
	if err != nil || len(p.Probes) != 2 {
		t.Fatalf("%v, %v", p, err)
	}
	entry, inside := p.Probes[0], p.Probes[1]
	if entry.Role != layout.RoleEntry || entry.Method != layout.MethodUprobe || entry.Class != layout.FailsInt64 || entry.Args != nil || len(entry.Items) != 2 || entry.Hook.Place == 0 {
		t.Errorf("%+v", entry)
	}
	if name, file := entry.Named(); name != "user_open" || file != "user_amd64" {
		t.Errorf("%s of %s", name, file)
	}
	if inside.Role != layout.RoleInside || inside.Method == layout.MethodUprobe || inside.Kind != expr.Function {
		t.Errorf("%+v", inside)
	}
	for text, want := range map[string]string{user + "user_open+1": "an instruction is only passed", user + "none": "is called"} {
		if _, _, err := ResolveSession(view, SessionRequest{Entry: []*expr.Spec{parse(text)}}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %q", text, err, want)
		}
	}
	_, _, err = ResolveSession(view, SessionRequest{Entry: []*expr.Spec{parse(user + "user_open")}, Deny: []expr.Selector{parse("uprobe:user_amd64:user_*").Selector}}, o)
	if err == nil || !strings.Contains(err.Error(), "denied by") {
		t.Errorf("of what is denied: %v", err)
	}
}
