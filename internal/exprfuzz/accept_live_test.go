// SPDX-License-Identifier: Apache-2.0

package exprfuzz_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// acceptSample is how many functions are tried, of which make test tries half, and where a smoke run will do; make soak
// tries all.
const acceptSample, acceptSmoke = 500, 100

// The kernel must take what is generated for its own functions: everything
// captured, and a condition on the first integer of each argument.
func TestLiveVerifier(t *testing.T) {
	guest.Require(t)
	a := newAcceptance(t)
	funcs, err := a.view.Match("*", "")
	if err != nil {
		t.Fatal(err)
	}
	funcs = slices.DeleteFunc(funcs, func(f kernel.Function) bool { return f.Type == nil })
	step := max(1, len(funcs)/acceptSample)
	if livetest.Smoke() {
		step = max(1, len(funcs)/acceptSmoke)
	}
	if n, err := strconv.Atoi(os.Getenv("KSNOOP_ACCEPT")); err == nil {
		step = max(1, len(funcs)/n)
	}
	if os.Getenv("KSNOOP_SOAK") != "" {
		step = 1
	}
	all := len(funcs)
	mine, of := livetest.Share()
	for i := mine * step; i < len(funcs); i += of * step {
		a.try(t, funcs[i])
	}
	t.Logf("%d of %d functions with types tried: %d load with fentry, %d only with kprobes", a.tried, all, a.fentry, a.kprobe)
	for _, why := range slices.Sorted(func(yield func(string) bool) {
		for why := range a.causes {
			if !yield(why) {
				return
			}
		}
	}) {
		t.Logf("%6d %s, as %s", a.causes[why], why, strings.Join(a.examples[why], ", "))
	}
	if failed := a.tried - a.fentry - a.kprobe; failed > 0 {
		t.Errorf("%d functions load in no way", failed)
	}
	if a.tried == 0 || 2*a.fentry < a.tried {
		t.Error("fentry has few of them")
	}
}

type acceptance struct {
	view                  *kernel.View
	engine                *ebpf.Collection
	target                codegen.Options
	cache                 *btf.Cache
	tried, fentry, kprobe int
	causes                map[string]int
	examples              map[string][]string
}

// largestStash has room for the data of any probe.
var largestStash = bpf.NewStash(layout.MaxRecord, 1)

func newAcceptance(t *testing.T) *acceptance {
	t.Helper()
	spec, err := bpf.Engine(bpf.Settings{RingSize: 1 << 16, Stash: largestStash})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	a := &acceptance{view: kernel.Open(os.DirFS("/")), engine: engine, cache: btf.NewCache(), causes: map[string]int{}, examples: map[string][]string{}}
	a.target = target(t, a.view)
	a.target.Stash = largestStash
	return a
}

// methods are the ways of attaching for which code is generated in a way of its
// own, as far as the kernel has them.
func methods() []layout.Method {
	all := []layout.Method{layout.MethodFentry, layout.MethodKprobe}
	if attach.CapFsession.Probe() == nil {
		all = append(all, layout.MethodFsession)
	}
	if attach.CapTracingMulti.Probe() == nil {
		all = append(all, layout.MethodTracingMulti)
	}
	return all
}

// theirMethods are those of methods that are this guest's: in `make test` half of them; the turn decides which.
// share is how many of all pairs that makes.
func theirMethods(t *testing.T) (theirs []layout.Method, share func(pairs int) int) {
	all := methods()
	for i, m := range all {
		if livetest.Mine(t, i) {
			theirs = append(theirs, m)
		}
	}
	return theirs, func(pairs int) int { return pairs * len(theirs) / len(all) }
}

// target is what ksnoop takes the running kernel for.
func target(t *testing.T, view *kernel.View) codegen.Options {
	t.Helper()
	out := codegen.Options{Arch: runtime.GOARCH}
	types, err := view.BTF()
	if err != nil {
		t.Fatal(err)
	}
	kfuncs := codegen.FindKfuncs(types)
	out.Kfuncs = func() codegen.Kfuncs { return kfuncs }
	if attach.Probe(context.Background(), attach.CapRdonlyCast).Has(attach.CapRdonlyCast) {
		spec, err := view.BTF()
		if err != nil {
			t.Fatal(err)
		}
		out.TypeID = func(t btf.Type) (btf.TypeID, bool) {
			id, err := spec.TypeID(t)
			return id, err == nil
		}
	}
	return out
}

// try loads the programs for one function: with fentry, or else with kprobes,
// as ksnoop itself would.
func (a *acceptance) try(t *testing.T, f kernel.Function) {
	t.Helper()
	a.tried++
	spec, err := expr.Parse(everything(f))
	if err != nil {
		t.Errorf("%s: %v", everything(f), err)
		return
	}
	probe, err := plan.NewProbe(a.view, spec, f, plan.Options{Arch: runtime.GOARCH})
	if err != nil {
		a.refused(f, "plan", err)
		return
	}
	if probe.Method == layout.MethodFentry {
		if err = a.load(t, probe); err == nil {
			a.fentry++
			return
		}
		a.refused(f, "fentry", err)
		if probe, err = probe.With(layout.MethodKprobe); err != nil {
			a.refused(f, "plan", err)
			return
		}
	} else {
		a.refused(f, "fentry", errors.New("the signature is none that trampolines take"))
	}
	if err := a.load(t, probe); err != nil {
		a.refused(f, "kprobe", err)
		return
	}
	a.kprobe++
}

var numbers = regexp.MustCompile(`\b(0x[0-9a-f]+|[0-9]+)\b|R[0-9]+|'[^']*'`)

// refused counts a refusal by its cause: the message without what differs.
func (a *acceptance) refused(f kernel.Function, stage string, err error) {
	msg := strings.ReplaceAll(err.Error(), f.Name, "FUNC")
	if lines := strings.Split(strings.TrimSpace(msg), "\n"); len(lines) > 1 {
		msg = lines[len(lines)-1]
	}
	why := stage + ": " + numbers.ReplaceAllString(msg, "N")
	if len(why) > 300 {
		why = why[:300]
	}
	a.causes[why]++
	if len(a.examples[why]) < 4 {
		a.examples[why] = append(a.examples[why], f.String())
	}
}

func (a *acceptance) load(t *testing.T, p *plan.Probe) error {
	t.Helper()
	programs, err := codegen.Compile(&p.Probe, a.target)
	if err != nil {
		return err
	}
	for i, funcs := range [][]bpf.Subprogram{programs.Entry, programs.Return} {
		if funcs == nil {
			continue
		}
		insns, err := bpf.Link(funcs...)
		if err != nil {
			return err
		}
		spec := &ebpf.ProgramSpec{Name: "accept", Instructions: insns, License: "Dual BSD/GPL", Type: ebpf.Kprobe}
		if p.Method == layout.MethodFentry {
			as := []ebpf.AttachType{ebpf.AttachTraceFEntry, ebpf.AttachTraceFExit}[i]
			spec.Type, spec.AttachTo, spec.AttachType = ebpf.Tracing, p.Func.Type.Name, as
		}
		for name, m := range a.engine.Maps {
			if err := insns.AssociateMap(name, m); err != nil && !errors.Is(err, asm.ErrUnreferencedSymbol) {
				return err
			}
		}
		// One at a time would read the kernel's BTF for each of them.
		c, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"accept": spec}},
			ebpf.CollectionOptions{Cache: a.cache, Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
		if err != nil {
			if examined(err) {
				t.Errorf("%s: the verifier refuses what is generated: %v", everything(p.Func), lastWord(err))
			}
			return lastWord(err)
		}
		checkFrames(t, everything(p.Func), insns, c.Programs["accept"].VerifierLog)
		c.Close()
	}
	return nil
}

// The verifier tells of the frames of all functions in one line or, on later kernels such as
// 7.3, of each function in a line of its own.
var (
	frameSizes = regexp.MustCompile(`stack depth ([0-9+]+)`)
	frameSize  = regexp.MustCompile(`(?m)^subprog \d+ \(.*\) .* stack (\d+)$`)
)

// framesSaid returns the sizes of frames in the verifier's log.
func framesSaid(log string) (sizes []string) {
	if m := frameSizes.FindStringSubmatch(log); m != nil {
		return strings.Split(m[1], "+")
	}
	for _, m := range frameSize.FindAllStringSubmatch(log, -1) {
		sizes = append(sizes, m[1])
	}
	return sizes
}

// checkFrames compares the frames of a program's functions with what the verifier
// says of them. It rounds none, and sees less where it proves that code is dead: of
// a function that is dead as a whole, nothing.
func checkFrames(t *testing.T, what string, insns asm.Instructions, log string) {
	t.Helper()
	var ours []int
	start := 0
	for i := range insns {
		if i > 0 && btf.FuncMetadata(&insns[i]) != nil {
			ours, start = append(ours, bpf.FunctionStack(insns[start:i])), i
		}
	}
	ours = append(ours, bpf.FunctionStack(insns[start:]))
	theirs := framesSaid(log)
	if theirs == nil {
		t.Errorf("%s: the verifier says nothing of the stack: %s", what, log)
		return
	}
	same, i, dead := 0, 0, len(ours)-len(theirs)
	for _, size := range theirs {
		n, err := strconv.Atoi(size)
		for ; dead > 0 && n > ours[i]; dead-- {
			i++
		}
		if err != nil || i >= len(ours) || n > ours[i] {
			t.Errorf("%s: frames of %v bytes, the verifier says %v", what, ours, theirs)
			return
		}
		if ours[i] == max(32, (n+31)&^31) {
			same++
		}
		i++
	}
	if len(theirs) > len(ours) || same == 0 {
		t.Errorf("%s: frames of %v bytes, the verifier says %v", what, ours, theirs)
	}
}

// examined reports whether the verifier has looked at instructions: else it is the
// function that cannot be attached to in this way.
func examined(err error) bool {
	var ve *ebpf.VerifierError
	return errors.As(err, &ve) && slices.ContainsFunc(ve.Log, func(line string) bool {
		return strings.HasPrefix(line, "processed ") && !strings.HasPrefix(line, "processed 0 ")
	})
}

// lastWord is what the verifier complained about in the end.
func lastWord(err error) error {
	var ve *ebpf.VerifierError
	if !errors.As(err, &ve) {
		return err
	}
	for _, line := range slices.Backward(ve.Log) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "processed ") {
			return fmt.Errorf("%s (%w)", line, ve.Cause)
		}
	}
	return ve.Cause
}

// everything is a SPEC with a condition on the first integer of each argument,
// all arguments and the return value.
func everything(f kernel.Function) string {
	proto := f.Type.Type.(*btf.FuncProto)
	var items []string
	for i, p := range proto.Params {
		if _, variadic := p.Type.(*btf.Void); variadic {
			break
		}
		arg := fmt.Sprintf("$arg%d", i+1)
		if path := firstInteger(p.Type); path != "-" {
			items = append(items, arg+path+" != 12345")
		}
		items = append(items, arg)
	}
	if _, void := btf.UnderlyingType(proto.Return).(*btf.Void); !void {
		items = append(items, "return")
	}
	return f.Name + "(" + strings.Join(items, ", ") + ")"
}

// firstInteger returns what has to follow a value of type t to name the first
// integer in it, or "-" if there is none.
func firstInteger(t btf.Type) string {
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		if u.Size <= 8 {
			return ""
		}
	case *btf.Enum:
		return ""
	case *btf.Pointer:
		if path := integerMember(u.Target, 0); path != "" {
			return "->" + path
		}
	case *btf.Struct, *btf.Union:
		if path := integerMember(t, 0); path != "" {
			return "." + path
		}
	}
	return "-"
}

func integerMember(t btf.Type, depth int) string {
	var ms []btf.Member
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		ms = u.Members
	case *btf.Union:
		ms = u.Members
	}
	for _, m := range ms {
		path := "-"
		switch u := btf.UnderlyingType(m.Type).(type) {
		case *btf.Int:
			if u.Size <= 8 {
				path = ""
			}
		case *btf.Enum:
			path = ""
		case *btf.Struct, *btf.Union:
			if inner := integerMember(u, depth+1); inner != "" && depth < 8 {
				path = "." + inner
			}
		}
		switch {
		case path == "-", m.Name == "" && path == "":
		case m.Name == "":
			return path[1:]
		default:
			return m.Name + path
		}
	}
	return ""
}
