// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Files that the capability look-ups read.
const (
	kallsymsFile  = "proc/kallsyms"
	tracefs       = "sys/kernel/tracing"
	tracefsOld    = "sys/kernel/debug/tracing"
	filterFile    = "available_filter_functions"
	sitesFile     = filterFile + "_addrs" // Linux 6.5: with addresses
	blacklistFile = "sys/kernel/debug/kprobes/blacklist"
)

// mountTracefs is what to do where tracefs is not there.
const mountTracefs = "mount -t tracefs tracefs /" + tracefs

var errHidden = errors.New("addresses are hidden")

// A Refusal is a reason not to attach to a function.
type Refusal uint8

const (
	NoBTF        Refusal = iota + 1 // fentry needs the signature
	Renamed                         // fentry looks up the symbol that BTF names: "foo", not "foo.isra.0"
	NotTraceable                    // not known to ftrace: notrace, inlined, or no room for the call
	Blacklisted                     // NOKPROBE: a probe there would recurse
)

// A RefusedError says why a function cannot be attached to.
type RefusedError struct {
	Func Function
	Why  Refusal
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s", e.Func, e.Reason()) }

// Reason is the error without the function's name.
func (e *RefusedError) Reason() string {
	return map[Refusal]string{
		NoBTF:        "BTF has no signature of it",
		Renamed:      "the compiler changed its name, by which fentry would look for it",
		NotTraceable: "the kernel does not let it be traced (notrace)",
		Blacklisted:  "the kernel does not let it be probed (NOKPROBE)",
	}[e.Why]
}

// An Attach tells for each way of attaching to a function what speaks against
// it. Nil means that nothing known does.
type Attach struct {
	Fentry      error // fentry and fexit
	Kprobe      error // kprobe and kretprobe
	KprobeMulti error // kprobe.multi, kprobe.session and ftrace
}

// Refusal returns the kernel's own reason, if no way is left; else nil.
func (a Attach) Refusal() error {
	if a.Fentry == nil || a.Kprobe == nil || a.KprobeMulti == nil {
		return nil
	}
	return a.Kprobe // BTF and names are no matter to kprobes
}

// Attachable tells how a function can be attached to. Its error is what could
// not be read; the answer then rests on the rest.
func (v *View) Attachable(f Function) (Attach, error) {
	var a Attach
	refuse := func(why Refusal, ways ...*error) {
		for _, w := range ways {
			if *w == nil {
				*w = &RefusedError{f, why}
			}
		}
	}
	switch {
	case f.Type == nil:
		refuse(NoBTF, &a.Fentry)
	case f.Type.Name != f.Name && !f.Alias:
		refuse(Renamed, &a.Fentry)
	}
	traceable, err1 := v.traceable()
	if traceable != nil && !v.allowed(traceable, f) {
		refuse(NotTraceable, &a.Fentry, &a.KprobeMulti)
		// trace_kprobe.c refuses kprobes there as well, unless it was built to be debugged.
		if v.config().options["KPROBE_EVENTS_ON_NOTRACE"] != "y" {
			refuse(NotTraceable, &a.Kprobe)
		}
	}
	blacklisted, err2 := v.blacklisted()
	if blacklisted.has(f.Name, f.Module) {
		refuse(Blacklisted, &a.Kprobe, &a.KprobeMulti)
	}
	return a, errors.Join(err1, err2)
}

// allowed reports whether ftrace can trace a function, under this name or another
// one of the same code.
func (v *View) allowed(set *traceableSet, f Function) bool {
	if set.allows(f) {
		return true
	}
	t, err := v.symbols()
	return err == nil && slices.ContainsFunc(t.called(f.Name), func(i uint32) bool {
		s := &t.symbols[i]
		return t.module(s) == f.Module && (f.Addr == 0 || f.Addr == s.addr) && set.symbol(t, int(i))
	})
}

// A functionSet holds functions by module and name. The kernel's lists have no
// addresses, so functions of one name are in it together.
type functionSet map[string]map[string]struct{}

func (s functionSet) has(name, module string) bool {
	_, ok := s[module][name]
	return ok
}

func (s functionSet) add(name, module string) {
	names := s[module]
	if names == nil {
		names = make(map[string]struct{})
		s[module] = names
	}
	names[name] = struct{}{}
}

// A traceableSet holds the functions that ftrace can trace.
type traceableSet struct {
	functionSet
	// sites are the addresses at which ftrace gets hold of them, sorted; nil if
	// the kernel does not tell.
	sites []uint64
}

// siteReach is how far behind a function's address its site is at most: behind
// what marks it as the target of a jump.
const siteReach = 16

// allows reports whether a function can be traced. Of functions of one name,
// only some may be; where the address decides it does.
func (s *traceableSet) allows(f Function) bool {
	if s.sites == nil || f.Addr == 0 {
		return s.has(f.Name, f.Module)
	}
	i, _ := slices.BinarySearch(s.sites, f.Addr)
	return i < len(s.sites) && s.sites[i]-f.Addr < siteReach
}

// symbol reports whether a symbol is of a function that can be traced.
func (s *traceableSet) symbol(t *symbolTable, i int) bool {
	sym := &t.symbols[i]
	f := Function{Name: t.name(sym), Module: t.module(sym), Addr: sym.addr}
	return s.allows(f) || (s.sites == nil || f.Addr == 0) && t.aliased(i, s.functionSet)
}

// parseTraceable reads lines of "name" or "name [module]", each behind an
// address or not: available_filter_functions or available_filter_functions_addrs.
func parseTraceable(r io.Reader, addresses bool) (*traceableSet, error) {
	set := &traceableSet{functionSet: make(functionSet)}
	in := bufio.NewScanner(r)
	for in.Scan() {
		line := in.Text()
		if addresses {
			site, rest, _ := strings.Cut(line, " ")
			addr, err := strconv.ParseUint(site, 16, 64)
			if err != nil {
				return nil, fmt.Errorf("no address: %q", line)
			}
			set.sites, line = append(set.sites, addr), rest
		}
		name, module, _ := strings.Cut(line, " ")
		if name != "" {
			set.add(name, strings.Trim(module, " []"))
		}
	}
	slices.Sort(set.sites)
	return set, in.Err()
}

// parseBlacklist reads lines of "0xBEGIN-0xEND\tname". Names that begin with a
// section's are ranges, not functions, and do no harm.
func parseBlacklist(r io.Reader) (functionSet, error) {
	set := make(functionSet)
	in := bufio.NewScanner(r)
	for in.Scan() {
		_, name, ok := strings.Cut(in.Text(), "\t")
		if !ok {
			continue
		}
		name, module, _ := strings.Cut(name, " ")
		set.add(name, strings.Trim(module, " []"))
	}
	return set, in.Err()
}

// open opens a file that says what the kernel can do.
func (v *View) open(file, give, missing string) (fs.File, error) {
	f, err := v.root.Open(file)
	if err != nil {
		return nil, access(file, give, missing, err)
	}
	return f, nil
}

func (v *View) readSymbols() (*symbolTable, error) { return v.readSymbolsWhere(nil) }

// readSymbolsWhere reads the symbols whose names are wanted; nil: all.
func (v *View) readSymbolsWhere(wanted func(name []byte) bool) (*symbolTable, error) {
	f, err := v.open(kallsymsFile, "functions that BTF does not have", "the kernel must be built with CONFIG_KALLSYMS")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := parseSymbols(f, wanted)
	if err != nil {
		return nil, fmt.Errorf("reading /%s: %w", kallsymsFile, err)
	}
	return t, nil
}

func (v *View) readTraceable() (set *traceableSet, err error) {
	for _, file := range [...]string{tracefs + "/" + sitesFile, tracefsOld + "/" + sitesFile, tracefs + "/" + filterFile, tracefsOld + "/" + filterFile} {
		set, err = v.readTraceableFrom(file)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return set, err
}

func (v *View) readTraceableFrom(file string) (*traceableSet, error) {
	f, err := v.open(file, "the list of traceable functions", mountTracefs)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	set, err := parseTraceable(f, strings.HasSuffix(file, sitesFile))
	if err != nil {
		return nil, fmt.Errorf("reading /%s: %w", file, err)
	}
	return set, nil
}

func (v *View) readBlacklist() (functionSet, error) {
	f, err := v.open(blacklistFile, "the functions that refuse kprobes", "mount debugfs")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	set, err := parseBlacklist(f)
	if err != nil {
		return nil, fmt.Errorf("reading /%s: %w", blacklistFile, err)
	}
	return set, nil
}
