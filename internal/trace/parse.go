// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"

	"github.com/ksnoop/ksnoop/expr"
)

// ParseSpecs parses all SPECs and returns the faults of all, beside those without.
func ParseSpecs(texts []string) ([]*expr.Spec, error) {
	var specs []*expr.Spec
	var errs []error
	for _, text := range texts {
		s, err := expr.Parse(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		specs = append(specs, s)
	}
	return specs, errors.Join(errs...)
}

// ParseSelectors parses SPECs that have nothing but a selector.
func ParseSelectors(texts []string) ([]expr.Selector, error) {
	specs, err := ParseSpecs(texts)
	if err != nil {
		return nil, err
	}
	var out []expr.Selector
	for _, s := range specs {
		if s.Parens {
			return nil, fmt.Errorf("%s: a selector takes no items", s.Text)
		}
		out = append(out, s.Selector)
	}
	return out, nil
}
