// SPDX-License-Identifier: Apache-2.0

// Predicate counts the calls of a kernel function that meet a predicate, by a program
// of its own into which the predicate is compiled.
//
//	predicate 'vfs_read(count > 4096 && file->f_flags & O_DIRECT)' 5s
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: predicate 'FUNCTION(PREDICATE, ...)' DURATION")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "predicate: %v\n", err)
		os.Exit(1)
	}
}

func run(text, duration string) error {
	wait, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return err
	}
	condition, function, err := compile(text, kernel)
	if err != nil {
		return err
	}
	calls, err := ebpf.NewMap(&ebpf.MapSpec{Name: "calls", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return err
	}
	defer calls.Close()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "count", License: "GPL", Type: ebpf.Tracing,
		AttachType: ebpf.AttachTraceFEntry, AttachTo: function, Instructions: append(counter(calls), condition...)})
	if err != nil {
		return fmt.Errorf("%+v", err)
	}
	defer prog.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(os.Stderr, "counting")
	time.Sleep(wait)
	var n uint64
	if err := calls.Lookup(uint32(0), &n); err != nil {
		return err
	}
	fmt.Println(n)
	return nil
}

// compile turns a SPEC into a BPF function called "wanted".
func compile(text string, kernel *btf.Spec) (code asm.Instructions, function string, err error) {
	spec, err := expr.Parse(text)
	if err != nil {
		return nil, "", err
	}
	function = spec.Selector.Name
	var fn *btf.Func
	if err := kernel.TypeByName(function, &fn); err != nil {
		return nil, "", err
	}
	proto := fn.Type.(*btf.FuncProto)
	probe := &layout.Probe{Name: function, Spec: spec, Method: layout.MethodFentry,
		Params: layout.ParamsOf(proto.Params, proto.Return, runtime.GOARCH)}
	scope := &expr.Scope{Func: function, Types: types{kernel}}
	for _, p := range probe.Params {
		scope.Params = append(scope.Params, p.Param)
	}
	if probe.Items, err = expr.Check(spec, scope); err != nil {
		return nil, "", err
	}
	var predicates []layout.Predicate
	for i, item := range probe.Items {
		if item.Predicate == nil {
			return nil, "", errors.New(probe.ItemText(i) + " is no predicate")
		}
		predicates = append(predicates, layout.Predicate{Term: item.Predicate, Item: i})
	}
	functions, err := codegen.Condition("wanted", probe, predicates, codegen.Options{Arch: runtime.GOARCH})
	if err != nil {
		return nil, "", err
	}
	code, err = bpf.Link(functions...)
	return code, function, err
}

// counter is a program that adds up the calls that are wanted.
func counter(calls *ebpf.Map) asm.Instructions {
	return bpf.Subprogram{Name: "count", Args: 1, Insns: asm.Instructions{
		asm.Call.Label("wanted"),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMapValue(asm.R1, calls.FD(), 0),
		asm.Mov.Imm(asm.R0, 1),
		asm.StoreXAdd(asm.R1, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	}}.Instructions()
}

// types are those of the kernel without its modules.
type types struct{ *btf.Spec }

// TypesByName implements expr.Types.
func (t types) TypesByName(spelling string) ([]btf.Type, error) {
	kind, name, tagged := strings.Cut(spelling, " ")
	if !tagged {
		name = spelling
	}
	found, err := t.AnyTypesByName(name)
	if errors.Is(err, btf.ErrNotFound) {
		return nil, nil
	}
	var out []btf.Type
	for _, f := range found {
		is := ""
		switch f.(type) {
		case *btf.Struct:
			is = "struct"
		case *btf.Union:
			is = "union"
		case *btf.Enum:
			is = "enum"
		case *btf.Func:
			continue
		}
		if tagged == (is != "") && (!tagged || is == kind) {
			out = append(out, f)
		}
	}
	return out, err
}

// Enumerators implements expr.Types.
func (t types) Enumerators(name string) (out []expr.Enumerator, err error) {
	for typ, err := range t.All() {
		if err != nil {
			return nil, err
		}
		if e, ok := typ.(*btf.Enum); ok {
			for _, v := range e.Values {
				if v.Name == name {
					out = append(out, expr.Enumerator{Enum: e, Value: v.Value})
				}
			}
		}
	}
	return out, nil
}
