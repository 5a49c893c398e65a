// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/ksnoop/ksnoop/layout"
)

// TestMirrored holds the numbers of package layout to the engine's. This package has all of its own
// from the compiler; layout must not import it.
func TestMirrored(t *testing.T) {
	for _, c := range []struct {
		name         string
		layout, have int
	}{
		{"MaxRecord", layout.MaxRecord, int(engineListLimitLIST_DATA)},
		{"MaxObject", layout.MaxObject, int(engineListLimitLIST_OBJECT)},
		{"OwnerUID", int(layout.OwnerUID), int(engineRecordPartRECORD_UID)},
		{"OwnerCgroup", int(layout.OwnerCgroup), int(engineRecordPartRECORD_CGROUP)},
		{"OwnerSize", layout.OwnerSize, OwnerSize},
		{"NeverFails", int(layout.NeverFails), int(engineErrorClassNEVER_FAILS)},
		{"FailsInt32", int(layout.FailsInt32), int(engineErrorClassFAILS_INT32)},
		{"FailsInt64", int(layout.FailsInt64), int(engineErrorClassFAILS_INT64)},
		{"FailsPointer", int(layout.FailsPointer), int(engineErrorClassFAILS_POINTER)},
		{"maxArgWords", private(t, "args.go", "maxArgWords"), int(engineArgLimitARG_WORDS)},
		{"maxArgTargets", private(t, "args.go", "maxArgTargets"), int(engineArgLimitARG_TARGETS)},
		{"maxArgReach", private(t, "args.go", "maxArgReach"), int(engineArgLimitARG_REACH)},
		{"maxErrno", private(t, "class.go", "maxErrno"), MaxErrno},
	} {
		if c.layout != c.have {
			t.Errorf("%s is %d in package layout, %d in the engine", c.name, c.layout, c.have)
		}
	}
}

// private reads a constant of package layout that is not exported.
func private(t *testing.T, file, name string) int {
	t.Helper()
	text, err := os.ReadFile("../layout/" + file)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`\b` + name + `\s+= (\d+)\n`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no %s in package layout", name)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMarked holds the causes that are marked in the stream to the calls of ks_lost.
func TestMarked(t *testing.T) {
	names := map[string]Counter{"LOST_RINGBUF": LostRingbuf, "LOST_STASH": LostStash, "LOST_SCRATCH": LostScratch,
		"RATE_LIMITED": RateLimited, "LOST_SESSION": LostSession, "LOST_NMI": LostNMI}
	files, err := filepath.Glob("*.h")
	if err != nil {
		t.Fatal(err)
	}
	called, marked := map[Counter]bool{}, map[Counter]bool{}
	for _, file := range append(files, "engine.bpf.c") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`ks_lost\(([A-Z_]+)\)`).FindAllSubmatch(text, -1) {
			cause, ok := names[string(m[1])]
			if !ok {
				t.Errorf("%s: %s is not in Marked", file, m[1])
			}
			called[cause] = true
		}
	}
	for _, cause := range Marked {
		marked[cause] = true
	}
	if !maps.Equal(called, marked) {
		t.Errorf("ks_lost is called for %v, marked are %v", called, marked)
	}
}
