// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/internal/destination"
)

// A watchedStderr is where messages go, and knows for how long nobody has read one. It is safe for concurrent use.
type watchedStderr struct {
	mu sync.Mutex
	to destination.Watched
}

func watchStderr(to io.Writer) *watchedStderr {
	return &watchedStderr{to: destination.Watched{Writer: to}}
}

// Write implements io.Writer.
func (m *watchedStderr) Write(text []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.to.Write(text)
}

// Blocked is that of a destination.Watched.
func (m *watchedStderr) Blocked() time.Duration {
	if m == nil {
		return 0
	}
	return m.to.Blocked()
}

// Columns returns how many columns the terminal has that they go to; 0 if they go to none.
func (m *watchedStderr) Columns() int {
	if columns := columnsOf(m.to.Writer); columns != nil {
		return columns()
	}
	return 0
}
