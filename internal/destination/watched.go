// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"
)

// A Watched writer knows for how long it has been writing: nobody may be reading.
type Watched struct {
	io.Writer
	since atomic.Pointer[time.Time] // when it began; nil: it is not writing
}

// Write implements io.Writer.
func (w *Watched) Write(p []byte) (int, error) {
	defer w.since.Store(nil)
	written := 0
	for len(p) > 0 { // in pieces, so that a slow reader is not taken for none
		now := time.Now()
		w.since.Store(&now)
		part := p[:min(len(p), piece)]
		if end := bytes.LastIndexByte(part, '\n'); end >= 0 && len(part) < len(p) {
			part = part[:end+1] // a command may write to the same file
		}
		n, err := w.Writer.Write(part)
		written += n
		if err != nil {
			return written, err
		}
		p = p[n:]
	}
	return written, nil
}

// piece takes a serial line, of 115,200 baud, less than a second.
const piece = 8 << 10

// Blocked returns for how long it has been writing 8 KiB, or less; 0 if it is not writing.
func (w *Watched) Blocked() time.Duration {
	if w == nil {
		return 0
	}
	since := w.since.Load()
	if since == nil {
		return 0
	}
	return time.Since(*since)
}
