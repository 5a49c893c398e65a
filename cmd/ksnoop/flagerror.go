// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
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
	case known && (isNumber || flag.Value.Type() == "duration"):
		cause = errors.New(form)
	}
	return fmt.Errorf("%s %s: %w", spelling(flag), strconv.Quote(invalid.GetValue()), cause)
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
