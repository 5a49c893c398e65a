// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"
)

// formats are print formats as a kernel of a series has them, below a mount point.
func formats(t testing.TB, series, mount string) fstest.MapFS {
	t.Helper()
	archive, err := txtar.ParseFile("../../testdata/formats-" + series + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	files := make(fstest.MapFS)
	for _, f := range archive.Files {
		files[mount+"/events/"+f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return files
}

// Which strings are names of the kernel's sources is what these say: gfp_types.h,
// filelock.h, trace/events/vmscan.h, and for the others what macro they cut short.
func TestMacroNames(t *testing.T) {
	for _, series := range []string{"6.12", "7.3"} {
		for _, mount := range []string{tracefs, tracefsOld} {
			names := Open(formats(t, series, mount)).MacroNames()
			for _, name := range []string{"GFP_KERNEL", "GFP_ATOMIC", "__GFP_ZERO", "FL_POSIX", "F_RDLCK", "RECLAIM_WB_ANON", "TCP_CLOSE"} {
				if !slices.Contains(names, name) {
					t.Errorf("%s, %s: no %s", series, mount, name)
				}
			}
			for _, name := range []string{
				"TO_DEVICE", "FROM_DEVICE", // DMA_TO_DEVICE
				"NOT_SPECIFIED", "IP_CSUM", // SKB_DROP_REASON_NOT_SPECIFIED
				"NOT_REPAIRABLE", // CXL_DER_…
				"RECLAIM_WB_NONE", "true", "",
			} {
				if slices.Contains(names, name) {
					t.Errorf("%s, %s: %s, which is no macro", series, mount, name)
				}
			}
			if !slices.IsSorted(names) || slices.ContainsFunc(names, func(s string) bool { return !macroName.MatchString(s) }) {
				t.Errorf("%s, %s: %q", series, mount, names)
			}
		}
	}
}

func TestMacroTables(t *testing.T) {
	for format, want := range map[string]string{
		`__print_flags(REC->f, "|", {0x1u, "AB_C"}, {(1 << 3), "AB_D"} )`:                 "AB_C=0x1u AB_D=(1 << 3)",
		`(REC->f) ? __print_flags(f(REC->f, 1), "|", {1, "AB_C"}) : "none"`:               "AB_C=1",
		`__print_symbolic(REC->f, {f(1, 2), "AB_C"}, { 0, ((void *)0) })`:                 "AB_C=f(1, 2)",
		`__print_flags_u64(REC->f, "|", {1, "AB_C"}), __print_symbolic_u64(x, {2,"C_D"})`: "AB_C=1 C_D=2",
		`__print_symbolic(x, {1, "A_B"}), __print_symbolic(x, {2, "A_B"})`:                "A_B=1 A_B=2",
		`__print_symbolic(x, {1, "A_B"}), __print_symbolic(x, {1, "A_B"})`:                "A_B=1",
		`__print_symbolic(x, {1, "__A_B"}, {2, "A_C"})`:                                   "A_C=2 __A_B=1",
		`__print_symbolic(x, {1, "A_B"}, {2, "B_C"})`:                                     "", // what do they have in common?
		`__print_symbolic(x, {1, "A_B"}, {2, "idle"})`:                                    "",
		`__print_symbolic(x, {1, "AB"})`:                                                  "",
		`__print_hex(x, {1, "A_B"})`:                                                      "",
		`__print_flags(x, ",){", {1, "A_B"}) "{2, \"A_C\"}"`:                              "A_B=1",
		`__print_flags(x, "|", {1, "A_B"`:                                                 "",
		`__print_flags(x, "|", {`:                                                         "",
		`__print_flags(`:                                                                  "",
		`__print_flags`:                                                                   "",
	} {
		texts := make(macroTexts)
		texts.add("name: x\n\nprint fmt: "+format, "s:e", "f")
		var got []string
		for _, all := range texts {
			for _, m := range all {
				got = append(got, m.name+"="+m.text)
			}
		}
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
}

// TestHostileMacros: however a format is made, to read it takes time in proportion to its length.
// What takes longer here takes hours.
func TestHostileMacros(t *testing.T) {
	const times = 1 << 19
	var values strings.Builder
	for i := range times {
		fmt.Fprintf(&values, "{%d,\"A_B\"},", i)
	}
	for _, part := range []string{"__print_", "__print_flags(", "__print_flags(x,{", "{", "{,", "{1,\"A_B\"},", "(", "\"", "{(,", "__print_flags(x,{1,\"A_B\"})"} {
		texts := make(macroTexts)
		texts.add("\nprint fmt: __print_flags(x, "+strings.Repeat(part, times), "s:e", "f")
		if n := len(texts["A_B"]); n > 1 {
			t.Errorf("%q: %d texts", part, n)
		}
	}
	texts := make(macroTexts)
	texts.add("\nprint fmt: __print_flags(x, "+values.String()+")", "s:e", "f")
	if n := len(texts["A_B"]); n != maxTexts {
		t.Errorf("%d texts of %d, want %d", n, times, maxTexts)
	}
}

// Files that define a macro which was asked for are all that it takes to find it
// again, and nothing is read for what no macro is called.
func TestMacros(t *testing.T) {
	files := fstest.MapFS{}
	for event, format := range map[string]string{
		"a/one":   `__print_flags(x, "|", {1, "X_A"}, {7, "X_ODD"})`,
		"a/same":  `__print_flags(x, "|", {0x1, "X_A"})`,
		"b/other": `__print_symbolic(x, {2, "X_A"}, {REC->x, "X_B"})`,
	} {
		files["sys/kernel/tracing/events/"+event+"/format"] = &fstest.MapFile{Data: []byte("format:\n\nprint fmt: \"%s\", " + format)}
	}
	asked := 0
	evaluate := func(text string) (int64, bool) {
		asked++
		n, err := strconv.ParseInt(text, 0, 64)
		return n, err == nil
	}
	v := Open(files)
	for range 2 {
		got, err := v.Macros("X_A", evaluate)
		if want := []Macro{{1, "a:one"}, {2, "b:other"}}; !slices.Equal(got, want) || err != nil {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	if asked != 3 {
		t.Errorf("evaluated %d times, want 3", asked)
	}
	if got, err := v.Macros("X_B", evaluate); len(got) != 0 || err != nil {
		t.Errorf("a value of the record: %v, %v", got, err)
	}
	used := fstest.MapFS{}
	for _, name := range v.MacroFiles() {
		used[name] = files[name]
	}
	if got, _ := Open(used).Macros("X_A", evaluate); len(used) != 2 || len(got) != 2 {
		t.Errorf("with %v alone: %v", v.MacroFiles(), got)
	}

	none := Open(fstest.MapFS{})
	if _, err := none.Macros("count", evaluate); err != nil {
		t.Errorf("no macro: %v", err)
	}
	_, err := none.Macros("X_A", evaluate)
	var access *accessError
	if !errors.As(err, &access) || access.Need != mountTracefs || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without tracefs: %v", err)
	}
}

func FuzzMacroTable(f *testing.F) {
	for _, series := range []string{"6.12", "7.3"} {
		for _, file := range formats(f, series, tracefs) {
			f.Add(string(file.Data))
		}
	}
	f.Fuzz(func(t *testing.T, format string) {
		texts := make(macroTexts)
		texts.add(format, "s:e", "f")
		for name, all := range texts {
			for _, m := range all {
				if m.name != name || !strings.Contains(format, m.text) || !strings.Contains(format, `"`+name) {
					t.Errorf("%q is %q", name, m.text)
				}
			}
		}
	})
}
