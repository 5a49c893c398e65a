// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// optionWord is an option as messages name one, with what is before it.
var optionWord = regexp.MustCompile(`(^|[\s(,])(--[a-z][a-z-]+|-[A-Za-z])\b`)

// asTyped has a message name options in the form in which they were typed: -c or --count.
func asTyped(root *cobra.Command, args []string, text string) string {
	c, args, err := root.Find(args)
	if err != nil {
		return text
	}
	names := typedNames(c.Flags(), args)
	return optionWord.ReplaceAllStringFunc(text, func(word string) string {
		begin := strings.IndexByte(word, '-')
		if typed, ok := names[word[begin:]]; ok {
			return word[:begin] + typed
		}
		return word
	})
}

// typedNames returns, for options of which one form was typed, that form by the other one.
func typedNames(flags *pflag.FlagSet, args []string) map[string]string {
	names := map[string]string{}
	typed := func(f *pflag.Flag, form, other string) {
		if _, both := names[form]; both {
			delete(names, form) // messages may have either
		} else if f.Shorthand != "" {
			names[other] = form
		}
	}
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		arg := args[i]
		if long, ok := strings.CutPrefix(arg, "--"); ok {
			name, _, assigned := strings.Cut(long, "=")
			if f := flags.Lookup(name); f != nil {
				typed(f, "--"+name, "-"+f.Shorthand)
				if !assigned && f.NoOptDefVal == "" {
					i++ // its value
				}
			}
			continue
		}
		for at := 1; at < len(arg) && arg[0] == '-'; at++ {
			f := flags.ShorthandLookup(arg[at : at+1])
			if f == nil {
				break
			}
			typed(f, "-"+f.Shorthand, "--"+f.Name)
			if f.NoOptDefVal == "" {
				if at == len(arg)-1 {
					i++ // its value
				}
				break
			}
		}
	}
	return names
}
