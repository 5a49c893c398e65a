// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Code tells what kind of fault an Error is.
type Code string

// The codes, each with a text that has the fault.
const (
	CodeSyntax        Code = "syntax"         // vfs_read(count ==)
	CodeLimit         Code = "limit"          // a SPEC of 100,000 bytes or parentheses
	CodeUnknownName   Code = "unknown-name"   // vfs_read(cuont)
	CodeAbsent        Code = "absent"         // f(x), where the compiler could do without x
	CodeUnknownType   Code = "unknown-type"   // vfs_read((struct fille *)buf)
	CodeUnknownMember Code = "unknown-member" // vfs_read(file->f_flagz)
	CodeUnknownFunc   Code = "unknown-func"   // vfs_read(usr(buf))
	CodeAmbiguous     Code = "ambiguous"      // vfs_read(count == X), where enums disagree about X
	CodeType          Code = "type"           // vfs_read(count->x), vfs_read(*file == 1)
	CodeBounds        Code = "bounds"         // vfs_read(file->f_path.dentry->d_iname[4096])
	CodeNoReturn      Code = "no-return"      // kfree(return), which returns nothing
	CodeArgs          Code = "args"           // vfs_read(str())
	CodeUnsupported   Code = "unsupported"    // arithmetic on floats and 128-bit integers
)

// CodeDoubt is that of an Error which is none: of what a SPEC may say but can
// hardly mean, as in vfs_read(count < 0).
const CodeDoubt Code = "doubt"

// An Error is one fault of a SPEC's text.
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

// An ErrorList holds all faults of one SPEC.
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

// drawWidth is how much of a long text is shown before and after a fault.
const drawWidth = 60

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

// visible replaces what a terminal would act upon, one rune for one rune.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == utf8.RuneError {
			return '·'
		}
		return r
	}, s)
}
