// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/suggest"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/userfunc"
)

// infoFlags are the options of "ksnoop info".
type infoFlags struct {
	kernel  kernelFlags
	symbols symbolFlags
	types   bool
	long    bool
	verbose bool
}

func newInfoCommand() *cobra.Command {
	var f infoFlags
	c := &cobra.Command{
		Use:   "info PATTERN...",
		Short: "Show the signatures of kernel functions, or types",
		Long: strings.TrimSpace(`
info prints the signature of every function whose name matches a PATTERN, in
which * and ? stand for any characters: "tcp_*", "*_open[nfs*]" for those of
modules. It needs neither root nor a kernel that can be traced. ":kernel/bpf/*.c"
are the functions that source files define; this needs root, a kernel that can be
traced, and debug info. The parameters of system calls, the fields of tracepoints and
BPF programs ("syscall:openat", "tp:sched:*", "bpf:*") are root's to read; raw
tracepoints ("rawtp:sched_*") are anyone's.
Functions of programs and libraries are listed, too: "uprobe:libc.so.6:pthread_*".`),
		Example: "  ksnoop info ip_send_skb\n  ksnoop info -l vfs_read\n  ksnoop info --types 'struct sk_buff'",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no PATTERN given; try: ksnoop info 'tcp_*'")
			}
			return f.run(args, c.OutOrStdout(), c.ErrOrStderr())
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
			if f.types {
				return completeType(&f.kernel, text)
			}
			return completeSpec(&f.kernel, &f.symbols, true)(c, args, text)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&f.long, "long", "l", false, "also show the type of each parameter, with offsets and sizes")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "also show where a function is defined and where it was inlined (needs debug info)")
	flags.BoolVar(&f.types, "types", false, "the PATTERNs are names of types, without *, such as 'struct sk_buff'")
	f.kernel.add(flags)
	f.symbols.addFile(flags)
	return c
}

func (f *infoFlags) run(patterns []string, w, stderr io.Writer) error {
	if f.symbols.vmlinux != "" { // which not every PATTERN has read
		if _, err := os.Stat(f.symbols.vmlinux); err != nil {
			return fmt.Errorf("--vmlinux: %w", err)
		}
	}
	view, closeView, err := f.kernel.view()
	if err != nil {
		return err
	}
	defer closeView()
	defer f.symbols.close(stderr)
	var out []byte
	var errs []error
	for _, pattern := range patterns {
		if f.types {
			out, err = appendTypes(out, view, pattern)
		} else {
			out, err = f.appendFunctions(out, view, pattern)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if _, err := w.Write(out); err != nil {
		return err
	}
	return errors.Join(errs...)
}

func appendTypes(out []byte, view *kernel.View, spelling string) ([]byte, error) {
	if i := strings.IndexAny(spelling, "*?["); i >= 0 {
		return out, usagef("--types takes the name of a type, without %c: such as 'struct sk_buff'", spelling[i])
	}
	types, err := typesSpelled(view, spelling)
	if err != nil {
		return out, err
	}
	if len(types) == 0 {
		return out, usagef("the kernel has no type %q%s", spelling, typeHint(view, spelling))
	}
	for _, t := range types {
		out = append(btfprint.AppendType(out, t, btfprint.TypeOptions{}), '\n')
	}
	return out, nil
}

// unqualified removes qualifiers from a spelling: they make no difference to a value.
func unqualified(spelling string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(spelling), func(word string) bool { return word == "const" || word == "volatile" }), " ")
}

// typesSpelled returns the types with a spelling of C, which may be "unsigned long": BTF has it as "long unsigned int".
func typesSpelled(view *kernel.View, spelling string) ([]btf.Type, error) {
	for _, name := range (expr.TypeName{Name: unqualified(spelling)}).Names() {
		if types, err := view.TypesByName(name, ""); err != nil || len(types) > 0 {
			return types, err
		}
	}
	return nil, nil
}

// typeHint says which type may have been meant.
func typeHint(view *kernel.View, spelling string) string {
	near := view.NearestType(spelling, "")
	switch last := func(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }; {
	case near == "":
		return ""
	case last(near) == last(spelling):
		return fmt.Sprintf("; there is %q", near)
	}
	return "; " + suggest.DidYouMean(near)
}

func (f *infoFlags) appendFunctions(out []byte, view *kernel.View, pattern string) ([]byte, error) {
	if kind, name, ok := strings.Cut(pattern, " "); ok && (kind == "struct" || kind == "union" || kind == "enum") {
		return out, usagef("info shows functions; for a type write: ksnoop info --types '%s %s'", kind, strings.TrimSpace(name))
	}
	spec, err := expr.Parse(pattern)
	if err != nil {
		return out, err
	}
	if spec.Parens {
		return out, usagef("%s: info takes a function's name only; to check a whole SPEC use trace", pattern)
	}
	options := plan.Options{Sources: f.symbols.sources(view), Arch: hostArch, UserFile: userfunc.Opener(os.Getenv("PATH"), hostArch), Described: true, Listed: true}
	shown := map[string]bool{}
	if spec.Selector.Kind != expr.Function {
		spec.Parens = true // no values are wanted, so that none can be too many
		var untyped []byte
		options.Untyped = func(file string, err error) {
			untyped = fmt.Appendf(untyped, "/* %s: %s */\n", terminal.Name(file), terminal.Name(err.Error()))
		}
		p, skipped, err := plan.Resolve(view, []*expr.Spec{spec}, options)
		if err != nil {
			return out, err
		}
		for _, probe := range p.Probes {
			if program, ok := probe.Func.Program(); ok {
				out = fmt.Appendf(out, "/* of BPF program %s, %d%s */\n", terminal.Name(program.Name), program.ID, ofCut(probe.Func))
			}
			out = f.appendSignature(out, probe.Name, probe.Signature(), shown)
		}
		for _, s := range skipped {
			out = fmt.Appendf(out, "/* %s cannot be traced: %s */\n", terminal.Name(s.Name()), terminal.Name(s.Why.Error()))
		}
		return append(out, untyped...), nil
	}
	funcs, err := plan.Select(view, spec, options)
	if err != nil {
		with, ok, inlinedErr := f.appendInlinedOnly(out, spec.Selector)
		if ok {
			return with, nil
		}
		if called := typeCalled(view, pattern); called != "" {
			return out, usagef("info shows functions, and none is called %q; for the type write: ksnoop info --types '%s'", pattern, called)
		}
		return out, errors.Join(err, inlinedErr)
	}
	var sources *sourcePlaces
	if f.verbose {
		if sources, err = f.symbols.places(funcs); err != nil {
			return out, fmt.Errorf("--verbose: %w", err)
		}
		defer sources.info.Close()
	}
	for i, fn := range funcs {
		var proto *btf.FuncProto
		if fn.Type != nil {
			proto, _ = fn.Type.Type.(*btf.FuncProto)
		}
		out = f.appendSignature(out, fn.String(), proto, shown)
		if sources != nil {
			out = sources.append(out, i)
		}
	}
	return out, nil
}

// ofCut tells what the compiler has taken away from a function of a BPF program.
func ofCut(fn kernel.Function) (text string) {
	if fn.Cut.Params {
		text = fmt.Sprintf("; the compiler passes %d of its parameters, and nothing tells which", fn.Cut.Passed)
	}
	if fn.Cut.Result {
		text += "; no caller reads the result"
	}
	return text
}

// typeCalled returns the type of a name; "": there is none.
func typeCalled(view *kernel.View, name string) string {
	if types, err := view.TypesByName(name, ""); err == nil && len(types) > 0 {
		return name
	}
	if near := view.NearestType(name, ""); near[strings.LastIndexByte(near, ' ')+1:] == name {
		return near
	}
	return ""
}

// appendSignature appends one signature and, with -l, the types of parameters
// that were not shown before. name may have its module behind it.
func (f *infoFlags) appendSignature(out []byte, name string, proto *btf.FuncProto, shown map[string]bool) []byte {
	if proto == nil {
		return fmt.Appendf(out, "/* no types are known of %s */\n", terminal.Name(name))
	}
	bare, _, _ := strings.Cut(name, "[")
	out = append(btfprint.AppendFunc(out, bare, proto), '\n')
	if !f.long {
		return out
	}
	types := []btf.Type{proto.Return}
	for _, p := range proto.Params {
		types = append(types, p.Type)
	}
	for _, t := range types {
		if p, ok := btf.UnderlyingType(t).(*btf.Pointer); ok {
			t = p.Target
		}
		t = btf.UnderlyingType(t)
		switch t.(type) {
		case *btf.Struct, *btf.Union, *btf.Enum:
		default:
			continue
		}
		name := string(btfprint.AppendTypeName(nil, t))
		if shown[name] {
			continue
		}
		shown[name] = true
		out = append(out, '\n')
		out = append(btfprint.AppendType(out, t, btfprint.TypeOptions{}), '\n')
	}
	return out
}
