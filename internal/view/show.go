// SPDX-License-Identifier: Apache-2.0

package view

import (
	"errors"
	"io"

	tea "charm.land/bubbletea/v2"
)

// Show shows a recording on a terminal until somebody has had enough. in is nil if keys come from the standard
// input. A recording that ends early is an error, afterwards.
func Show(o Options, in io.Reader, out io.Writer) error {
	m, err := newModel(o)
	if err != nil {
		return err
	}
	options := []tea.ProgramOption{tea.WithOutput(out)}
	if in != nil {
		options = append(options, tea.WithInput(in))
	}
	_, err = tea.NewProgram(m, options...).Run()
	m.events.store.drop()
	if err == nil && !errors.Is(m.state.err, errFull) {
		err = m.state.err
	}
	return err
}

// newModel returns a model that has begun to read.
func newModel(o Options) (*model, error) {
	m := &model{Options: o, width: 80, lines: 24, doing: map[string]func(*model) tea.Cmd{}}
	for _, a := range actions() {
		for _, key := range a.keys {
			m.doing[key] = a.do
		}
	}
	return m, m.read(o.Specs)
}
