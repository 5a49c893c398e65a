// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/suggest"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// flagError says what is wrong with an option. Of numbers and times pflag says it
// in the words of the Go function that did not understand them.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag := invalid.GetFlag()
	cause := flagError(invalid.Unwrap()) // of one option that sets another
	form, known := flagForms[flag.Value.Type()]
	var number *strconv.NumError
	switch isNumber := errors.As(cause, &number); {
	case isNumber && errors.Is(number, strconv.ErrRange):
		cause = errors.New("that number is too large")
	case flag.Value.Type() == "duration" && units.MatchString(invalid.GetValue()):
		cause = errors.New("that time is too long")
	case known && (isNumber || flag.Value.Type() == "duration"):
		cause = errors.New(form)
	}
	return fmt.Errorf("%s %s: %w", spelling(flag), strconv.Quote(invalid.GetValue()), cause)
}

// units is what a time with its unit looks like. time.ParseDuration says the same of one that is none and of one that is too long.
var units = regexp.MustCompile(`^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)

// nearestFlag adds to what is said of an option that does not exist which command has it, or which
// one may have been meant.
func nearestFlag(c *cobra.Command, err error) error {
	var valueless *pflag.ValueRequiredError
	if errors.As(err, &valueless) {
		if letters := valueless.GetSpecifiedShortnames(); letters != "" {
			return fmt.Errorf("-%s takes a value", letters[:1])
		}
		return fmt.Errorf("--%s takes a value", valueless.GetSpecifiedName())
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name, letters := unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames()
	short := letters != ""
	switch {
	case short && letters[0] >= utf8.RuneSelf:
		return notASCII(c, letters)
	case short:
		err = fmt.Errorf("there is no option -%s", name)
	default:
		err = fmt.Errorf("there is no option --%s", name)
	}
	if word := forgotten(c); word != "" {
		err = fmt.Errorf("%w; if %s is the command to run, it stands behind --", err, word)
	}
	if hint := optionHint(c, name, short); hint != "" {
		return fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

// optionHint says which option may have been meant by one that a command does not have.
func optionHint(c *cobra.Command, name string, short bool) string {
	if ours := othersOptions[name]; ours != "" && c.Flags().Lookup(strings.Fields(ours)[0][2:]) != nil {
		return "write " + ours
	}
	if c.HasParent() && (name == "version" || short && name == "V") {
		return "for the version write ksnoop --version"
	}
	if c.Name() == "why" && (name == "only-errors" || short && name == "x") {
		return "why selects errors by --errno"
	}
	// These two are the ones that are taken for each other. Where both have the option, trace is the usual one.
	for _, other := range []string{"trace", "replay"} {
		sub, _, _ := c.Root().Find([]string{other}) // both exist
		flags := sub.LocalNonPersistentFlags()
		f := flags.Lookup(name)
		if short {
			f = flags.ShorthandLookup(name)
		}
		if f != nil && !f.Hidden {
			return "it is an option of ksnoop " + other
		}
	}
	if short {
		return ""
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := suggest.Nearest(name, slices.Values(names)); near != "" {
		return "did you mean --" + near + "?"
	}
	return ""
}

// forgotten returns the first word before an unknown option of trace that is the name of a program: its -- may be
// forgotten. Functions can have such a name, too.
func forgotten(c *cobra.Command) string {
	if c.HasParent() && c.Name() != "trace" {
		return ""
	}
	for _, word := range c.Flags().Args() {
		if _, err := exec.LookPath(word); err == nil {
			return word
		}
	}
	return ""
}

// notASCII says that there is no option of one dash and a word that does not begin with a letter of ASCII. pflag knows only
// its first byte. The word may begin with another kind of dash: word processors and web pages make one of two.
func notASCII(c *cobra.Command, word string) error {
	err := fmt.Errorf("there is no option -%s", terminal.Name(word))
	name, _, _ := strings.Cut(strings.TrimLeftFunc(word, func(r rune) bool { return unicode.In(r, unicode.Dash) }), "=")
	if f := c.Flags().Lookup(name); f != nil && !f.Hidden {
		return fmt.Errorf("%w; did you mean --%s?", err, name)
	}
	return err
}

// othersOptions are options that other tools have, with what to write here. It is never changed.
var othersOptions = map[string]string{"json": "--format json", "duration": "--for TIME", "timeout": "--for TIME", "file": "--output FILE"}

// valueApart says that the value of an option that may go without one stands behind =. A word that only
// resembles a value counts if the message is about that word.
func valueApart(root *cobra.Command, args []string, message string) string {
	c, args, err := root.Find(args)
	if err != nil {
		return ""
	}
	values := flagValues()
	for i, arg := range args[:max(0, len(args)-1)] {
		if arg == "--" {
			break
		}
		f := given(c.Flags(), arg)
		if f == nil || f.NoOptDefVal == "" && f.Name != "symbolize" {
			continue
		}
		value, known, near := args[i+1], values[f.Name], ""
		word, _, _ := strings.Cut(value, ",")
		isKnown := word == f.NoOptDefVal || slices.Contains(known, word) || f.Name == "kubelet" && strings.Contains(value, "://")
		if !isKnown && strings.Contains(message, strconv.Quote(value)) {
			near = suggest.Nearest(value, slices.Values(known))
		}
		switch level := f.Name == "symbolize"; {
		case level && near != "": // withLevels has taken those that are known
			return fmt.Sprintf("did you mean %s %s? What is no LEVEL is taken for a SPEC:\n", arg, near)
		case !level && (isKnown || near != ""):
			return fmt.Sprintf("did you mean %s=%s? The value of %s stands behind an equals sign:\n", arg, cmp.Or(near, value), arg)
		}
	}
	return ""
}

// given returns the option that an argument is without a value, or nil. Of several letters it is the last.
func given(flags *pflag.FlagSet, arg string) *pflag.Flag {
	if name, long := strings.CutPrefix(arg, "--"); long {
		return flags.Lookup(name)
	}
	letters, short := strings.CutPrefix(arg, "-")
	if !short || letters == "" {
		return nil
	}
	last := len(letters) - 1
	for i := range last {
		if f := flags.ShorthandLookup(letters[i : i+1]); f == nil || f.NoOptDefVal == "" {
			return nil
		}
	}
	return flags.ShorthandLookup(letters[last:])
}

// oneDash says that a long option has two dashes, where one was written with one: it reads as several
// short ones.
func oneDash(root *cobra.Command, args []string) string {
	c, args, err := root.Find(args)
	if err != nil {
		return ""
	}
	for _, arg := range args {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if f := c.Flags().Lookup(name); f != nil && len(name) > 1 && strings.HasPrefix(arg, "-") {
			return "did you mean --" + name + "? With one dash, each letter is an option:\n"
		}
	}
	return ""
}

func spelling(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// checkEmpty refuses options that were given an empty word, as a shell makes of a
// variable that is not set: most would stand for the absence of the option. SPECs
// are looked at by their parser.
func checkEmpty(flags *pflag.FlagSet) (err error) {
	specs := []string{"entry", "allow", "deny", "inject"}
	flags.Visit(func(f *pflag.Flag) {
		words := []string{f.Value.String()}
		switch v := f.Value.(type) {
		case pflag.SliceValue:
			words = v.GetSlice()
		default:
			if v.Type() != "string" && f.Name != "attach" {
				return
			}
		}
		if err == nil && !slices.Contains(specs, f.Name) && (len(words) == 0 || slices.Contains(words, "")) {
			err = usagef("%s is given an empty word; leave it out, or give it a value", spelling(f))
		}
	})
	return err
}

// flagForms says what values of pflag's types look like.
var flagForms = map[string]string{
	"bool":      "write true or false, or leave the value out",
	"int":       numberForm,
	"int64":     numberForm,
	"uint":      numberForm,
	"uint64":    numberForm,
	"uintSlice": "write a number, as 1234, or several with commas between them",
	"duration":  "write a time with its unit, such as 10ms, 1.5s or 5m",
}

const numberForm = "write a whole number in digits, as 1000"
