// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
)

// parseSpecs parses all SPECs and returns the faults of all.
func parseSpecs(args []string) ([]*expr.Spec, error) {
	var specs []*expr.Spec
	var errs []error
	for _, arg := range args {
		s, err := expr.Parse(arg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		specs = append(specs, s)
	}
	return specs, errors.Join(errs...)
}

// parseSelectors parses SPECs that have nothing but a selector.
func parseSelectors(texts []string) ([]expr.Selector, error) {
	var out []expr.Selector
	for _, d := range texts {
		s, err := expr.Parse(d)
		if err != nil {
			return nil, err
		}
		if len(s.Items) > 0 || s.Parens {
			return nil, usagef("--deny %s: a selector takes no items", d)
		}
		out = append(out, s.Selector)
	}
	return out, nil
}

// expandLists replaces each "@FILE" by the lines of that file. Empty lines and
// those that begin with # count for nothing.
func expandLists(texts []string) ([]string, error) {
	var out []string
	for _, text := range texts {
		name, isList := strings.CutPrefix(text, "@")
		if !isList {
			out = append(out, text)
			continue
		}
		data, err := readList(name)
		if err != nil {
			return nil, usagef("reading a list of SPECs: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				out = append(out, line)
			}
		}
	}
	return out, nil
}

// maxList is the most bytes of a list of SPECs. One of all functions of a kernel
// takes two million.
const maxList = 16 << 20

// readList reads a list, which may come from a pipe.
func readList(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxList+1))
	if err == nil && len(data) > maxList {
		err = fmt.Errorf("%s: a list may have %d bytes, and there are more", name, maxList)
	}
	return data, err
}
