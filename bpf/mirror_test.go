// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/ksnoop/ksnoop/layout"
)

// definition is an enumerator or a macro that is a number.
var definition = regexp.MustCompile(`(?m)^(?:#define |\t|enum \{ )([A-Z][A-Z0-9_]*)\s*(?:=|\s)\s*(\(?-?[0-9][0-9A-Fa-fxUL <]*\)?)\s*(?:,|/[/*].*|\})?`)

// suffix is what Go does not know of the numbers of C.
var suffix = regexp.MustCompile(`(\d)(?:ULL|U)\b`)

// headerNumbers are the numbers that the engine's headers define by name. Those that a
// header counts by itself are not among them.
func headerNumbers(t *testing.T) map[string]int64 {
	t.Helper()
	headers, err := filepath.Glob("*.h")
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]int64{}
	for _, header := range headers {
		text, err := os.ReadFile(header)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range definition.FindAllSubmatch(text, -1) {
			expression := suffix.ReplaceAllString(string(m[2]), "$1")
			v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expression)
			if err != nil {
				t.Fatalf("%s: %s is %q: %v", header, m[1], expression, err)
			}
			n, _ := constant.Int64Val(v.Value)
			numbers[string(m[1])] = n
		}
	}
	return numbers
}

// TestMirrored holds the numbers that Go has of the engine and that bpf2go does not
// generate, as they are macros or nothing has their type, to the headers.
func TestMirrored(t *testing.T) {
	numbers := headerNumbers(t)
	for name, want := range map[string]int64{
		"STACK_SIZE": 1 << stackBits, "BPF_RB_NO_WAKEUP": noWakeup,
		"ARG_WORDS": MaxArgWords, "ARG_TARGETS": MaxArgTargets, "ARG_REACH": MaxArgReach,
		"FUNC_ENTRY": CookieEntry, "FUNC_CLASS_SHIFT": CookieClassShift, "FUNC_ARGS": CookieArgs,
		"CALL_FINISHED": CallFinished, "CALL_FAILED": CallFailed, "CALL_HIDDEN": CallHidden, "CALL_RETURNS": CallReturns, "CALL_JUMPED": CallJumped,
		"SESSION_END": int64(SessionEnd), "SESSION_CHUNK": int64(SessionChunk), "SESSION_CHAIN": int64(SessionChain),
		"SESSION_DROP": int64(SessionDrop), "SESSION_HUNG": int64(SessionHung), "SESSION_EXIT": int64(SessionExit),
		"LOG_ENTRY": int64(LogEntry), "LOG_EXIT": int64(LogExit), "LOG_ARGS": int64(LogArgs), "LOG_ITEM": int64(LogItem), "LOG_PROBE": int64(LogProbe),
		"ERRNOS": MaxErrno + 1, "DEPTH": int64(MaxDepth), "LIST_DATA": layout.MaxRecord, "LIST_OBJECT": layout.MaxObject,
		// Generated: do we read headers as the compiler does?
		"KIND_LOST": int64(KindLost), "COUNTERS": int64(Counters), "PAUSED": int64(Paused), "COMM_LEN": int64(commSize), "GUARD_TAKEN": int64(guardTaken),
	} {
		if got, ok := numbers[name]; !ok || got != want {
			t.Errorf("%s is %d here, %d in the headers (found: %v)", name, want, got, ok)
		}
	}
	if ListedWords != MaxArgWords {
		t.Errorf("%d words can be listed, calls have %d", ListedWords, MaxArgWords)
	}
}

// TestPlannedArguments holds what package layout asks for of a call's arguments to what
// the engine takes.
func TestPlannedArguments(t *testing.T) {
	text, err := os.ReadFile("../layout/args.go")
	if err != nil {
		t.Fatal(err)
	}
	numbers := headerNumbers(t)
	for name, header := range map[string]string{"maxArgWords": "ARG_WORDS", "maxArgTargets": "ARG_TARGETS", "maxArgReach": "ARG_REACH"} {
		m := regexp.MustCompile(name + `\s+= (\d+)\n`).FindSubmatch(text)
		if m == nil {
			t.Errorf("no %s in package layout", name)
			continue
		}
		v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := constant.Int64Val(v.Value); got != numbers[header] {
			t.Errorf("%s is %d, %s %d", name, got, header, numbers[header])
		}
	}
}
