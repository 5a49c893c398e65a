// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// A share says which of the guests with all tests this is, from 0 on, and of how many. The zero share is that of a guest that
// has nothing to share.
type share struct{ mine, of int }

// String is what livetest.ShareEnv is.
func (s share) String() string { return fmt.Sprintf("%d/%d", s.mine, s.of) }

// others are the tests of livetest.Once that another guest runs.
func (s share) others() (names []string) {
	if s.of < 2 {
		return nil
	}
	for i, name := range livetest.Once {
		if i%s.of != s.mine {
			names = append(names, name)
		}
	}
	return names
}
