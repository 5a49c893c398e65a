// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"
)

// What a process writes to standard error is read in parts of a fixed size, since each record of a
// probe has room for as much as its SPEC may ask for. Of a text that is longer than these, the
// beginning and the end are read: what programs say of an error stands mostly at the end.
const (
	// endPart is how many bytes each part at the end of a text has.
	endPart = 256
	// endParts is how many there are of what write is called with.
	endParts = 4
	// outerPieces is how many pieces of a call of writev are read from either end.
	outerPieces = 4
)

// A piece is what writev writes at once, or all that write does, as items of a SPEC.
type piece struct {
	size, head string
	// ends are the parts of the end, the last one first.
	ends []string
}

func newPiece(base, size string, ends int) (p piece) {
	p.size, p.head = atReturn(size), atReturn(textItem(base))
	for i := range ends {
		p.ends = append(p.ends, atReturn(fmt.Sprintf("buf(user((char *)%s) + %s - %d, %d)", base, size, endPart*(i+1), endPart)))
	}
	return p
}

func (p *piece) items() []string { return append([]string{p.size, p.head}, p.ends...) }

// A writing is what is read of what 64-bit programs write to standard error, or 32-bit ones. It is read by the
// functions that serve write and writev, since a SPEC of all system calls makes each of them slower, and when they
// return: a constant of a program may not be in memory before.
type writing struct {
	write, writev string // these functions
	whole         piece  // what write is called with
	// pieces are those of writev: the first ones, and the last ones. Of few, some are both.
	pieces []piece
	count  string // how many it has
	fd     string // the predicate that it is standard error
	state  string // the predicate that a call is one of these programs
}

// newWriting returns it for 64-bit programs, or for 32-bit ones.
func newWriting(a *abi, narrow bool) *writing {
	w := &writing{write: a.serving + "write", writev: a.serving + "writev", state: fmt.Sprintf("(%s & %#x) == 0", a.compat.state, a.compat.bit)}
	args, size := a.args, 16 // of struct iovec
	if narrow {
		w.write, w.writev, size = a.compat.serving+"write", a.compat.serving+"writev", 8
		w.state = fmt.Sprintf("(%s & %#x) != 0", a.compat.state, a.compat.bit)
		for i, arg := range a.compat.args {
			args[i] = "(unsigned int)" + arg
		}
	}
	w.fd, w.whole, w.count = args[0]+" == 2", newPiece(args[1], args[2], endParts), atReturn(args[2])
	for i := range 2 * outerPieces {
		vector := args[1]
		if i >= outerPieces {
			vector = fmt.Sprintf("(%s + %s * %d - %d)", vector, args[2], size, size*outerPieces)
		}
		w.pieces = append(w.pieces, newIovec(vector, i%outerPieces, narrow))
	}
	return w
}

// specs are the SPECs of write and of writev. Without a predicate of the result there would be a record at entry, too.
func (w *writing) specs() []string {
	spec := func(function string, items []string) string {
		return fmt.Sprintf("%s(%s, %s, return != 0, %s)", function, w.fd, w.state, strings.Join(items, ", "))
	}
	items := []string{w.count}
	for i := range w.pieces {
		items = append(items, w.pieces[i].items()...)
	}
	return []string{spec(w.write, w.whole.items()), spec(w.writev, items)}
}

// newIovec is an element of what writev is called with. Those of 32-bit programs are two numbers of four bytes.
func newIovec(vector string, i int, narrow bool) piece {
	if narrow {
		at := "user((unsigned int *)" + vector + ")"
		return newPiece(fmt.Sprintf("%s[%d]", at, 2*i), fmt.Sprintf("%s[%d]", at, 2*i+1), 1)
	}
	at := fmt.Sprintf("user((struct iovec *)%s)[%d]", vector, i)
	return newPiece(at+".iov_base", at+".iov_len", 1)
}

// A reading has what the items of a SPEC have read.
type reading interface {
	has(label string) bool // whether or not it could be read
	number(label string) uint64
	text(label string) *string // nil if it could not be read
}

// text returns the text that a reading of one of the SPECs tells of.
func (w *writing) text(v reading) (text string, ok bool) {
	if v.has(w.whole.ends[0]) {
		return w.whole.text(v), true
	}
	if !v.has(w.pieces[0].ends[0]) {
		return "", false
	}
	count := v.number(w.count)
	for i := range w.pieces {
		left := uint64(len(w.pieces) - i) // of the last ones, with it
		switch {
		case i < outerPieces && uint64(i) >= count, i >= outerPieces && count < outerPieces+left:
			continue // there is none, or it is among the first ones
		case i == outerPieces && count > uint64(len(w.pieces)):
			text += gap
		}
		text += w.pieces[i].text(v)
	}
	return text, true
}

// gap stands in a text for what is not read.
const gap = "\n"

// text returns a piece as far as it was read.
func (p *piece) text(v reading) string {
	size := v.number(p.size)
	head := ""
	if t := v.text(p.head); t != nil {
		head = (*t)[:min(uint64(len(*t)), size)]
	} else if t := v.text(p.ends[0]); t != nil && size < endPart { // no NUL is behind it, and no more memory
		head = (*t)[endPart-size:]
	}
	var ends []string
	for i, item := range p.ends {
		t := v.text(item)
		if t == nil || size < uint64(endPart*(i+1)) {
			break
		}
		ends = append(ends, *t)
	}
	slices.Reverse(ends)
	return joined(head, strings.Join(ends, ""), size)
}

// joined is a text of so many bytes that begins with head and ends with end.
func joined(head, end string, size uint64) string {
	from := size - uint64(len(end)) // where end begins
	if known := uint64(len(head)); from <= known {
		return head + end[known-from:]
	}
	if head != "" && end != "" {
		head += gap
	}
	return head + end
}

// longestMessage is how long parts of one line become as one message: a progress bar may never end its line.
const longestMessage = 4096

// mixed is how many messages of other processes may stand between two parts of a line.
const mixed = 16

// addMessage adds a message, or the rest of one whose line has not ended: programs may write a line in
// parts, byte by byte even.
func (s *Seen) addMessage(m Message) {
	all := s.Messages
	for i := len(all) - 1; i >= max(len(all)-1-mixed, 0); i-- {
		begun := all[i]
		if begun.PID != m.PID {
			continue
		}
		if !strings.HasSuffix(begun.Text, "\n") && len(begun.Text) < longestMessage {
			begun.Text += m.Text
			begun.Time = m.Time
			s.Messages = append(slices.Delete(all, i, i+1), begun)
			return
		}
		break
	}
	s.Messages = append(latest(s.Messages, mostSeen), m)
}
