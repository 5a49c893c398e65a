// SPDX-License-Identifier: Apache-2.0

// Package livetest has the live tests of the whole program, which are package
// livetest_test, and what they share with the tests of other packages. The latter imports
// none of the module's packages, so any package's tests can use it.
package livetest

import (
	"os"
	"strconv"
	"time"
)

// SlowEnv is the variable by which testrun tells tests how many times slower than
// a quiet machine their guest is.
const SlowEnv = "KSNOOP_SLOW"

// SmokeEnv is the variable by which testrun asks for one test of each feature only.
const SmokeEnv = "KSNOOP_SMOKE"

// Smoke reports whether a test that does the same in several ways is to take one.
func Smoke() bool { return os.Getenv(SmokeEnv) != "" }

// slow is how many times slower the machine is than a quiet one, at least 1.
func slow() float64 {
	slow, err := strconv.ParseFloat(os.Getenv(SlowEnv), 64)
	if err != nil {
		return 1
	}
	return max(1, slow)
}

// Patience is how long a test waits for what takes up to d on a quiet machine. No
// test passes because of it; it only decides when one that hangs is given up.
func Patience(d time.Duration) time.Duration {
	return time.Duration(float64(d) * slow())
}
