// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/symbols"
)

// What people's fingers know from retsnoop, as of v0.11: other names of options
// that ksnoop has, and settings that are options here. None of it is in --help.

// retsnoopNames are the names of options that retsnoop spells otherwise. It is
// never changed.
var retsnoopNames = map[string]string{
	"case":           "preset",
	"no-pid":         "not-pid",
	"no-comm":        "not-comm",
	"success-stacks": "success",
	"interim-stacks": "interim",
	"inject-probe":   "inject",
	"allow-errors":   "only-errors",
	"deny-errors":    "except-errors",
	"kernel":         "vmlinux",
	"kprobes-multi":  "kprobe-multi",
}

// addRetsnoop adds the options that ksnoop has for those who know retsnoop only.
func addRetsnoop(flags *pflag.FlagSet, configHelp *bool) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if ours, ok := retsnoopNames[name]; ok {
			name = ours
		}
		return pflag.NormalizedName(name)
	})
	for _, m := range [...]struct{ name, letter, method string }{
		{"kprobe-multi", "M", "multi"}, {"kprobes", "K", "kprobe"}, {"fentries", "F", "fentry"},
	} {
		flags.VarPF(methodFlag{flags, m.method}, m.name, m.letter, "the same as --attach "+m.method).NoOptDefVal = "true"
	}
	flags.BoolP("call-stack", "E", false, "sessions: print the stack of what failed, which is always done")
	flags.VarP(configFlag{flags}, "config", "C", "retsnoop's settings, which are options here")
	flags.BoolVar(configHelp, "config-help", false, "list retsnoop's settings and the options that they are")
	for _, name := range []string{"call-stack", "config", "config-help"} {
		flags.Lookup(name).Hidden = true
	}
}

// A methodFlag is a short form of --attach.
type methodFlag struct {
	flags  *pflag.FlagSet
	method string
}

var _ pflag.Value = methodFlag{}

// String implements pflag.Value.
func (methodFlag) String() string { return "" }

// Type implements pflag.Value.
func (methodFlag) Type() string { return "bool" }

// Set implements pflag.Value.
func (f methodFlag) Set(string) error { return f.flags.Set("attach", f.method) }

// An attachFlag is --attach, whose short forms set it, too.
type attachFlag struct {
	method *string
	asked  *[]string // for all that was given
}

var _ pflag.Value = attachFlag{}

// String implements pflag.Value.
func (f attachFlag) String() string {
	if f.method == nil {
		return "" // pflag asks the zero value for the default
	}
	return *f.method
}

// Type implements pflag.Value.
func (attachFlag) Type() string { return "METHOD" }

// Set implements pflag.Value.
func (f attachFlag) Set(s string) error {
	if s == "kprobe.multi" || s == "kprobe.session" { // the kernel's names
		s = strings.TrimPrefix(s, "kprobe.")
	}
	*f.method, *f.asked = s, append(*f.asked, s)
	return nil
}

// A yesNoFlag is a bool that also takes y and n, as retsnoop's -S does.
type yesNoFlag struct{ value *bool }

var _ pflag.Value = yesNoFlag{}

// String implements pflag.Value.
func (f yesNoFlag) String() string {
	if f.value == nil {
		return "false" // pflag asks the zero value for the default
	}
	return strconv.FormatBool(*f.value)
}

// Type implements pflag.Value.
func (yesNoFlag) Type() string { return "bool" }

// Set implements pflag.Value.
func (f yesNoFlag) Set(s string) (err error) {
	*f.value, err = parseYesNo(s)
	return err
}

// A choiceFlag is a yesNoFlag that need not be given.
type choiceFlag struct{ value **bool }

var _ pflag.Value = choiceFlag{}

// String implements pflag.Value.
func (f choiceFlag) String() string {
	if f.value == nil || *f.value == nil {
		return ""
	}
	return strconv.FormatBool(**f.value)
}

// Type implements pflag.Value.
func (choiceFlag) Type() string { return "bool" }

// Set implements pflag.Value.
func (f choiceFlag) Set(s string) error {
	yes, err := parseYesNo(s)
	*f.value = &yes
	return err
}

func parseYesNo(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "y", "yes", "true", "1":
		return true, nil
	case "n", "no", "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither y nor n", s)
}

// A setting is one of those of retsnoop's --config.
type setting struct {
	key     string
	options []string          // that it is here; none: there is no such thing
	values  map[string]string // what else values are called; nil: they are the same
}

// settings are never changed.
var settings = [...]setting{
	{"bpf.ringbuf-size", []string{"ringbuf"}, nil},
	{"bpf.sessions-size", []string{"sessions"}, nil},
	{"stacks.symb-mode", []string{"symbolize"}, map[string]string{"l": "line", "linenum": "line", "i": "inlines", "n": "none"}},
	{"stacks.unfiltered", []string{"full-stacks", "unfiltered"}, map[string]string{"y": "true", "n": "false"}},
	{"stacks.emit-addrs", []string{"verbose"}, map[string]string{"y": "true", "n": "false"}},
	{"stacks.dec-offs", nil, nil},
	{"args.fmt-mode", []string{"args"}, map[string]string{"c": "compact", "m": "multiline", "v": "verbose"}},
	{"args.max-total-args-size", nil, nil},
	{"args.max-sized-arg-size", nil, nil},
	{"args.max-str-arg-size", nil, nil},
	{"args.capture-raw-ptrs", nil, nil},
	{"args.fmt-max-arg-width", []string{"args-width"}, nil},
	{"fmt.lbr-max-count", []string{"lbr-max"}, nil},
}

// A configFlag is -C KEY=VALUE.
type configFlag struct{ flags *pflag.FlagSet }

var _ pflag.Value = configFlag{}

// String implements pflag.Value.
func (configFlag) String() string { return "" }

// Type implements pflag.Value.
func (configFlag) Type() string { return "KEY=VALUE" }

// Set implements pflag.Value.
func (f configFlag) Set(s string) error {
	key, value, ok := strings.Cut(s, "=")
	i := slices.IndexFunc(settings[:], func(c setting) bool { return c.key == key })
	switch {
	case i < 0:
		return fmt.Errorf("retsnoop has no setting %q: --config-help lists them", key)
	case len(settings[i].options) == 0:
		return fmt.Errorf("ksnoop has nothing like %s: --config-help lists what it has", key)
	case !ok:
		return fmt.Errorf("write %s=VALUE", key)
	}
	if ours, ok := settings[i].values[strings.ToLower(value)]; ok {
		value = ours
	}
	for _, name := range settings[i].options {
		if err := f.flags.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// configHelp lists the settings and the options that they are.
func configHelp() string {
	var b strings.Builder
	b.WriteString("retsnoop's settings (-C KEY=VALUE) and the options of ksnoop that they are:\n")
	for _, c := range settings {
		is := "nothing like it"
		if len(c.options) > 0 {
			is = "--" + strings.Join(c.options, " --")
		}
		fmt.Fprintf(&b, "  %-26s %s\n", c.key, is)
	}
	return b.String()
}

// withLevels gives -s, which takes a word, retsnoop's form as well: without a word
// it is -s line, and -sn and -ss have theirs attached. What is no level is not
// taken for one: in "-s vfs_read" there is a SPEC.
func withLevels(root *cobra.Command, args []string) []string {
	c, _, err := root.Find(args)
	if err != nil || c.Flags().ShorthandLookup("s") == nil || c.Flags().Lookup("symbolize") == nil {
		return args
	}
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if arg != "--symbolize" && !endsInLevel(c.Flags(), arg) {
			out = append(out, arg)
			continue
		}
		level := symbols.LevelLine.String()
		if i+1 < len(args) {
			if _, err := symbols.ParseLevel(args[i+1]); err == nil {
				level = args[i+1]
				i++
			}
		}
		out = append(out, arg+"="+level)
	}
	return out
}

// endsInLevel reports whether an argument is letters of options that take no word,
// and then the s of -s.
func endsInLevel(flags *pflag.FlagSet, arg string) bool {
	letters, ok := strings.CutPrefix(arg, "-")
	letters, ends := strings.CutSuffix(letters, "s")
	if !ok || !ends || letters == "s" {
		return false
	}
	for _, c := range letters {
		if c > 0x7f || c == 's' {
			return false
		}
		if f := flags.ShorthandLookup(string(c)); f == nil || f.NoOptDefVal == "" {
			return false
		}
	}
	return true
}
