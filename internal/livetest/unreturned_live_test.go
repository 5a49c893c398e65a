// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveUnreturned: a trace has the values of calls that do not return, and of those that have not returned yet.
func TestLiveUnreturned(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	exit := []string{"-e", sys + "exit_group", "-a", "do_group_exit(exit_code)", "-a", "do_exit(code)", "-n", "sh", "--", "sh", "-c", "exit 7"}
	const code = `code = 1792` // 7 << 8
	jumps := []string{"-e", "uprobe:" + file + ":jump_outs(n)", "-a", "uprobe:" + file + ":jump_out(n, return)", "--", file, "1", "5"}
	for _, c := range []struct {
		name    string
		options []string
		want    map[string]int
	}{
		{"exit", exit, map[string]int{`→ do_group_exit +exit_` + code: 1, `→ do_exit +` + code: 1, `\[\.\.\.\] +do_exit +` + code: 1}},
		{"exit, live", append([]string{"--live"}, exit...), map[string]int{`→ do_exit *\n`: 1, `… do_group_exit +exit_` + code: 1, `… do_exit +` + code: 1}},
		{"longjmp", jumps, map[string]int{`→ jump_outs \[user\] +n = 5`: 1, `→ jump_out \[user\] +n = [1-5]\n`: 5, `↔ jump_out \[user\] +\[0\] .* n = 0`: 1}},
		// 430 calls and almost 8 KiB of values are more than the log has room for.
		{"a log almost full", []string{"-e", "uprobe:" + file + ":run(buf($sp, 4096), buf($sp + 1, 3900))", "-a", "uprobe:" + file + ":user_depth", "--", file, "10", "43"},
			map[string]int{`no return was seen before the thread ended`: 1, `→ run \[user\] +buf\(\$sp, 4096\) = .*buf\(\$sp \+ 1, 3900\) = `: 1, `[→↔] user_depth`: 430, `\[\.\.\.\] +run .*buf`: 1}},
		{"sleep", []string{"--hung", "300ms", "-e", "hrtimer_nanosleep(mode)", "-n", "sleep", "--", "sleep", "2"},
			map[string]int{`still open`: 1, `→ hrtimer_nanosleep +mode = HRTIMER_MODE_REL`: 1, `\[\.\.\.\] +hrtimer_nanosleep.* mode = HRTIMER_MODE_REL`: 1, `↔ hrtimer_nanosleep +\[0\] .* mode = HRTIMER_MODE_REL`: 1}},
	} {
		out, errs, _ := ksnoop(t, append([]string{"trace", "-S", "-T", "-s", "none"}, c.options...)...)
		for re, n := range c.want {
			if got := len(regexp.MustCompile(re).FindAllString(out, -1)); got != n {
				t.Errorf("%s: %d times %s, want %d:\n%s\n%s", c.name, got, re, n, out, errs)
			}
		}
	}
}

// TestLiveUnreturnedRenamed is TestLiveUserRenamed for a function of the kernel. Without tracefs the kernel waits for ten of its returns, or
// for two for each CPU; cat takes them all. What the shell reads then returns unseen: first while it is called "first", then
// as "second". Each system call begins at another offset in the stack, so that of many reads some are at no lower address than the first.
func TestLiveUnreturnedRenamed(t *testing.T) {
	guest.Require(t)
	readers := 3 * max(10, 2*runtime.NumCPU()) // what else reads takes some room when they begin
	// The shell's own reads while it waits are short: what is in a read while the last cat begins leaves room behind.
	script := fmt.Sprintf(`mkfifo /tmp/renamed; for i in $(seq %d); do cat /tmp/renamed & cats="$cats $!"; done; exec 9>/tmp/renamed
for cat in $cats; do until read where < /proc/$cat/wchan; case $where in *pipe_read) ;; *) false;; esac; do sleep .1; done; done
printf first > /proc/$$/comm; read x < /dev/null; printf second > /proc/$$/comm; for i in $(seq 40); do read x < /dev/null; done; exec 9>&-; wait; rm /tmp/renamed`, readers)
	out, errs, _ := printedOnce(t, "unshare", hidingArgs([]string{"/sys/kernel/tracing", "/sys/kernel/debug"},
		"trace", "-S", "-T", "-s", "none", "--attach=kprobe", "-n", "first", "-e", "ksys_read", "--", "sh", "-c", script)...)
	if strings.Contains(out, "(second/") || counted(t, errs, "returns of calls in a session not seen") == 0 {
		t.Errorf("%s\n%s", out, errs)
	}
}

// TestLiveEndedLast: a session that begins in the last call of a thread, after the kernel has told of its exit, is not shown, but
// counted.
func TestLiveEndedLast(t *testing.T) {
	guest.Require(t)
	const threads = 3
	out, errs, status := ksnoop(t, "trace", "-S", "-T", "-s", "none", "-n", "true", "--attach=kprobe", "-e", "do_task_dead", "--",
		"sh", "-c", fmt.Sprintf("for i in $(seq %d); do /bin/true; done; sleep 2", threads))
	if n := counted(t, errs, "returns of calls in a session not seen"); n != threads || status != 0 || strings.Contains(out, "do_task_dead") {
		t.Errorf("%d of %d, status %d\n%s\n%s", n, threads, status, out, errs)
	}
}

// TestLiveNoRoom: predicates on results and times decide on calls whose values find no room in a session, too. A predicate that
// needs such a value does not hold.
func TestLiveNoRoom(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	const calls = 12 // user_depth(12) calls itself down to user_depth(1), and each returns its argument
	for shown, options := range map[string][]string{`[←↔] user_depth`: {"-T"}, `(?m)^!.* user_depth`: nil} {
		predicates := map[string]int{"(int)return < 4": 3, "$duration > 0": calls, "(int)return - n == 0": -1}
		if options == nil {
			delete(predicates, "$duration > 0") // the same code
		}
		for predicate, want := range predicates {
			spec := "uprobe:" + file + ":user_depth(n, buf($sp, 3000), " + predicate + ")"
			out, errs, _ := ksnoop(t, slices.Concat([]string{"trace", "-S", "-s", "none", "-e", spec}, options, []string{"--", file, "1", fmt.Sprint(calls)})...)
			lost := counted(t, errs, "calls of sessions without their values")
			if want < 0 {
				want = calls - lost
			}
			if got := len(regexp.MustCompile(shown).FindAllString(out, -1)); got != want || lost < 1 || lost >= calls {
				t.Errorf("%s %s: %d calls shown, want %d; %d without values:\n%s\n%s", options, predicate, got, want, lost, out, errs)
			}
		}
		// What a call was called with decides whether its session is wanted, even if there is no room to show it.
		spec := "uprobe:" + file + ":user_depth(n == 2"
		for i := range 7 {
			spec += fmt.Sprintf(", buf($sp + %d, 4096)", i)
		}
		spec += ")"
		out, errs, _ := ksnoop(t, slices.Concat([]string{"trace", "-S", "-s", "none", "-e", spec}, options, []string{"--", file, "1", "2"})...)
		if len(regexp.MustCompile(shown).FindAllString(out, -1)) != 1 {
			t.Errorf("%s: a call without values is not shown:\n%s\n%s", options, out, errs)
		}
	}
}
