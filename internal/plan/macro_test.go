// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/tools/txtar"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// macroKernel is a kernel with the function alloc(gfp_t flags, int why) and
// tracepoints whose formats are given: whole files, by name.
func macroKernel(t testing.TB, formats map[string]string) *kernel.View {
	t.Helper()
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	gfp := &btf.Typedef{Name: "gfp_t", Type: &btf.Int{Name: "unsigned int", Size: 4}}
	raw := rawBTF(t,
		&btf.Func{Name: "alloc", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{
			{Name: "flags", Type: gfp}, {Name: "why", Type: integer}}}},
		&btf.Enum{Name: "vmscan_throttle", Size: 4, Values: throttles},
	)
	files := fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: raw}, "proc/kallsyms": {Data: []byte("ffffffff81000000 T alloc\nffffffff81000040 T after\n")}}
	for name, text := range formats {
		files["sys/kernel/tracing/events/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return kernel.Open(files)
}

// throttles are enumerators that a format writes as such: (1 << VMSCAN_THROTTLE_…).
var throttles = []btf.EnumValue{{Name: "VMSCAN_THROTTLE_WRITEBACK", Value: 0}, {Name: "VMSCAN_THROTTLE_ISOLATED", Value: 1},
	{Name: "VMSCAN_THROTTLE_NOPROGRESS", Value: 2}, {Name: "VMSCAN_THROTTLE_CONGESTED", Value: 3}, {Name: "NR_VMSCAN_THROTTLE", Value: 4}}

// kernelFormats are formats as the kernels of a series have them, by their files.
func kernelFormats(t testing.TB, series string) map[string]string {
	t.Helper()
	archive, err := txtar.ParseFile("../../testdata/formats-" + series + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	return files
}

// macroValue is what flags is compared with.
func macroValue(view *kernel.View, name string) (uint64, error) {
	spec, err := expr.Parse("alloc(+" + name + ")")
	if err != nil {
		return 0, err
	}
	p, _, err := Resolve(view, []*expr.Spec{spec}, Options{Arch: "amd64"})
	if err != nil {
		return 0, err
	}
	return expr.Eval(p.Probes[0].Items[0].Captures[0].Value, nil)
}

// include/linux/gfp_types.h has the bits in an enum and what is made of them
// (6.12: ___GFP_DMA_BIT is 0, ___GFP_HIGHMEM_BIT 1, …), filelock.h FL_ and
// asm-generic/fcntl.h F_.
func TestMacroValues(t *testing.T) {
	for _, series := range []string{"6.12", "7.3"} {
		files := kernelFormats(t, series)
		view := macroKernel(t, files)
		for name, want := range map[string]uint64{
			"GFP_KERNEL": 0xcc0, "GFP_ATOMIC": 0x820, "GFP_NOFS": 0xc40, "GFP_NOIO": 0xc00, "GFP_NOWAIT": 0x2800, "GFP_USER": 0x100cc0,
			"GFP_KERNEL_ACCOUNT": 0x400cc0, "GFP_HIGHUSER_MOVABLE": 0x100cca, "GFP_TRANSHUGE_LIGHT": 0x1c20ca, "GFP_TRANSHUGE": 0x1c24ca,
			"__GFP_ZERO": 0x100, "__GFP_RECLAIM": 0xc00, "FL_POSIX": 1, "FL_SLEEP": 128, "F_UNLCK": 2, "RECLAIM_WB_MIXED": 0x10,
		} {
			if got, err := macroValue(view, name); got != want || err != nil {
				t.Errorf("%s: %s is %#x, %v, want %#x", series, name, got, err, want)
			}
		}
	}
}

// A C compiler computes the same of what the formats say.
func TestMacrosAgreeWithC(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc: ", err)
	}
	entry := regexp.MustCompile(`\{([^{}"]+), "(_*(?:GFP|FL|F|RECLAIM|TCP)_[A-Z0-9_]+)"\}`)
	for _, series := range []string{"6.12", "7.3"} {
		files := kernelFormats(t, series)
		program := "#include <stdio.h>\ntypedef unsigned int gfp_t;\nint main(void) {\n"
		for name, format := range files {
			if name == "skb/kfree_skb/format" || name == "tcp/tcp_send_reset/format" {
				continue // reasons for dropped packets have names of other things' in them
			}
			for _, m := range entry.FindAllStringSubmatch(format, -1) {
				program += fmt.Sprintf("\tprintf(\"%%s %%lld\\n\", %q, (long long)(%s));\n", m[2], m[1])
			}
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "macros.c"), []byte(program+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(gcc, "-w", "-o", filepath.Join(dir, "macros"), filepath.Join(dir, "macros.c")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err := exec.Command(filepath.Join(dir, "macros")).Output()
		if err != nil {
			t.Fatal(err)
		}
		view, seen := macroKernel(t, files), map[string]bool{}
		for line := range strings.Lines(string(out)) {
			var name string
			var want int64
			if _, err := fmt.Sscan(line, &name, &want); err != nil {
				t.Fatal(err)
			}
			seen[name] = true
			if got, err := macroValue(view, name); int64(got) != want || err != nil {
				t.Errorf("%s: %s is %d, %v, in C %d", series, name, int64(got), err, want)
			}
		}
		if len(seen) < 40 {
			t.Errorf("%s: only %d macros compared", series, len(seen))
		}
	}
}

func TestMacroScope(t *testing.T) {
	view := macroKernel(t, map[string]string{
		"a/one/format": "\nprint fmt: \"%s\", __print_flags(REC->x, \"|\", {0x1, \"X_A\"}, {(1 << VMSCAN_THROTTLE_CONGESTED), \"X_B\"}, {-1, \"X_C\"}, " +
			"{REC->x, \"X_D\"}, {X_A, \"X_E\"}, {0xffffffffu, \"X_F\"}, {" + strings.Repeat("(", 10000) + "1" + strings.Repeat(")", 10000) + ", \"X_G\"}, {1UL << 63, \"X_H\"})",
		"b/two/format": "\nprint fmt: \"%s\", __print_symbolic(REC->x, {2, \"X_A\"}, {0x8, \"X_B\"})",
		"c/tri/format": "\nprint fmt: \"%s\", __print_symbolic(REC->x, {77, \"NR_VMSCAN_THROTTLE\"})",
	})
	for name, want := range map[string]int64{"X_B": 8, "X_C": -1, "X_F": 0xffffffff, "X_H": -1 << 63,
		"NR_VMSCAN_THROTTLE": 4, // enumerators go first
	} {
		if got, err := macroValue(view, name); int64(got) != want || err != nil {
			t.Errorf("%s is %d, %v, want %d", name, int64(got), err, want)
		}
	}
	for name, want := range map[string]struct {
		code expr.Code
		text string
	}{
		"X_A":        {expr.CodeAmbiguous, `tracepoints give X_A different values; write the number: 0x1 (tp:a:one), 0x2 (tp:b:two)`},
		"X_D":        {expr.CodeUnknownName, "and macros in the print formats of tracepoints; write any other as a number"},
		"X_E":        {expr.CodeUnknownName, "write any other as a number"}, // no macro explains another
		"X_G":        {expr.CodeUnknownName, "write any other as a number"}, // deeper than anyone writes
		"FMODE_READ": {expr.CodeUnknownName, `alloc has no parameter "FMODE_READ", and no enum has such a value; `},
	} {
		_, err := macroValue(view, name)
		var faults *expr.ErrorList
		if !errors.As(err, &faults) || faults.Errors[0].Code != want.code || !strings.Contains(faults.Errors[0].Error(), want.text) {
			t.Errorf("%s: %v, want %s %s", name, err, want.code, want.text)
		}
	}
	if _, err := macroValue(view, "FMODE_READ"); err == nil || !strings.Contains(err.Error(), "Known are BTF's enumerators") {
		t.Errorf("FMODE_READ: %v, want where constants come from", err)
	}
	_, err := macroValue(macroKernel(t, nil), "GFP_KERNEL")
	if want := "(no macros: /sys/kernel/tracing/events: file does not exist: mount -t tracefs"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("without tracefs: %v, want %s", err, want)
	}
	files := kernelFormats(t, "6.12")
	if _, err := macroValue(macroKernel(t, files), "GFP_KERNAL"); err == nil || !strings.Contains(err.Error(), `did you mean "GFP_KERNEL"?`) {
		t.Errorf("a misspelling: %v", err)
	}
}
