// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Code classifies an Error, for programs that branch on it.
type Code string

// The codes, each with a text that causes it.
const (
	CodeSyntax        Code = "syntax"         // vfs_read(count ==)
	CodeLimit         Code = "limit"          // a SPEC of 100,000 bytes or parentheses
	CodeUnknownName   Code = "unknown-name"   // vfs_read(cuont)
	CodeAbsent        Code = "absent"         // f(x), where the compiler dropped parameter x
	CodeUnknownType   Code = "unknown-type"   // vfs_read((struct fille *)buf)
	CodeUnknownMember Code = "unknown-member" // vfs_read(file->f_flagz)
	CodeUnknownFunc   Code = "unknown-func"   // vfs_read(usr(buf))
	CodeAmbiguous     Code = "ambiguous"      // vfs_read(count == X), where enums disagree about X, or where types of one name differ
	CodeType          Code = "type"           // vfs_read(count->x), vfs_read(*file == 1)
	CodeBounds        Code = "bounds"         // vfs_read(file->f_inode->i_sb->s_id[4096])
	CodeNoReturn      Code = "no-return"      // kfree(return), which returns nothing
	CodeArgs          Code = "args"           // vfs_read(str())
	CodeUnsupported   Code = "unsupported"    // arithmetic on floats and 128-bit integers
)

// CodeDoubt marks a warning. The SPEC is valid but hardly means what it says, as in
// vfs_read(count < 0), where count is unsigned. Warnings go to Scope.Doubt.
const CodeDoubt Code = "doubt"

// An Error is one fault of a SPEC's text. Span says where it is.
type Error struct {
	Code Code
	Span Span
	Msg  string
	Hint string // what to write instead; may be empty
}

// Error returns the message and the hint on one line.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + "; " + e.Hint
}

// An ErrorList holds all faults of one SPEC; it is never empty. Check orders them by position.
type ErrorList struct {
	Text   string
	Errors []*Error
}

// Error draws each fault under the text:
//
//	ip_send_skb(skb->lenn == 84)
//	                 ^~~~ column 18: struct sk_buff has no member "lenn"; did you mean "len"?
func (l *ErrorList) Error() string {
	var b strings.Builder
	for i, e := range l.Errors {
		if i > 0 {
			b.WriteByte('\n')
		}
		drawFault(&b, l.Text, e)
	}
	return b.String()
}

// drawWidth is how many bytes of text are drawn before a fault, and after it.
const drawWidth = 60

// drawFault draws the line with the fault, the markers and the message. It cuts a long text
// around the fault, and marks each cut with "…".
func drawFault(b *strings.Builder, text string, e *Error) {
	start := min(max(e.Span.Start, 0), len(text))
	end := min(max(e.Span.End, start), len(text))
	from, to := max(0, start-drawWidth), min(len(text), end+drawWidth)
	to = min(to, from+3*drawWidth)
	end = min(end, to)

	lead := visible(text[from:start])
	if from > 0 {
		lead = "…" + lead
	}
	marked := visible(text[start:end])
	tail := visible(text[end:to])
	if to < len(text) {
		tail += "…"
	}
	marks := max(1, utf8.RuneCountInString(marked))
	fmt.Fprintf(b, "  %s%s%s\n  %s^%s\n", lead, marked, tail,
		strings.Repeat(" ", utf8.RuneCountInString(lead)), strings.Repeat("~", marks-1))
	fmt.Fprintf(b, "  column %d: %s", start+1, visible(e.Msg)) // messages quote the text
	if e.Hint != "" {
		fmt.Fprintf(b, "; %s", visible(e.Hint))
	}
}

// visible replaces each character that a terminal would act upon by a dot. It keeps the
// number of runes, so that the markers stay under their text.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == utf8.RuneError {
			return '·'
		}
		return r
	}, s)
}
