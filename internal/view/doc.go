// SPDX-License-Identifier: Apache-2.0

// Package view shows a recording on a terminal: a list of calls or sessions that can be unfolded,
// searched, and asked again with SPECs.
//
// A Collector is a printer like those of formats, but it keeps events in a Store in place of
// printing them: calls as the bytes of their records, which are decoded when they are looked at,
// and sessions as text. Both are compressed. A Store has bounds in bytes for
// both, and for the chunks and lines in use, and says what does not fit.
//
// Show runs the terminal. Its state is changed by one goroutine only, which never waits: reading is
// done by another one, and a search goes on in steps. All text of a recording goes through
// internal/terminal before it gets there.
package view
