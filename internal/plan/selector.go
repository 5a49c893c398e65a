// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// isName reports whether a selector is the full name of a function.
func isName(s expr.Selector) bool { return s.Path == "" && !glob.Is(s.Name) }

// selectsOf reports whether a selector of functions of BPF programs selects one.
func selectsOf(sel expr.Selector, f kernel.Function) bool {
	return sel.Kind == expr.Program && f.InProgram(sel.Module) && glob.Match(sel.Name, f.Name)
}

// Sources returns a test of whether a function is defined in a source file whose path
// matches pattern. The test goes by the function's address.
type Sources func(pattern string) (func(kernel.Function) bool, error)

var errNoSources = errors.New("only the debug info of a running kernel tells which functions a source file defines")

// definedIn returns the attachable functions that are defined in source files matching a
// glob.
func definedIn(view *kernel.View, pattern string, sources Sources) ([]kernel.Function, error) {
	if sources == nil {
		return nil, errNoSources
	}
	in, err := sources(pattern)
	if err != nil {
		return nil, err
	}
	return view.Select(in)
}

// having returns a test of whether a function takes and returns the types that a selector
// wants.
func having(view *kernel.View, sel expr.Selector) (func(kernel.Function) bool, error) {
	if len(sel.Signature) == 0 {
		return func(kernel.Function) bool { return true }, nil
	}
	var wanted []kernel.Spelling
	for _, w := range sel.Signature {
		wanted = append(wanted, kernel.Spelling{Names: w.Type.Names(), Stars: w.Type.Stars, Return: w.Return})
	}
	return view.Having(wanted)
}
