// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// denied parses the selectors of --deny.
func denied(texts []string) ([]expr.Selector, error) {
	out, err := trace.ParseSelectors(texts)
	if err != nil && statusOf(err) != exitUsage { // else it says what is wrong with a SPEC
		err = usagef("--deny %w", err)
	}
	return out, err
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
			if len(out) > maxListed {
				return nil, usagef("reading a list of SPECs: %s: there may be %d SPECs, and there are more", name, maxListed)
			}
		}
	}
	return out, nil
}

// maxListed is the most SPECs of lists: some for every function of a kernel.
const maxListed = 1 << 17

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
