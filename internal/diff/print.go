// SPDX-License-Identifier: Apache-2.0

package diff

import "io"

// A printer collects text and writes it in pieces, so that no more than a piece is in memory.
type printer struct {
	text []byte
	to   io.Writer
	err  error
}

// pieceSize is how many bytes are written at once.
const pieceSize = 64 << 10

// full writes what was collected if it is a piece. It reports whether there is more to be printed.
func (p *printer) full() (more bool) {
	if len(p.text) >= pieceSize {
		p.flush()
	}
	return p.err == nil
}

func (p *printer) flush() {
	if p.err == nil && len(p.text) > 0 {
		_, p.err = p.to.Write(p.text)
	}
	p.text = p.text[:0]
}

// end writes the rest.
func (p *printer) end() error {
	p.flush()
	return p.err
}
