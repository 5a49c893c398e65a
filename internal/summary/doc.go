// SPDX-License-Identifier: Apache-2.0

// Package summary has what aggregations add up, as typed events: tables with a row for each
// key. The items of a plan's SPECs say which tables there are ([Of]). Rows come from the kernel,
// one for each CPU, or from recorded calls; a [Builder] brings them together. A [Summary] is
// what was added up in a time, an event as calls and sessions are. What prints it is in the
// packages of the formats.
//
// Like a record, a row has bytes and words without types: those of the table's terms give them
// their meaning. So a row is a [layout.Record] for whoever prints its keys.
package summary
