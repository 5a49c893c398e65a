// SPDX-License-Identifier: Apache-2.0

package attach

import "fmt"

// A version is that of a release of Linux.
type version struct{ major, minor int }

// String returns "5.11".
func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

// oldest is what is not worth naming: BTF of programs, bounded loops and reads of
// kernel and user memory told apart came no later than that.
var oldest = version{5, 5}

// unknownSince is the version of what is not in the tables.
var unknownSince = version{99, 0}
