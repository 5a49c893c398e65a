// SPDX-License-Identifier: Apache-2.0

// Package perfetto writes traces that https://ui.perfetto.dev and trace_processor open: the
// TrackEvent messages of Perfetto's published protos, field numbers as of v58.2
// (protos/perfetto/trace/perfetto_trace.proto).
//
// Processes and threads are tracks. A call is a slice if both its ends are known, an instant
// if only one is. Sessions are slices within each other. Values are debug annotations with
// their types, stacks are callstacks, and losses are instants on a track of their own.
//
// Times are of CLOCK_MONOTONIC, which the trace names as its primary clock. What repeats is
// written once and then named by a number; when these tables take too much memory, the trace
// begins them anew, as the format provides.
package perfetto
