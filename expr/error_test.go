// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// faulty are the texts of faulty SPECs by the code of their fault: each code
// has an example, which docs/language.md shows.
var faulty = []struct {
	code Code
	text string
}{
	{CodeSyntax, "send(count ==)"},
	{CodeSyntax, "send(count = 3)"},
	{CodeSyntax, "send(count"},
	{CodeSyntax, "send(count,)"},
	{CodeSyntax, "send(count flags)"},
	{CodeSyntax, "send(count) flags"},
	{CodeSyntax, `send($comm == "ping)`},
	{CodeSyntax, "send(count == 0x)"},
	{CodeSyntax, "send(count == 12abc)"},
	{CodeSyntax, "send(count == 99999999999999999999)"},
	{CodeSyntax, "send(count == 'ab')"},
	{CodeSyntax, "send(count # 3)"},
	{CodeSyntax, "send(count == 089)"},
	{CodeSyntax, "send count > 3"},
	{CodeSyntax, "send count > ntohs(3))"},
	{CodeSyntax, "send recv"},
	{CodeSyntax, "send /count > 3/"},
	{CodeSyntax, "send / count > 3 / { @ = count(); }"},
	{CodeSyntax, "send, recv"},
	{CodeSyntax, "send , tcp_*,recv"},
	{CodeSyntax, "send, recv(count > 3)"},
	{CodeSyntax, "se/nd(count)"},
	{CodeSyntax, "s[en]d(count)"},
	{CodeSyntax, "send[(count)"},
	{CodeSyntax, "bpf:drop[(count)"},
	{CodeSyntax, ":"},
	{CodeSyntax, "sycall:openat"},
	{CodeSyntax, "tp:sched:"},
	{CodeSyntax, "kprobe:send+x"},
	{CodeSyntax, "uprobe:malloc"},
	{CodeSyntax, "usdt:/bin/x:name"},
	{CodeSyntax, "uprobe:/bin/sh:main+x"},
	{CodeSyntax, "ur:/bin/sh:main"},
	{CodeSyntax, "uretprobe:malloc"},
	{CodeSyntax, "uretprobe:/bin/sh:main+0x4"},
	{CodeSyntax, "syscall:send(:int)"},
	{CodeSyntax, "*(:)"},
	{CodeSyntax, "*(:struct sk_buff * skb)"},
	{CodeSyntax, "send($any(sk))->x"},
	{CodeSyntax, ""},
	{CodeSyntax, `send($comm == "a\x00b")`},
	{CodeSyntax, "send(count => 3)"},
	{CodeSyntax, "send(count =< 3)"},
	{CodeSyntax, "send(count <> 3)"},
	{CodeSyntax, `send($comm =~ "*.conf")`},
	{CodeSyntax, `send($comm !~ "*.conf")`},
	{CodeSyntax, "send($comm ~ *.conf)"},
	{CodeSyntax, "send($comm == /nope)"},
	{CodeSyntax, "send($comm ~ nginx*)"},
	{CodeSyntax, "send($comm ~ eth?)"},
	{CodeSyntax, "send(count == 1.5)"},
	{CodeSyntax, "send(count > 3 ? 1 : 2)"},
	{CodeSyntax, "send(,count)"},
	{CodeSyntax, `send( == "cat")`},
	{CodeSyntax, "send(count, > 10ms)"},
	{CodeSyntax, "send)"},
	{CodeSyntax, "send(not count)"},
	{CodeSyntax, "send(count == 3 and len == 4)"},
	{CodeSyntax, "tp:sched/sched_switch"},
	{CodeSyntax, "sched:sched_switch"},
	{CodeSyntax, "/etc/passwd"},
	{CodeSyntax, "send(count() by $comm)"},
	{CodeSyntax, "send(count > 10 ms)"},
	{CodeSyntax, "send(count > 4k)"},
	{CodeSyntax, "send(count > 16MiB)"},
	{CodeSyntax, "send { count }"},
	{CodeSyntax, "send(@count)"},
	{CodeSyntax, "kretprobe:send"},
	{CodeSyntax, "kretprobe:send(return < 0, count)"},
	{CodeSyntax, "fexit:send"},
	{CodeSyntax, "tracepoint:sched:sched_switch"},
	{CodeLimit, "send(" + strings.Repeat("(", MaxNesting+1) + "1" + strings.Repeat(")", MaxNesting+1) + ")"},
	{CodeLimit, "send(buf(sk, 4097))"},
	{CodeLimit, `send($comm == "` + strings.Repeat("x", MaxText) + `")`},
	{CodeUnknownName, "send(cuont == 3)"},
	{CodeUnknownName, "send(retrun < 0)"},
	{CodeUnknownName, "send(ret < 0)"},
	{CodeUnknownName, "send(retval)"},
	{CodeUnknownName, "send(hist)"},
	{CodeUnknownName, "send(str == 3)"},
	{CodeUnknownName, "send(arg0)"},
	{CodeUnknownName, "send(args->count)"},
	{CodeUnknownName, "send(sk->dev->name == eth0)"},
	{CodeUnknownName, "send(pid == 3)"},
	{CodeUnknownName, `send(comm == "ping")`},
	{CodeUnknownName, "send(nsecs > 3)"},
	{CodeUnknownName, "send(elapsed > 3)"},
	{CodeUnknownName, "send($elapsed > 3)"},
	{CodeUnknownName, "send(curtask->flags)"},
	{CodeUnknownName, "send(kstack, ustack, func)"},
	{CodeUnknownName, "send($retval < 0)"},
	{CodeUnknownName, "send($pdi == 3)"},
	{CodeUnknownName, "send($name)"},
	{CodeUnknownName, "send(COUNT == 3)"},
	{CodeUnknownName, "send(return == -enoent)"},
	{CodeUnknownName, "send($elapsed_nanos == 3)"},
	{CodeUnknownName, "send(count()[$func, $stak])"},
	{CodeUnknownName, "send($contaner)"},
	{CodeType, "send($container == 3)"},
	{CodeType, `send(count()[$comm, $pod ~ "web*"])`},
	{CodeType, "send(hex($pod))"},
	{CodeUnknownName, "send($arg7)"},
	{CodeUnknownName, "send($any(struct device *)->flags)"},
	{CodeUnknownType, "send($any(struct devise *)->flags)"},
	{CodeUnknownName, "send(sk->state == TCP_ESTABLISHD)"},
	{CodeUnknownType, "send((struct sok *)buf)"},
	{CodeUnknownType, "send((sock_t *)buf)"},
	{CodeUnknownMember, "send(sk->famly == 2)"},
	{CodeUnknownFunc, "send(usr(buf))"},
	{CodeUnknownFunc, "send(mean(count))"},
	{CodeUnknownFunc, "send(p99(count)[$comm])"},
	{CodeAmbiguous, "send(count == GREEN)"},
	{CodeType, "send($comm == nginx)"},
	{CodeType, "send(count->x)"},
	{CodeType, "send(sk.family)"},
	{CodeType, "send(t->src)"},
	{CodeType, "send(*count)"},
	{CodeType, "send(*sk == 1)"},
	{CodeType, "send(sk->hidden->x)"},
	{CodeType, "send(&count)"},
	{CodeType, "send(&sk->dev->flags)"},
	{CodeType, "send(-sk)"},
	{CodeType, "send(sk * 2)"},
	{CodeType, "send(sk << 2)"},
	{CodeType, "send(5 - sk)"},
	{CodeType, `send("x")`},
	{CodeType, `send(count == "x")`},
	{CodeType, `send(count == "4096")`},
	{CodeType, "send(count[$comm])"},
	{CodeType, `send(sk == "x")`},
	{CodeType, `send(return == "ENOENT")`},
	{CodeType, `send(*sk->dev == "eth0")`},
	{CodeType, "send(str(sk->dev->name)[2])"},
	{CodeType, "send(str(buf)[flags])"},
	{CodeType, "send($comm[0] == 'a')"},
	{CodeType, "send(buf(buf, 8)[0])"},
	{CodeType, `send(buf[0] == "x")`},
	{CodeType, `send(t.ports == "x")`},
	{CodeType, `send(t.tag == "x")`},
	{CodeType, "send(sk->dev->ids[1][2])"},
	{CodeType, "send(t.ports[1][0])"},
	{CodeType, "send(cpu[0])"},
	{CodeType, `send($comm < "x")`},
	{CodeType, `send($comm ~ count)`},
	{CodeType, "send($comm == 3)"},
	{CodeType, "send($comm == sk->dev->name)"},
	{CodeType, "send(sk->dev->name == sk->dev->next->name)"},
	{CodeType, "send((sk->dev->name) != sk->dev->name && count)"},
	{CodeType, "send(sk->dev->ids < sk->dev->next->ids)"},
	{CodeType, "send(sk->dev[sk])"},
	{CodeType, "send((struct sock)count)"},
	{CodeType, "send(diff(count) == 3)"},
	{CodeType, "send(diff(return))"},
	{CodeType, "send(diff(3))"},
	{CodeType, "send(diff(t))"},
	{CodeType, "send(entry(exit(count)) == 3)"},
	{CodeType, "send(entry(return))"},
	{CodeType, "send(user(flags))"},
	{CodeType, "send(sizeof(void))"},
	{CodeType, "send(container_of(count, struct tcp_sock, sk))"},
	{CodeType, "send(ntohs(sk))"},
	{CodeType, "send(ntohl(sk))"},
	{CodeSyntax, "send(container_of(sk, struct tcp_sock))"},
	{CodeType, "send(ip(sk->tiny))"},
	{CodeType, "send(ip((struct sockaddr *)buf))"},
	{CodeType, "send(mac(sk->dev->name))"},
	{CodeBounds, "send(sk->dev->ids[4])"},
	{CodeBounds, "send(t.ports[-1])"},
	{CodeArgs, "send(str())"},
	{CodeArgs, "send(buf(sk))"},
	{CodeUnsupported, "send(sk->ratio > 1)"},
	{CodeUnsupported, "send(sk->big + 1)"},
	{CodeUnsupported, "send(t.ports[flags])"},
	{CodeSyntax, "send(count()[])"},
	{CodeSyntax, "send(count()[)"},
	{CodeSyntax, "send(count()[flags,])"},
	{CodeSyntax, "send(count()[flags)"},
	{CodeSyntax, "send(count()[flags"},
	{CodeSyntax, "send(buf[1, 2])"},
	{CodeUnknownFunc, "send(hits(count))"},
	{CodeArgs, "send(count(flags))"},
	{CodeArgs, "send(sum())"},
	{CodeArgs, "send(hist(count, 1, 2))"},
	{CodeArgs, "send(lhist(count))"},
	{CodeArgs, "send(top(count))"},
	{CodeType, "send(count() > 3)"},
	{CodeType, "send(!sum(count))"},
	{CodeType, "send(sum(max(count)))"},
	{CodeType, "send(count()[flags]->x)"},
	{CodeType, "send(count()[flags][count])"},
	{CodeType, "send(count()[count()])"},
	{CodeType, "send(count(), flags, diff(*sk), count == 3)"},
	{CodeType, "send(sum(sk))"},
	{CodeType, "send(hist($comm))"},
	{CodeType, "send(top(3, sk->dev->name))"},
	{CodeType, "send(max(sk->dev->ids))"},
	{CodeType, "send(avg(*sk))"},
	{CodeType, `send(sum("x"))`},
	{CodeType, "send(sum(diff(count)))"},
	{CodeType, "send(count()[diff(count)])"},
	{CodeUnsupported, "send(stats(sk->ratio))"},
	{CodeType, "send(hist(count, flags))"},
	{CodeLimit, "send(hist(count, 3))"},
	{CodeLimit, "send(hist(count, 0))"},
	{CodeLimit, "send(hist(count, 100))"},
	{CodeType, "send(lhist(count, 0, flags, 10))"},
	{CodeLimit, "send(lhist(count, 10, 5, 1))"},
	{CodeLimit, "send(lhist(count, 0, 100, 0))"},
	{CodeLimit, "send(lhist(count, 0, 100, 30))"},
	{CodeLimit, "send(lhist(count, 0, 1024 * 30 + 1, 30))"},
	{CodeLimit, "send(lhist(count, 0, 10, 30))"},
	{CodeLimit, "send(lhist(count, 0, 10000, 1))"},
	{CodeLimit, "send(lhist(count, 0, 0xffffffffffffffff, 1))"},
	{CodeLimit, "send(top(0, count))"},
	{CodeLimit, "send(top(65, count))"},
	{CodeType, "send(top(flags, count))"},
	{CodeType, "send($stack)"},
	{CodeUnknownName, "send(task->flags)"},
	{CodeType, "send(sum($func))"},
	{CodeType, "send(count()[hex($stack)])"},
	{CodeType, "send(count()[exit($ustack)])"},
	{CodeLimit, "send(count()[*sk])"},
	{CodeLimit, "send(count()[buf(buf, 65)])"},
	{CodeLimit, "send(count()[buf(buf, count)])"},
	{CodeLimit, "send(count()[flags, count, cpu, $pid, $tid, $uid, $comm, $time, return])"},
	{CodeLimit, "send(count()[str(sk), buf, sk->dev->alias, sk->dev->next->alias])"},
	{CodeUnknownName, "send(count()[cuont], sum(flgs))"},
	// All faults at once.
	{CodeUnknownName, "send(cuont == 3, sk->famly, usr(buf), sk->dev->ids[9] && flgs)"},
}

// TestTaskUnknown: the kernel's object for the task is refused where it cannot be read: in user space every pointer leads to
// user memory, and without its type it has no members.
func TestTaskUnknown(t *testing.T) {
	for want, change := range map[string]func(*Scope){
		"which a function of user space does not reach": func(s *Scope) { s.User = true },
		"needs the type struct task_struct":             func(s *Scope) { s.Types = testLookup(nil) },
	} {
		spec, err := Parse("send($task->flags)")
		if err != nil {
			t.Fatal(err)
		}
		scope := testScope(typeLong)
		change(scope)
		if _, err := Check(spec, scope); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestErrors shows every fault as the user sees it.
func TestErrors(t *testing.T) {
	var b strings.Builder
	for _, f := range faulty {
		_, err := check(f.text, typeLong)
		var list *ErrorList
		if !errors.As(err, &list) {
			t.Errorf("%s: %v, want faults", f.text, err)
			continue
		}
		if list.Errors[0].Code != f.code {
			t.Errorf("%s: code %s, want %s", f.text, list.Errors[0].Code, f.code)
		}
		for _, e := range list.Errors {
			if e.Span.Start < 0 || e.Span.End < e.Span.Start || e.Span.End > len(f.text) {
				t.Errorf("%s: span %v", f.text, e.Span)
			}
		}
		fmt.Fprintf(&b, "%s\n%s\n\n", f.code, err)
	}
	golden(t, "testdata/errors.txt", b.String())
}

// A function that returns nothing is the one fault that needs another scope.
func TestErrorNoReturn(t *testing.T) {
	for _, result := range []struct {
		name string
		err  error
	}{{"nil", second(check("send(return)", nil))}, {"void", second(check("send(return < 0)", typeVoid))}} {
		var list *ErrorList
		if !errors.As(result.err, &list) || list.Errors[0].Code != CodeNoReturn {
			t.Errorf("%s: %v, want %s", result.name, result.err, CodeNoReturn)
		}
	}
}

// Of a call that was inlined, the compiler has not kept everything.
func TestErrorAbsent(t *testing.T) {
	params := []Param{{Name: "sk", Type: pointerTo(typeLong), Absent: true}, {Name: "count", Type: typeLong, Value: &Const{typeLong, 7}}}
	for text, want := range map[string]struct{ code, message string }{
		"send(sk != NULL)": {"absent", "sk is optimised out of send [inlined into f+0x4]; the compiler could do without its value; known there: count"},
		"send($arg1)":      {"absent", "sk is optimised out of send [inlined into f+0x4]; the compiler could do without its value; known there: count"},
		"send(count, cuont)": {"unknown-name", `send [inlined into f+0x4] has no parameter "cuont", and no enum has such a value; ` +
			`did you mean "count"?`},
		"send(return)": {"no-return", "send [inlined into f+0x4] is passed, and does not return; of a call that was inlined, only the beginning can be seen"},
	} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Check(spec, &Scope{Func: "send [inlined into f+0x4]", Params: params, Point: true, PointHint: "of a call that was inlined, only the beginning can be seen", Types: noTypes{}})
		var list *ErrorList
		if !errors.As(err, &list) || len(list.Errors) != 1 {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if e := list.Errors[0]; string(e.Code) != want.code || e.Error() != want.message {
			t.Errorf("%s: %s: %s\nwant %s: %s", text, e.Code, e, want.code, want.message)
		}
	}
	spec, err := Parse("send")
	if err != nil {
		t.Fatal(err)
	}
	items, err := Check(spec, &Scope{Func: "send", Params: params, Point: true, PointHint: "of a call that was inlined, only the beginning can be seen", Types: noTypes{}})
	if err != nil || len(items) != 1 || items[0].Captures[0].Label != "count" {
		t.Errorf("without items: %+v, %v", items, err)
	}
}

// Parameters without a name are told by their position.
func TestErrorNameless(t *testing.T) {
	params := []Param{{Type: typeLong}, {Type: typeLong, Absent: true}, {Name: "x", Type: typeLong}}
	for text, want := range map[string]string{
		"send(nothing)": `send has no parameter "nothing", and no enum has such a value; its parameters are $arg1, $arg2, x`,
		"send($arg2)":   "$arg2 is optimised out of send; the compiler could do without its value; known there: $arg1, x",
		"send(ret)":     `send has no parameter "ret", and no enum has such a value; its parameters are $arg1, $arg2, x`, // it returns nothing
	} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Check(spec, &Scope{Func: "send", Params: params, Types: noTypes{}})
		var list *ErrorList
		if !errors.As(err, &list) || list.Errors[0].Error() != want {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

// Enums without a name are told apart by their values alone.
func TestErrorAnonymousEnum(t *testing.T) {
	got := enumValues([]Enumerator{{&btf.Enum{Name: "color"}, 1}, {&btf.Enum{Signed: true}, 1<<64 - 7}})
	if want := "1 (enum color), -7 (enum (anonymous))"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func second[A any](_ A, err error) error { return err }

// Every code has an example, here and in the language's documentation.
func TestEveryCodeHasAnExample(t *testing.T) {
	source, err := os.ReadFile("error.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/language.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\tCode\w+ +Code = "([a-z-]+)"`).FindAllSubmatch(source, -1)
	if len(codes) < 10 {
		t.Fatalf("only %d codes found", len(codes))
	}
	have := map[string]bool{string(CodeNoReturn): true, string(CodeAbsent): true}
	for _, f := range faulty {
		have[string(f.code)] = true
	}
	for _, c := range codes {
		if !have[string(c[1])] {
			t.Errorf("no example has the fault %s", c[1])
		}
		if !strings.Contains(string(doc), "| `"+string(c[1])+"` |") {
			t.Errorf("docs/language.md does not have the fault %s", c[1])
		}
	}
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestForeignCharacters: a character at fault is shown whole, however many bytes it
// has, with one mark under it; and one that word processors write for another is
// told from it.
func TestForeignCharacters(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"send(диск)", "  send(диск)\n       ^\n  column 6: unexpected \"д\""},
		{"send(count – 1 == 3)", "  send(count – 1 == 3)\n             ^\n  column 12: unexpected \"–\"; the minus sign is \"-\""},
		{"send(−1)", "  send(−1)\n       ^\n  column 6: unexpected \"−\"; the minus sign is \"-\""},
		{"send($comm == “sh”)", "  send($comm == “sh”)\n                ^\n  column 15: unexpected \"“\"; strings are in plain quotes: \"text\""},
		{"send(count == ‘a’)", "  send(count == ‘a’)\n                ^\n  column 15: unexpected \"‘\"; characters are in plain quotes: 'a'"},
		{"send(count ≥ 1)", "  send(count ≥ 1)\n             ^\n  column 12: unexpected \"≥\"; write \">=\""},
		{"send(count \xff 1)", "  send(count · 1)\n             ^\n  column 12: unexpected \"\\xff\""},
		{"send(\U0001f600)", "  send(\U0001f600)\n       ^\n  column 6: unexpected \"\U0001f600\""},
	} {
		_, err := Parse(c.text)
		if err == nil || err.Error() != c.want {
			t.Errorf("%q:\n%v\nwant:\n%s", c.text, err, c.want)
		}
	}
}
