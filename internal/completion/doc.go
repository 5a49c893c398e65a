// SPDX-License-Identifier: Apache-2.0

// Package completion tells how a SPEC that is being typed can go on.
//
// An [Engine] is given the text up to the cursor and returns candidates. Each one is text to put
// behind the cursor: what has been typed already is never changed. The text has no shell quoting;
// package [github.com/ksnoop/ksnoop/internal/completion/shell] adds and removes that.
//
// A text that is not finished has no syntax tree. So scan.go reads its tokens and keeps the brackets
// that are open. What stands before the last -> or operator is finished, and package expr checks
// it: its type says which members or enumerators can follow.
//
// Nothing here fails aloud. Where types, functions or privileges are missing, there are fewer
// candidates, or none.
package completion
