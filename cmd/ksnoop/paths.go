// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/plural"
)

// manyBlocks is how many blocks functions have, all in all, before path() asks for --yes.
const manyBlocks = 500

// readWays reads the code of the functions that path() is asked of, and says how many probes that
// takes.
func (t *tracing) readWays() error {
	p, err := attach.ReadWays(t.plan, t.kernel)
	if err != nil {
		return err
	}
	t.plan = p
	blocks, probes := 0, 0
	for _, probe := range p.Probes {
		if probe.Way != nil {
			blocks, probes = blocks+len(probe.Way.Graph().Blocks), probes+len(probe.Way.Sites())
		}
	}
	if blocks > manyBlocks && !t.flags.yes {
		return usagef("path() would put %s on %s of code, each of which makes calls slower: give --yes if that is meant", plural.Of(probes, "probe{s}"), plural.Of(blocks, "block{s}"))
	}
	if blocks > 0 {
		fmt.Fprintf(t.stderr, "ksnoop: path() takes %s, on %s of code; each that a call passes makes it slower\n", plural.Of(probes, "probe{s}"), plural.Of(blocks, "block{s}"))
	}
	return nil
}
