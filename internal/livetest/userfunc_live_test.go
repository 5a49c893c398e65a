// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/livetest/user"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// userProgram writes the program whose functions are traced, and returns where it is.
func userProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "user")
	if err := os.WriteFile(file, user.Program(), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLiveUserFunction: calls of functions of a program, by their arguments; user.c says what these are.
func TestLiveUserFunction(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	cases := []struct {
		items string
		want  int
	}{
		{"user_add((int)$arg2 < 0, $arg1 == 1001, (u8)$arg3 == 255)", 1},
		{"user_add($arg1 >= 1000, $arg1 < 1004)", 4},
		{`user_open(str($arg1) == "/no/such/file", $arg2 == 0)`, 4},
		{`user_open(str($arg1) ~ "/etc/*")`, 0},
		{`user_weigh(*(int *)$arg1 == 12, ((int *)$arg1)[1] == 20, str($arg2) ~ "a *")`, 1},
		{"user_weigh(*(int *)*(long *)(*(long *)((long)$arg1 + 24) + 24) == 3)", 4}, // the third point of the list
		{"user_weigh(*(int *)*(long *)((long)$arg1 + 24) == 1)", 4},
		{`user_weigh(p->x == 11, p->next->next->name == "second", p->next->next->next == NULL, label ~ "a *")`, 1}, // by debug info
		{"user_depth(n == 1)", 4},
		{"user_depth()", 12},
	}
	args := []string{"trace"}
	for _, c := range cases {
		args = append(args, "uprobe:"+file+":"+c.items)
	}
	out, errs, status := ksnoop(t, append(args, "--", file, "4")...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	total := 0
	for _, c := range cases {
		total += c.want
	}
	if n := strings.Count(out, "uprobe:"+file+":"); n != total {
		t.Errorf("%d records, want %d:\n%s\n%s", n, total, out, errs)
	}
	// Recorded, and asked again without the file. Structs are shown as those of the kernel are.
	recording := filepath.Join(t.TempDir(), "recording")
	if _, errs, status = ksnoop(t, "trace", "--record", recording, "uprobe:"+file+":user_weigh(*p, label)", "uprobe:"+file+":user_many", "--", file, "4"); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	out, errs, status = ksnoop(t, "replay", recording, "uprobe:"+file+":user_weigh(p->x > 11, *p, label)", "uprobe:"+file+":user_many")
	for want, n := range map[string]int{":user_weigh(": 2, ".x = (int)12,": 1, `.name = (char[15])"here",`: 2, `"a label"`: 2, "g = (long)7": 4, "j = (long)13": 1, "return = (long)55": 1} {
		if got := strings.Count(out, want); got != n || status != 0 {
			t.Errorf("%d times %q, want %d; status %d:\n%s\n%s", got, want, n, status, out, errs)
		}
	}
}

// TestLiveUserReturn: what functions of a program return, beside what they were called with: of calls
// within each other, and of several processes at the same time.
func TestLiveUserReturn(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	spec := func(items string) string { return "uprobe:" + file + ":" + items }
	out, errs, status := ksnoop(t, "trace",
		spec("user_add((long)return != $arg1 + (int)$arg2 + (u8)$arg3)"), // never
		spec("user_depth((int)return != (int)$arg1)"),                    // never
		spec("user_depth(count()[(int)return == (int)$arg1])"),
		spec("user_weigh(count()[return == *(int *)$arg1 + 30, exit(str($arg2))])"), // user.c: the other points are 1 + 2 and 3 + 4, and y is 20
		"uretprobe:"+file+":user_depth(sum(return)[n], return == n)",
		"--", "sh", "-c", "for i in 1 2 3 4; do "+file+" 500 & done; wait")
	if status != 0 || strings.Contains(out, " uprobe:") {
		t.Errorf("status %d, or calls of which nothing holds:\n%s\n%s", status, out, errs)
	}
	for _, want := range []string{"6,000", "4,000", "2,000", `"a label"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s\n%s", want, out, errs)
		}
	}
	out, errs, status = ksnoop(t, "trace", "--join", spec("user_open"), "--", file, "1")
	if !strings.Contains(out, "return = (long)-2") || status != 0 {
		t.Errorf("status %d, and no error:\n%s\n%s", status, out, errs)
	}
	// The same and no more at return alone: the name of what is open was passed, and is read then.
	out, errs, status = ksnoop(t, "trace", "uretprobe:"+file+":user_open", "uretprobe:"+file+":user_add(count())", "uretprobe:"+file+":run", "uretprobe:"+file+":run(count())", "--", file, "1")
	if !strings.Contains(out, "return = (long)-2") || strings.Contains(out, "path") || strings.Count(out, " uretprobe:"+file+":user_open(") != 1 ||
		strings.Contains(out, "uretprobe:"+file+":run(\n") || strings.Contains(out, " uprobe:") || status != 0 {
		t.Errorf("status %d; of returns alone:\n%s\n%s", status, out, errs)
	}
	// Of both at the same place, each record has its own name, in a recording, too.
	recording := filepath.Join(t.TempDir(), "recording")
	if _, errs, status = ksnoop(t, "trace", "--record", recording, spec("user_open(path)"), "uretprobe:"+file+":user_open(return)", "--", file, "3"); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, form := range []string{"text", "json"} {
		out, errs, status = ksnoop(t, "replay", "--format", form, recording)
		before, after := " ", "("
		if form == "json" {
			before, after = `"name":"`, `","`
		}
		for _, kind := range []string{"uprobe:", "uretprobe:"} {
			if got := strings.Count(out, before+kind+file+":user_open"+after); form == "text" && got != 3 || got < 1 || status != 0 {
				t.Errorf("%d records of %s as %s; status %d:\n%s\n%s", got, kind, form, status, out, errs)
			}
		}
	}
	// run never returns. What is kept of its calls is given back when they end.
	out, errs = stashed(t, "--attach=auto", spec("run($duration)"), "for i in $(seq 120); do "+file+" 1; done")
	if out != "" && strings.Contains(out, " uprobe:") || counted(t, errs, "(?:records lost|calls not seen)") > 0 {
		t.Errorf("of a function that does not return:\n%s\n%s", out, errs)
	}
}

// TestLiveStaticProbe: USDT probes, with arguments in registers and memory; user.c says what these are. One
// is only passed while somebody traces it.
func TestLiveStaticProbe(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	recording := filepath.Join(t.TempDir(), "recording")
	_, errs, status := ksnoop(t, "trace", "--record", recording, "usdt:"+file+":user:step($arg1 == -$arg2, $arg3 == 1, $arg4)",
		"usdt:"+file+`:user:guarded(str($arg1) == "here", $arg2 == 0x10000000000)`, "--", file, "4")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	out, errs, status := ksnoop(t, "replay", recording)
	for want, n := range map[string]int{":user:step(": 4, ":user:guarded(": 4, "$arg4 = (unsigned char)253": 1, `"here"`: 4} {
		if got := strings.Count(out, want); got != n || status != 0 {
			t.Errorf("%d times %s, want %d; status %d:\n%s\n%s", got, want, n, status, out, errs)
		}
	}
	out, errs, status = ksnoop(t, "trace", "uprobe:"+file+":user_many", "usdt:"+file+":user:step(count())", "--", file, "2")
	if !strings.Contains(out, " 2\n") || strings.Contains(out, "guarded") || status != 0 {
		t.Errorf("status %d:\n%s\n%s", status, out, errs)
	}
}

// TestLiveUserSession: a session begins in a program and ends with the kernel's error.
func TestLiveUserSession(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	recording := filepath.Join(t.TempDir(), "recording")
	out, errs, status := ksnoop(t, "trace", "-s", "none", "-T", "--record", recording, "-e", "uprobe:"+file+":user_open(path, return < 0)",
		"-a", "do_sys_openat2", "-a", "path_openat", "--", file, "3")
	if status != 0 || out != "" {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	out, errs, status = ksnoop(t, "replay", recording, "-T")
	for want, n := range map[string]int{"→ user_open [user] ": 3, "← user_open [user] ": 3, `path = "/no/such/file"`: 6, "[-ENOENT]  path_openat\n": 3} {
		if got := strings.Count(out, want); got != n || status != 0 {
			t.Errorf("%d times %q, want %d; status %d:\n%s\n%s", got, want, n, status, out, errs)
		}
	}
	if first, last := strings.Index(out, "]  user_open [user]"), strings.Index(out, "entry_SYSCALL"); last >= 0 && first > last {
		t.Errorf("the program's function is not above the kernel's:\n%s", out)
	}
}

// TestLiveUserSessionCaptures: -A captures each kernel function's own arguments behind a function of a program, which has none.
func TestLiveUserSessionCaptures(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	out, errs, status := ksnoop(t, "trace", "-s", "none", "-A", "-S", "-T", "-e", "uprobe:"+file+":user_open", "-a", "do_sys_openat2", "-a", "path_openat", "--", file, "1")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, want := range []string{`do_sys_openat2 .*dfd=-100 filename="/no/such/file" how=&{.*`, `path_openat .*nd=&{.* op=&{.* flags=\d+`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// TestLiveUserSessionRecursive: a function that calls itself is in a session as often as it is called, with the results
// that user.c says: user_depth(n) returns n. What is called after it is not within it.
func TestLiveUserSessionRecursive(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	depth := "uprobe:" + file + ":user_depth"
	for _, spec := range []string{depth, depth + "(n > 0, return > 0)"} {
		out, errs, status := ksnoop(t, "trace", "-S", "-T", "-s", "none", "-e", spec, "-a", "uprobe:"+file+":user_many", "--", file, "5")
		if status != 0 || errs != "" || strings.Contains(out, "user_many") || strings.Contains(out, "unseen") {
			t.Errorf("%s: status %d:\n%s\n%s", spec, status, out, errs)
		}
		for want, n := range map[string]int{
			`(?m)^→ user_depth \[user\]`: 5, `(?m)^    → user_depth \[user\]`: 5, `(?m)^        ↔ user_depth \[user\].*\[1\]`: 5,
			`(?m)^    ← user_depth \[user\].*\[2\]`: 5, `(?m)^← user_depth \[user\].*\[3\]`: 5,
		} {
			if got := len(regexp.MustCompile(want).FindAllString(out, -1)); got != n {
				t.Errorf("%s: %d times %s, want %d:\n%s", spec, got, want, n, out)
			}
		}
	}
	// The kernel sees 64 returns (MAX_URETPROBE_DEPTH).
	out, errs, _ := ksnoop(t, "trace", "-S", "-T", "-s", "none", "-e", depth, "--", file, "1", "70")
	for want, n := range map[string]int{`(?m)^ *→ user_depth \[user\]`: 70, `(?m)^ *← user_depth \[user\] +\[\d+\]`: 64, `← user_depth \[user\] +\[7\]`: 1, `(?m)^← user_depth \[user\] +\[70\]`: 1} {
		if got := len(regexp.MustCompile(want).FindAllString(out, -1)); got != n || counted(t, errs, "returns of calls in a session not seen") != 6 {
			t.Errorf("%d times %s, want %d:\n%s\n%s", got, want, n, out, errs)
		}
	}
}

// TestLiveUserJumps: functions that jump to each other share a stack pointer and a return. Each call has its own return,
// in sessions and outside. user.c has how many there are: jump_turns(n) calls jump_even(n), (n + 1) and (n + 2), and
// these one another down to 0. The kernel sees 64 returns at once.
func TestLiveUserJumps(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	even, odd, turns := "uprobe:"+file+":jump_even", "uprobe:"+file+":jump_odd", "uprobe:"+file+":jump_turns"
	expect := func(out, errs string, status int, want map[string]int) {
		t.Helper()
		for re, n := range want {
			if got := len(regexp.MustCompile(re).FindAllString(out, -1)); got != n || status != 0 {
				t.Errorf("%d times %s, want %d; status %d:\n%s\n%s", got, re, n, status, out, errs)
			}
		}
	}
	// jump_even(3) to jump_odd(0), jump_even(4) to jump_even(0), jump_even(5) to jump_odd(0).
	out, errs, status := ksnoop(t, "trace", "-S", "-T", "-s", "none", "-e", turns, "-a", even+"(n)", "-a", odd, "--", file, "2", "3")
	expect(out+errs, errs, status, map[string]int{
		`(?m)^→ jump_turns`: 2, `(?m)^← jump_turns .*\[1\]`: 2, `→ jump_even`: 2 * 7, `← jump_even`: 2 * 7, `n = 0\b`: 2, `→ jump_odd`: 2 * 5, `← jump_odd`: 2 * 5, `↔ jump_even`: 2, `↔ jump_odd`: 2 * 2, "unseen|not seen": 0,
	})
	out, errs, status = ksnoop(t, "trace", "-S", "-T", "-s", "none", "-e", even, "--", file, "2", "3") // the outermost ones are sessions
	expect(out+errs, errs, status, map[string]int{`(?m)^→ jump_even`: 2 * 3, `(?m)^← jump_even .*\[0\]`: 2 * 2, `(?m)^← jump_even .*\[1\]`: 2, "unseen|not seen": 0})

	// Calls below user_turns(70): 71, 72 and 73, of which 63 return.
	out, errs, status = ksnoop(t, "trace", "-S", "-T", "-s", "none", "-e", turns, "-a", even, "-a", odd, "--", file, "1", "70")
	expect(out, errs, status, map[string]int{`→ jump_`: 1 + 71 + 72 + 73, `← jump_turns .*\[2\]`: 1, `← jump_(even|odd)`: 3 * 63, "--- 27 calls ended unseen ---": 1})

	out, errs, status = ksnoop(t, "trace", even+"(n, return == 1)", even+"(count()[(int)return])", "uretprobe:"+file+":jump_odd(count()[n])", "--", file, "2", "3")
	expect(out+errs, errs, status, map[string]int{`return = \(int\)1`: 2 * 3, `n = \(int\)0`: 2, "not seen": 0})

	out, errs, status = ksnoop(t, "trace", even+"(n >= 0, count()[(int)return])", "--", file, "1", "198")
	// 100 + 100 + 101 calls, of which 3 times 64 return, with 1, 0 and 1.
	expect(out+errs, errs, status, map[string]int{"109 returns of functions of the process not seen": 1, `\b1 +128\n`: 1, `\b0 +64\n`: 1})
}

// TestLiveUserLongjmp: calls that longjmp ends have no returns, and are not taken for others at the same place in the
// stack. user.c calls jump_out(n) to jump_out(0), which jumps to jump_on, and only the last ones return.
func TestLiveUserLongjmp(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	const depth = 70 // more than the kernel waits for
	out, on := "uprobe:"+file+":jump_out", "uprobe:"+file+":jump_on"
	text, errs, status := ksnoop(t, "trace", on+"(n, return)", on+"(n >= 0, count()[n])", on+"(n >= 0, count()[(int)return])", out+"(n < 5, return)", "--", file, "2", fmt.Sprint(depth))
	for re, n := range map[string]int{` n = \(int\)\d+`: 2 * (depth + 1 + 5), `\bn = \(int\)0`: 4, `return = \(int\)0`: 4, `\b0 +2\n`: 2, "not seen": 0} {
		if got := len(regexp.MustCompile(re).FindAllString(text+errs, -1)); got != n || status != 0 {
			t.Errorf("%d times %s, want %d; status %d:\n%s\n%s", got, re, n, status, text, errs)
		}
	}
	text, errs, status = ksnoop(t, "trace", "-S", "-T", "-s", "none", "-e", out, "-a", on, "--", file, "2", fmt.Sprint(depth))
	if strings.Count(text, "→ jump_out") != 2 || strings.Count(text, "← jump_out") != 2 || strings.Count(text, "↔ jump_on") != 2 || status != 0 ||
		counted(t, errs, "returns of calls in a session not seen") != 2*2*depth || strings.Contains(errs, "taken for") {
		t.Errorf("status %d:\n%s\n%s", status, text, errs)
	}
}

// TestLiveUserJoin: the two records of a call belong together, whatever became of the calls within it: live, from a
// recording, and where a SPEC for it is decided by both. user.c says what is called and returned: user_depth(n) returns n, and the kernel shows
// the returns of 64 such calls. jump_within(n) returns n if that is even; those of odd numbers leave by longjmp.
func TestLiveUserJoin(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	const times, depth, seen = 2, 70, 64
	functions := []struct {
		name       string
		pairs, one int // calls that return, and that do not
	}{{"user_depth", seen, depth - seen}, {"jump_within", depth/2 + 1, depth/2 + 1}}
	check := func(how, out, errs string, status int) {
		t.Helper()
		lines := of(jsonLines(t, out), "call")
		for _, f := range functions {
			pairs, one, wrong := 0, 0, ""
			for _, l := range lines {
				if !strings.HasSuffix(l.Name, ":"+f.name) {
					continue
				}
				n, result := string(l.Values["n"]), string(l.Values["return"])
				switch {
				case result == "" && n != "":
					one++
				case result == `{"value":`+n+`}`:
					pairs++
				default:
					wrong = fmt.Sprintf("; %s(%s) has returned %s", f.name, n, result)
				}
			}
			if pairs != times*f.pairs || one != times*f.one || status != 0 {
				t.Errorf("%s: %d calls of %s have returned, %d have not, want %d and %d%s; status %d: %s", how, pairs, f.name, one, times*f.pairs, times*f.one, wrong, status, errs)
			}
		}
	}
	var all, some []string
	for _, f := range functions {
		all, some = append(all, "uprobe:"+file+":"+f.name), append(some, "uprobe:"+file+":"+f.name+"((int)n >= 0, n, return)")
	}
	program := []string{"--", file, fmt.Sprint(times), fmt.Sprint(depth)}
	run := func(args ...[]string) (out, errs string, status int) {
		t.Helper()
		return ksnoop(t, slices.Concat(args...)...)
	}
	join := []string{"--join", "--format", "json"}
	for how, specs := range map[string][]string{"all": all, "with a predicate": some} {
		recording := filepath.Join(t.TempDir(), "recording")
		out, errs, status := run([]string{"trace"}, join, specs, program)
		check(how, out, errs, status)
		if _, errs, status := run([]string{"trace", "--record", recording}, specs, program); status != 0 {
			t.Fatalf("status %d: %s", status, errs)
		}
		out, errs, status = run([]string{"replay"}, join, []string{recording})
		check(how+", replayed", out, errs, status)
		out, errs, status = run([]string{"replay"}, join, []string{recording}, some)
		check(how+", asked again", out, errs, status)
		out, errs, status = run([]string{"replay", recording}, []string{"uprobe:" + file + ":*(n != return)", "uprobe:" + file + ":*(n == return, count())"})
		if want := fmt.Sprintf(" %d\n", times*(functions[0].pairs+functions[1].pairs)); strings.Contains(out, "n = ") || !strings.Contains(out, want) || status != 0 {
			t.Errorf("%s: status %d, want %s:\n%.2000s\n%s", how, status, want, out, errs)
		}
	}
}

// TestLiveUserLongjmpRoom: what is kept of calls that longjmp has ended is given back when a call further out is made. There
// are more such calls than a thread has room for.
func TestLiveUserLongjmpRoom(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	out, errs, status := ksnoop(t, "trace", "uprobe:"+file+":jump_out(n >= 0, count()[(int)return])", "--", file, "1", "300")
	if !regexp.MustCompile(`\b0 +2\n`).MatchString(out) || strings.Contains(errs, "not seen") || status != 0 {
		t.Errorf("status %d:\n%s\n%s", status, out, errs)
	}
}

// TestLiveUserRejected: a call that does not meet its predicates is not taken for one that was made at the same place in the
// stack and has not returned, or that has led to it by jumps.
func TestLiveUserRejected(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	spec := func(function, items string) string { return "uprobe:" + file + ":" + function + "(" + items + ")" }
	// jump_out(3) to jump_out(1) leave by longjmp, jump_out(0) returns.
	out, errs, status := ksnoop(t, "trace", spec("jump_out", "n > 0, count()[n, return]"), spec("jump_on", "n == 2, return == 0"), spec("jump_on", "n == 0, return == 0, count()[n, return]"), "--", file, "2", "3")
	if strings.Count(out, "no calls") != 1 || strings.Contains(out, "n = ") || !regexp.MustCompile(`\b0 +0 +2\n`).MatchString(out) || status != 0 || strings.Contains(errs, "not seen") {
		t.Errorf("status %d:\n%s\n%s", status, out, errs)
	}
	out, errs, status = ksnoop(t, "trace", "-S", "-T", "-s", "none", "-e", spec("jump_outs", "n == 3"), "-a", spec("jump_out", "n > 0"), "--", file, "1", "3")
	if strings.Contains(out, "← jump_out ") || strings.Contains(out, "↔ jump_out ") || !strings.Contains(out, "← jump_outs") || counted(t, errs, "returns of calls in a session not seen") != 3 || status != 0 {
		t.Errorf("status %d:\n%s\n%s", status, out, errs)
	}
	// jump_even(5) to jump_odd(0): of jump_even 5 and 1.
	out, errs, status = ksnoop(t, "trace", "-S", "-T", "-s", "none", "-e", spec("jump_turns", "n == 5"), "-a", spec("jump_even", "n != 3"), "-a", "uprobe:"+file+":jump_odd", "--", file, "1", "5")
	// Below jump_turns(5): from 5 down to 0, from 6 and from 7, each number a call. Two of these are jump_even(3).
	calls := len(regexp.MustCompile(`[→↔] jump_(even|odd)`).FindAllString(out, -1))
	if returns := len(regexp.MustCompile(`[←↔] jump_(even|odd)`).FindAllString(out, -1)); calls != 5+7+7 || returns != calls {
		t.Errorf("%d calls and %d returns:\n%s", calls, returns, out)
	}
	if strings.Contains(errs, "not seen") || strings.Contains(out, "unseen") || status != 0 {
		t.Errorf("status %d:\n%s\n%s", status, out, errs)
	}
	// One function under two names is one.
	link := filepath.Join(filepath.Dir(file), "link")
	if err := os.Link(file, link); err != nil {
		t.Fatal(err)
	}
	out, errs, status = ksnoop(t, "trace", "-S", "-T", "-s", "none", "-e", "uprobe:"+file+":user_depth", "-a", "uprobe:"+link+":user_depth", "--", file, "1", "3")
	if strings.Count(out, "→ user_depth") != 2 || strings.Count(out, "↔ user_depth") != 1 || status != 0 || strings.Contains(errs, "not seen") {
		t.Errorf("status %d:\n%s\n%s", status, out, errs)
	}
}

// TestLiveUserRenamed: a session that takes the place of one whose return was not seen begins only if the filters let it, as any other.
// user.c calls jump_away once while its thread is called "first", and once while it is called "second"; both calls end by longjmp.
func TestLiveUserRenamed(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	for name, want := range map[string]int{"first": 0, "second": 1, "*": 1} {
		out, errs, status := ksnoop(t, "trace", "-S", "-T", "-s", "none", "-n", name, "-e", "uprobe:"+file+":jump_away", "--", file, "1")
		if got := strings.Count(out, "→ jump_away"); got != want || status != 0 {
			t.Errorf("%s: %d sessions, want %d; status %d:\n%s\n%s", name, got, want, status, out, errs)
		}
		if n := counted(t, errs, "returns of calls in a session not seen"); n != 1 && name != "second" {
			t.Errorf("%s: %d returns not seen, want 1:\n%s", name, n, errs)
		}
	}
}

// TestLiveUserFailureKept: a failure that may be the reason stays one when the return of a later call is not seen: of fail_jump, which ends by
// longjmp. user.c says that fail_whole returns the error of fail_first.
func TestLiveUserFailureKept(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	args := []string{"trace", "-s", "none"}
	for i, function := range []string{"fail_whole", "fail_first", "fail_later", "fail_jump"} {
		args = append(args, []string{"-e", "-a"}[min(i, 1)], "uprobe:"+file+":"+function)
	}
	out, errs, status := ksnoop(t, append(args, "--", file, "3")...)
	failed := func(function string) int {
		return len(regexp.MustCompile(`\[-ENOENT\] +`+function).FindAllString(out, -1))
	}
	if failed("fail_whole") != 3 || failed("fail_first") != 3 || strings.Contains(out, "fail_later") || status != 0 || counted(t, errs, "returns of calls in a session not seen") != 3 {
		t.Errorf("status %d:\n%s\n%s", status, out, errs)
	}
}

// TestLiveUserExec: a session that begins in a program ends when its thread runs another one.
func TestLiveUserExec(t *testing.T) {
	guest.Require(t)
	file := userProgram(t)
	for _, entry := range []string{"run_program", "run_program(path)"} {
		out, errs, status := ksnoop(t, "trace", "-S", "-T", "-s", "none", "-e", "uprobe:"+file+":"+entry, "-a", "do_sys_openat2", "-a", "*bprm_execve", "--", file, "1", "1", "/bin/ls")
		for want, n := range map[string]int{"the thread began another program in here": 1, "→ run_program": 1, "→ bprm_execve": 1, "do_sys_openat2": 0, "← ": 0} {
			if got := strings.Count(out, want); got != n || status != 0 || strings.Contains(errs, "not seen") {
				t.Errorf("%s: %d times %q, want %d; status %d:\n%s\n%s", entry, got, want, n, status, out, errs)
			}
		}
		out, errs, status = ksnoop(t, "trace", "-T", "-s", "none", "-e", "uprobe:"+file+":"+entry, "-a", "*bprm_execve", "--", file, "1", "1", "/no/such/file")
		if strings.Contains(out, "another program") || !regexp.MustCompile(`[↔←] run_program \[user\] +\[-ENOENT\]`).MatchString(out) {
			t.Errorf("of one that fails; status %d:\n%s\n%s", status, out, errs)
		}
	}
}
