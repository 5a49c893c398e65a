// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// openPaths is how many threads can be in functions whose ways are wanted, at the same time.
const openPaths = 256

// pathsOf returns how much room the ways of a plan need.
func pathsOf(p *plan.Plan) (s bpf.Paths) {
	for _, probe := range p.Probes {
		if probe.Way != nil {
			// Where a jump takes no probe, another place may.
			s.Sites += len(probe.Way.Sites()) + len(probe.Way.Graph().Blocks)
		}
	}
	if s.Sites > 0 {
		s.Open = openPaths
	}
	return s
}
