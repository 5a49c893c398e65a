// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/internal/mappings"
)

// mappedAt is an event of process 7, which maps a page of a file.
func mappedAt(time, page uint64, file string) *mappings.Event {
	return &mappings.Event{Kind: mappings.Mapped, PID: 7, TID: 7, Time: time, Start: page << 12, End: (page + 1) << 12, Path: file}
}

// TestLateMapping: what a process is known late to have mapped before a fork changes nothing of what its
// child has.
func TestLateMapping(t *testing.T) {
	const most = 20
	for count := range uint64(most) { // arrays have room for more after some of these
		l := newLives(fstest.MapFS{}, &told{})
		l.apply(&mappings.Event{Kind: mappings.Execed, PID: 7, TID: 7, Time: 50})
		for page := range count {
			l.apply(mappedAt(100+10*page, page, fmt.Sprint("/", page)))
		}
		l.apply(&mappings.Event{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 1000})
		l.apply(mappedAt(95, most, "/late"))
		child := l.at(8, 1000)
		for page := range count {
			if m, _ := child.find(page<<12, 1000); m == nil || m.file.path != fmt.Sprint("/", page) {
				t.Errorf("%d mappings: the child has %v at page %d", count, m, page)
			}
		}
		if m, _ := l.at(7, 1000).find(most<<12, 1000); m == nil || m.file.path != "/late" {
			t.Errorf("%d mappings: %v is what was late", count, m)
		}
	}
}
