// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/big"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

const valuesFile = "/proc/ksnoop_values"

// valueFuncs loads a module with functions of exotic signatures, and returns what the compiler has
// made of expressions about their calls.
func valueFuncs(t *testing.T) []*valueFunc {
	t.Helper()
	guest.Require(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("arm64 refuses other functions, of which no list was made")
	}
	loadModule(t, "ksnoop_values", "")
	if _, err := os.Stat("/sys/kernel/btf/ksnoop_values"); err != nil {
		t.Skip("the kernel's headers have no types to build the module's upon: ", err)
	}
	report, err := os.ReadFile(valuesFile)
	if err != nil {
		t.Fatal(err)
	}
	return readOracle(t, string(report))
}

// TestLiveValues compares values and decisions with those that the compiler has
// made of the same expressions.
func TestLiveValues(t *testing.T) {
	funcs := valueFuncs(t)
	values, decisions := 0, 0
	for _, f := range funcs {
		values, decisions = values+len(f.values), decisions+len(f.decisions)
	}
	if len(funcs) < 48 || values < 300 || decisions < 200 {
		t.Fatalf("the module tells of %d functions, %d values, %d decisions", len(funcs), values, decisions)
	}
	for _, way := range []string{"fentry", "kprobe", "session"} {
		if slices.Contains(attachMethods(), way) {
			t.Run(way, func(t *testing.T) { compareValues(t, way, true, funcs) })
		}
	}
	if slices.Contains(attachMethods(), "multi") && os.Getenv("KSNOOP_SOAK") != "" { // as session, at two links
		// Without decisions what is read at entry and at return are two records.
		structs := slices.DeleteFunc(slices.Clone(funcs), func(f *valueFunc) bool { return !f.aggregates()["return"] })
		t.Run("multi", func(t *testing.T) { compareValues(t, "multi", false, structs) })
	}
}

// TestLiveValuesAsKeys: values of all signatures are keys, and are summed up, where a kprobe finds them.
func TestLiveValuesAsKeys(t *testing.T) {
	funcs := valueFuncs(t)
	const together, reads = 8, 3 // a SPEC has so many keys
	var specs []string
	var wants [][]valueOracle
	for _, f := range funcs {
		if strings.Contains(f.name, "int128") || f.name == "kv_rwrapped" {
			continue // keys are of one word here
		}
		for some := range slices.Chunk(f.values, together) {
			var keys []string
			for _, v := range some {
				keys = append(keys, v.text)
			}
			specs = append(specs, fmt.Sprintf("%s(avg(%s)[%s])", f.name, keys[0], strings.Join(keys, ", ")))
			wants = append(wants, some)
		}
	}
	values, view := 0, kernel.Open(os.DirFS("/")) // with the module, unlike theKernel
	for i := 0; i < len(specs); i += bpf.MaxTables {
		end := min(i+bpf.MaxTables, len(specs))
		tables, _, _ := addedUp(t, view, specs[i:end], layout.MethodKprobe, func() {
			for range reads {
				if err := exec.Command("cp", valuesFile, "/dev/null").Run(); err != nil { // calls of this process do not count
					t.Error(err)
				}
			}
		})
		for j, f := range tables {
			var want []byte
			for _, v := range wants[i+j] {
				want = binary.LittleEndian.AppendUint64(want, lowWord(v.want))
				values++
			}
			first := lowWord(wants[i+j][0].want)
			if len(f.Rows) != 1 || !bytes.Equal(f.Rows[0].Key, want) {
				t.Errorf("%s: %x, want one row of %x", specs[i+j], f.Rows, want)
			} else if n, sum := f.Rows[0].Words[0], f.Rows[0].Words[1]; n == 0 || n%reads != 0 || sum != n*first {
				t.Errorf("%s: %d calls make %#x, want some for each of %d reads, each of %#x", specs[i+j], n, sum, reads, first)
			}
		}
	}
	t.Logf("%d values in %d tables", values, len(specs))
	if values < 300 {
		t.Errorf("%d values are too few", values)
	}
}

func lowWord(n *big.Int) uint64 {
	return new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
}

// A valueFunc is a function of the module and what the compiler says of its call.
type valueFunc struct {
	name      string
	values    []valueOracle
	decisions []decisionOracle
}

type valueOracle struct {
	text string
	want *big.Int // of 128 bits
}

type decisionOracle struct {
	text string
	want bool
}

// readOracle reads what the module writes. Results of types narrower than 8 bytes
// must have come in registers of which the upper part is no part of them.
func readOracle(t *testing.T, report string) (funcs []*valueFunc) {
	byName, dirty := map[string]*valueFunc{}, 0
	for line := range strings.Lines(report) {
		what, told, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		kind, what, _ := strings.Cut(what, " ")
		name, text, _ := strings.Cut(what, " ")
		text = regexp.MustCompile(`\bRET\b`).ReplaceAllString(text, "return")
		f := byName[name]
		if f == nil {
			f = &valueFunc{name: name}
			byName[name], funcs = f, append(funcs, f)
		}
		high, low, _ := strings.Cut(told, " ")
		switch {
		case !ok:
			t.Fatalf("the module says %q", line)
		case kind == "v":
			n, ok := new(big.Int).SetString(fmt.Sprintf("%s%016s", high, low), 16)
			if !ok {
				t.Fatalf("the module says %q", line)
			}
			f.values = append(f.values, valueOracle{text, n})
		case kind == "d":
			f.decisions = append(f.decisions, decisionOracle{text, told == "1"})
		case kind == "r" && strings.HasPrefix(told, "deadbeef"):
			dirty++
		}
	}
	if dirty != 7 {
		t.Fatalf("%d of the module's results came in registers with something else, want 7", dirty)
	}
	return funcs
}

// noTrampolineFor are the functions that trampolines cannot be used for: their result
// is in memory or a struct or in two registers, or a parameter is where
// trampolines do not look for it.
var noTrampolineFor = strings.Fields(`kv_rs24 kv_rs_six kv_rs17 kv_rpacked9 kv_rs24_big kv_rs24_seven kv_rs9 kv_rs12 kv_riter kv_rpair kv_rints
		kv_rthree kv_rone kv_rpacked12 kv_rbits kv_rbits16 kv_rbits9 kv_rint128 kv_rwrapped kv_reither kv_rsevens kv_rodds kv_rnested
		kv_big kv_int128_stack kv_packed9 kv_packed5 kv_empty kv_nested`)

// unionRefused are kernels whose trampolines take no union as a parameter: those before 6.18.
var unionRefused = map[string]bool{"6.1": true, "6.12": true}

// compareValues traces all functions, each with all its values and, if decide is set,
// decisions.
func compareValues(t *testing.T, way string, decide bool, funcs []*valueFunc) {
	var refused []string
	if way == "fentry" {
		refused = noTrampolineFor
		if unionRefused[guest.Kernel()] {
			refused = append(slices.Clone(refused), "kv_either")
		}
	}
	args := []string{"trace", "--attach=" + way}
	for _, f := range funcs {
		args = append(args, f.spec(decide))
	}
	stdout, stderr, status := ksnoop(t, append(args, "--", "cp", valuesFile, "/dev/null")...)
	if status != 0 {
		t.Fatalf("status %d:\n%s", status, stderr)
	}
	if told := fmt.Sprintf("ksnoop: %d functions (", len(noTrampolineFor)); refused != nil && !strings.Contains(stderr, told) {
		t.Errorf("no word of %q:\n%s", told, stderr)
	}
	calls := readCalls(stdout)
	values, wholes, decisions := 0, 0, 0
	for _, f := range funcs {
		seen := calls[f.name]
		if slices.Contains(refused, f.name) {
			if seen != nil {
				t.Errorf("%s has %v", f.name, seen)
			}
			continue
		}
		if seen == nil {
			t.Errorf("%s is not shown: not all its decisions are right", f.name)
			continue
		}
		for _, v := range f.values {
			v.compare(t, f.name, v.text, seen[v.text])
			values++
			m := placePattern.FindStringSubmatch(v.text)
			if m == nil || m[2] == "" {
				continue
			}
			printed := seen[whole+v.text]
			if printed == nil && len(seen[whole+m[1]]) > 0 {
				printed = []string{"0"} // left out
			}
			v.compare(t, f.name, whole+v.text, printed)
			wholes++
		}
		if decide {
			none := valueOracle{f.disjunction(), new(big.Int)}
			none.compare(t, f.name, none.text, seen[none.text])
			decisions += len(f.decisions)
		}
	}
	t.Logf("%d values, %d more in whole objects, %d decisions; %d functions refused", values, wholes, decisions, len(refused))
	if values < 80 || refused == nil && decide && (values < 300 || decisions < 200) {
		t.Errorf("%d values and %d decisions are too few", values, decisions)
	}
}

// What comes before the path of a member that was printed as a part of its object.
const whole = "whole "

// spec is a SPEC of all values, of the whole objects that they are part of and, if
// decide is set, of decisions: predicates that all hold and a value of them in
// which none does.
func (f *valueFunc) spec(decide bool) string {
	var items []string
	for _, v := range f.values {
		items = append(items, v.text)
	}
	items = slices.AppendSeq(items, maps.Keys(f.aggregates()))
	if decide {
		for _, d := range f.decisions {
			items = append(items, d.as(true))
		}
		items = append(items, f.disjunction())
	}
	return f.name + "(" + strings.Join(items, ", ") + ")"
}

func (f *valueFunc) disjunction() string {
	var sides []string
	for _, d := range f.decisions {
		sides = append(sides, "("+d.as(false)+")")
	}
	return "+(" + strings.Join(sides, " || ") + ")"
}

// as is a predicate that holds, or does not, if the decision is right.
func (d *decisionOracle) as(holds bool) string {
	if d.want == holds {
		return d.text
	}
	return "!(" + d.text + ")"
}

// aggregates are the parameters, and the result, of which there are members, and those members that are aggregates
// themselves: of r.v[1].a there are r, r.v and r.v[1].
func (f *valueFunc) aggregates() map[string]bool {
	found := map[string]bool{}
	for _, v := range f.values {
		if m := placePattern.FindStringSubmatch(v.text); m == nil || m[2] == "" {
			continue
		}
		for i, c := range v.text {
			if c == '.' || c == '[' {
				found[v.text[:i]] = true
			}
		}
	}
	return found
}

// placePattern matches what is an object or a part of one.
var placePattern = regexp.MustCompile(`^([a-z]+)(\.\w+(?:\.\w+|\[\d+\])*|)$`)

// compare compares what was printed for a value, at least once.
func (v *valueOracle) compare(t *testing.T, name, what string, printed []string) {
	t.Helper()
	if len(printed) == 0 {
		t.Errorf("%s: no %s", name, what)
	}
	for _, p := range printed {
		if n := readNumber(p); n == nil || n.Cmp(v.want) != 0 {
			t.Errorf("%s: %s is %s, want %#x", name, what, p, v.want)
		}
	}
}

var numberPattern = regexp.MustCompile(`^(?:\([^()]*\))?(-?\w+)(?: /\*.*\*/| <.*>)?$`)

// readNumber reads a printed number, extended to 128 bits; nil if it is none.
func readNumber(printed string) *big.Int {
	m := numberPattern.FindStringSubmatch(printed)
	if m == nil {
		return nil
	}
	if named, ok := map[string]string{"SMALL_MINUS": "-2", "WIDE_MOST": "0xfedcba9876543210"}[m[1]]; ok {
		m[1] = named
	}
	n, ok := new(big.Int).SetString(m[1], 0)
	if !ok {
		return nil
	}
	return n.And(n, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1)))
}

// readCalls reads what was printed of each function's calls: values by their labels,
// objects and their members by "whole " and their paths.
func readCalls(stdout string) map[string]map[string][]string {
	calls := map[string]map[string][]string{}
	var values map[string][]string
	type level struct {
		path  string
		index int // in an array; -1 elsewhere
	}
	var levels []level
	for line := range strings.Lines(stdout) {
		if m := block.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			if values = calls[m[3]]; values == nil {
				values = map[string][]string{}
				calls[m[3]] = values
			}
			levels = []level{{index: -1}}
			continue
		}
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		if line == "" || line == ");" || values == nil {
			continue
		}
		if line == "}" || line == "]" {
			levels = levels[:len(levels)-1]
			continue
		}
		in := &levels[len(levels)-1]
		path, text, named := strings.Cut(line, " = ")
		switch {
		case in.index >= 0:
			path, text = fmt.Sprintf("%s[%d]", in.path, in.index), line
			in.index++
		case named:
			path = in.path + path
		default:
			path, text = in.path, line // an anonymous member
		}
		key := path
		if strings.HasSuffix(text, "{") || strings.HasSuffix(text, "[") || len(levels) > 1 {
			key = whole + path
		}
		values[key] = append(values[key], text)
		switch {
		case strings.HasSuffix(text, "{"):
			levels = append(levels, level{path, -1})
		case strings.HasSuffix(text, "["):
			levels = append(levels, level{path, 0})
		}
	}
	return calls
}
