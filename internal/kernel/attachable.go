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

// Files that say what can be attached to.
const (
	tracefs       = "sys/kernel/tracing"
	tracefsOld    = "sys/kernel/debug/tracing"
	filterFile    = "available_filter_functions"
	sitesFile     = filterFile + "_addrs" // with addresses; Linux 6.5
	blacklistFile = "sys/kernel/debug/kprobes/blacklist"
)

// mountTracefs is the advice where tracefs is not mounted.
const mountTracefs = "mount -t tracefs tracefs /" + tracefs

// A Refusal is a reason for not attaching to a function.
type Refusal uint8

const (
	NoBTF        Refusal = iota + 1 // fentry needs the signature
	Renamed                         // fentry looks for the symbol that BTF names: "foo", not "foo.isra.0"
	Implicit                        // a kfunc's implicit arguments are lost to fentry before Linux 7.2
	NotTraceable                    // ftrace does not know it: notrace, inlined, or no room for the call
	Blacklisted                     // NOKPROBE: a probe would recurse
)

// A RefusedError says why a function cannot be attached to.
type RefusedError struct {
	Func Function
	Why  Refusal
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s", e.Func, e.Reason()) }

// Reason returns the error text without the function's name.
func (e *RefusedError) Reason() string {
	return map[Refusal]string{
		NoBTF:        "BTF has no signature of it",
		Renamed:      "the compiler changed its name, by which fentry would look for it",
		Implicit:     "it has arguments that the verifier adds, and kernels before 7.2 lose these at fentry; kprobes lose nothing",
		NotTraceable: "the kernel does not let it be traced (notrace)",
		Blacklisted:  "the kernel does not let it be probed (NOKPROBE)",
	}[e.Why]
}

// An Attach says for each way of attaching what prevents it. Nil means that nothing known
// does.
type Attach struct {
	fentry      error // fentry and fexit
	kprobe      error // kprobe and kretprobe
	kprobeMulti error // kprobe.multi, kprobe.session and ftrace
}

// Refusal returns the kernel's own reason if no way is left, else nil.
func (a Attach) Refusal() error {
	if a.fentry == nil || a.kprobe == nil || a.kprobeMulti == nil {
		return nil
	}
	return a.kprobe // BTF and names do not matter to kprobes
}

// Attachable says how a function can be attached to. A non-nil error says what could not be
// read; the answer is then based on the rest.
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
		refuse(NoBTF, &a.fentry)
	case f.Type.Name == f.Name+implicitSuffix:
		refuse(Implicit, &a.fentry)
	case f.Type.Name != f.Name && !f.Alias:
		refuse(Renamed, &a.fentry)
	}
	traceable, err1 := v.traceable()
	if traceable != nil && !v.allowed(traceable, f) {
		refuse(NotTraceable, &a.fentry, &a.kprobeMulti)
		// trace_kprobe.c refuses kprobes there too, unless built for debugging.
		if v.config().options["KPROBE_EVENTS_ON_NOTRACE"] != "y" {
			refuse(NotTraceable, &a.kprobe)
		}
	}
	blacklisted, err2 := v.blacklisted()
	if blacklisted.has(f.Name, f.Module) {
		refuse(Blacklisted, &a.kprobe, &a.kprobeMulti)
	}
	return a, errors.Join(err1, err2)
}

// allowed reports whether ftrace can trace a function, under this name or another name of
// the same code.
func (v *View) allowed(set *traceableSet, f Function) bool {
	if set.allows(f) {
		return true
	}
	t, err := v.functions()
	return err == nil && slices.ContainsFunc(t.called(f.Name), func(i uint32) bool {
		s := &t.symbols[i]
		return t.module(s) == f.Module && (f.Addr == 0 || f.Addr == s.addr) && set.symbol(t, int(i))
	})
}

// A functionSet holds functions by module and name. The kernel's lists have no addresses,
// so functions of the same name are one.
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
	// sites are the addresses of ftrace's hooks, sorted; nil if the kernel does not tell
	// them.
	sites []uint64
}

// siteReach bounds, in bytes, how far a function's hook is from its address: a landing pad
// may come first.
const siteReach = 16

// allows reports whether a function can be traced. If it has namesakes, some of which can
// be, the address decides if it is known.
func (s *traceableSet) allows(f Function) bool {
	if s.sites == nil || f.Addr == 0 {
		return s.has(f.Name, f.Module)
	}
	i, _ := slices.BinarySearch(s.sites, f.Addr)
	return i < len(s.sites) && s.sites[i]-f.Addr < siteReach
}

// symbol reports whether a symbol is a function that can be traced.
func (s *traceableSet) symbol(t *symbolTable, i int) bool {
	sym := &t.symbols[i]
	f := Function{Name: t.name(sym), Module: t.module(sym), Addr: sym.addr}
	return s.allows(f) || (s.sites == nil || f.Addr == 0) && t.aliased(i, s.functionSet)
}

// aliased reports whether a symbol is another name of a function in the set. ftrace lists
// one name for each address: __do_sys_getppid, but not __x64_sys_getppid. kallsyms lists
// the symbols of one address in sequence.
func (t *symbolTable) aliased(i int, set functionSet) bool {
	s := &t.symbols[i]
	if s.addr == 0 {
		return false
	}
	for _, step := range [...]int{-1, 1} {
		for j := i + step; j >= 0 && j < len(t.symbols) && t.symbols[j].addr == s.addr; j += step {
			if other := &t.symbols[j]; other.module == s.module && set.has(t.name(other), t.module(other)) {
				return true
			}
		}
	}
	return false
}

// parseTraceable parses available_filter_functions or available_filter_functions_addrs:
// lines of "name" or "name [module]", after an address in the latter.
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

// parseBlacklist parses lines of "0xBEGIN-0xEND\tname". Names of section boundaries stand
// for ranges, not functions; they do no harm.
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

// open opens a file that says what the kernel can do. give and missing are for the error.
func (v *View) open(file, give, missing string) (fs.File, error) {
	if v.root == nil {
		return nil, errNoKernel
	}
	f, err := v.root.Open(file)
	if err != nil {
		return nil, access(file, give, missing, err)
	}
	return f, nil
}

// readTraceable reads which functions ftrace can trace, with addresses if the kernel
// lists them.
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

// readBlacklist reads where the kernel refuses kprobes. debugfs has the list, which few
// processes may read.
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
