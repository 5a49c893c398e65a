// SPDX-License-Identifier: Apache-2.0

package main

import "time"

type options struct {
	unit, live, bench bool
	vetted            bool // by go vet, so that go test need not
	debugInfo         bool
	all               bool   // tests on all kernels
	share             bool   // each test, and each of its repeats, on one of the kernels that have all features
	turn              int    // by which they are shared, below 0 one that the commit decides
	kernels           string // to test on, unless $KSNOOP_KERNELS names some
	with              string // program of this machine to compare with
	table             string // file to write what works where into
	run               string
	timeout           time.Duration
	packages          []string
}
