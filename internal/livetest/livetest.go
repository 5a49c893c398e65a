// SPDX-License-Identifier: Apache-2.0

// Package livetest has the live tests of the whole program, which are package
// livetest_test, and what they share with the tests of other packages. The latter imports
// none of the module's packages, so any package's tests can use it.
package livetest

import (
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// SlowEnv is the variable by which testrun tells tests how many times slower than
// a quiet machine their guest is.
const SlowEnv = "KSNOOP_SLOW"

// SmokeEnv is the variable by which testrun asks for one test of each feature only.
const SmokeEnv = "KSNOOP_SMOKE"

// Smoke reports whether a test that does the same in several ways is to take one.
func Smoke() bool { return os.Getenv(SmokeEnv) != "" }

// SmokeTable, as the value of SmokeEnv, asks for all rows of docs/kernels.md besides.
const SmokeTable = "table"

// Tabled reports whether all rows of docs/kernels.md are asked for: in a smoke run only where they are to be
// written down.
func Tabled() bool { return !Smoke() || os.Getenv(SmokeEnv) == SmokeTable }

// ShareEnv is the variable by which testrun tells the guests of `make test` which share of
// the repeats is theirs, as in 0/2. Without it all are.
const ShareEnv = "KSNOOP_SHARE"

// SchemaEnv is the variable by which the live tests of the whole program are told to record
// every trace, and to hold what its replay prints as JSON to the schema.
const SchemaEnv = "KSNOOP_SCHEMA"

// Share tells which share of the repeats is this guest's, from 0 on, and of how many. Repeats
// are what a test does once more in another way: with the next way of attaching, with more
// random samples. A guest of `make test` leaves out some of those: other commits have them. `make test-all` runs all on every kernel.
func Share() (mine, of int) {
	if n, _ := fmt.Sscanf(os.Getenv(ShareEnv), "%d/%d", &mine, &of); n != 2 || mine < 0 || mine >= of {
		return 0, 1
	}
	return mine, of
}

// Mine reports whether the i-th repeat of a test is this guest's. Tests begin at
// different ones, by their names, so that a kernel does not have one way of attaching only.
func Mine(t testing.TB, i int) bool {
	mine, of := Share()
	return (Turn(t)+i)%of == mine
}

// Turn is a number of the test that its name decides: what runs again alone does the same again.
func Turn(t testing.TB) int {
	h := fnv.New32a()
	h.Write([]byte(t.Name()))
	return int(h.Sum32() >> 1)
}

// slow is how many times slower the machine is than a quiet one, at least 1.
func slow() float64 {
	slow, err := strconv.ParseFloat(os.Getenv(SlowEnv), 64)
	if err != nil {
		return 1
	}
	return max(1, slow)
}

// CPUTime is what this process has computed so far, however busy the machine is. What a test spends of it tells
// whether an algorithm is quadratic.
func CPUTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Patience is how long a test waits for what takes up to d on a quiet machine. It decides when one that
// hangs is given up.
func Patience(d time.Duration) time.Duration {
	return time.Duration(float64(d) * slow())
}
