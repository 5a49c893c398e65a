// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Files that the capability look-ups read.
const (
	kallsymsFile  = "proc/kallsyms"
	tracefs       = "sys/kernel/tracing"
	tracefsOld    = "sys/kernel/debug/tracing"
	filterFile    = "available_filter_functions"
	blacklistFile = "sys/kernel/debug/kprobes/blacklist"
)

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

func (e *RefusedError) Error() string {
	why := map[Refusal]string{
		NoBTF:        "BTF has no signature of it",
		Renamed:      "the compiler changed its name, by which fentry would look for it",
		NotTraceable: "ftrace cannot trace it",
		Blacklisted:  "the kernel refuses kprobes there",
	}[e.Why]
	return fmt.Sprintf("%s: %s", e.Func, why)
}

// An Attach tells for each way of attaching to a function what speaks against
// it. Nil means that nothing known does.
type Attach struct {
	Fentry      error // fentry and fexit
	Kprobe      error // kprobe and kretprobe
	KprobeMulti error // kprobe.multi, kprobe.session and ftrace
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
	if traceable != nil && !traceable.has(f.Name, f.Module) {
		refuse(NotTraceable, &a.Fentry, &a.KprobeMulti)
	}
	blacklisted, err2 := v.blacklisted()
	if blacklisted.has(f.Name, f.Module) {
		refuse(Blacklisted, &a.Kprobe, &a.KprobeMulti)
	}
	return a, errors.Join(err1, err2)
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

// parseFunctions reads lines of "name" or "name [module]", as in
// available_filter_functions.
func parseFunctions(r io.Reader) (functionSet, error) {
	set := make(functionSet)
	in := bufio.NewScanner(r)
	for in.Scan() {
		name, module, _ := strings.Cut(in.Text(), " ")
		if name != "" {
			set.add(name, strings.Trim(module, " []"))
		}
	}
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

func (v *View) readSymbols() (*symbolTable, error) {
	f, err := v.open(kallsymsFile, "functions that BTF does not have", "the kernel must be built with CONFIG_KALLSYMS")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := parseSymbols(f)
	if err != nil {
		return nil, fmt.Errorf("reading /%s: %w", kallsymsFile, err)
	}
	return t, nil
}

func (v *View) readTraceable() (functionSet, error) {
	const give = "the list of traceable functions"
	file := tracefs + "/" + filterFile
	f, err := v.open(file, give, "mount tracefs")
	if errors.Is(err, fs.ErrNotExist) {
		file = tracefsOld + "/" + filterFile
		if f2, err2 := v.open(file, give, "mount tracefs"); err2 == nil {
			f, err = f2, nil
		}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	set, err := parseFunctions(f)
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
