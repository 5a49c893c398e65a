// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// A Config is what a file says.
type Config struct {
	Listen   Listen
	Requests []*Request

	file string
	text string
}

// A Request is one request of a file.
type Request struct {
	Name string
	// Args are options, and behind them SPECs: the arguments of "ksnoop trace". Two requests that
	// ask for the same have the same.
	Args []string
	// Specs are the last of Args.
	Specs []string
	// Target is what Args were set in.
	Target Target

	name  *yaml.Node            // of the key
	keys  map[string]*yaml.Node // of options
	texts []*yaml.Node          // every value, to find SPECs again
}

// A Target takes the options of one request.
type Target interface {
	// Key describes a key, or says why there is none.
	Key(name string) (Key, error)
	// Names returns all keys, for hints.
	Names() []string
	// Set sets an option. A repeatable one is set several times.
	Set(name, value string) error
	// Check finds options that do not go together, and SPECs that cannot be read. What depends on the
	// kernel is not its business.
	Check(name string, specs []string) error
}

// A Key is how the value of an option is written.
type Key struct {
	Bool       bool
	Repeatable bool
	// Without is what an option is without a value, as true stands for in a file; "" if it must have one.
	Without string
	Default string
}

// ErrUnknown is what Target.Key returns for a name that means nothing.
var ErrUnknown = errors.New("unknown key")

func (c *Config) syntax(line int, format string, args ...any) error {
	return Faults{{c.file, line, 1, fmt.Sprintf(format, args...)}}
}
