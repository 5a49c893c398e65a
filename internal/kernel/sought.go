// SPDX-License-Identifier: Apache-2.0

package kernel

import "sync"

// soughtNames are the names of types and enumerators that were looked up so far, found or
// not. A view that only has the types of these names gives the same answers.
type soughtNames struct {
	sync.Mutex
	types, enumerators map[string]struct{}
}

func (s *soughtNames) add(names *map[string]struct{}, name string) {
	s.Lock()
	defer s.Unlock()
	if *names == nil {
		*names = make(map[string]struct{})
	}
	(*names)[name] = struct{}{}
}
