// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/launch"
)

// A userFlag is the user to run a command as; nil: as ksnoop itself.
type userFlag struct {
	*launch.User
	text string
}

var _ pflag.Value = (*userFlag)(nil)

// String implements pflag.Value.
func (f *userFlag) String() string { return f.text }

// Type implements pflag.Value.
func (f *userFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (f *userFlag) Set(name string) (err error) {
	f.text = name
	if name != "" { // which is refused with those of other options
		f.User, err = launch.LookupUser(name)
	}
	return err
}
