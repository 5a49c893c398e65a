// SPDX-License-Identifier: Apache-2.0

// Package otlp writes events in the terms of OpenTelemetry's protocol (OTLP), whose messages are
// those of opentelemetry-proto 1.x.
//
// A session is a trace: its entry function is the root span, each call in it a child. A call of
// the calls view is a log record or, if wanted, a trace of one span. Tables of aggregations and
// losses are metrics, added up since the beginning of the run.
//
// What a Printer appends is a stream of frames: see [Frame]. Package export makes requests of
// them. Numbers of traces and spans follow from what they name, so a recording that is exported
// twice has the same ones.
//
// Histograms have explicit bounds, unless exponential ones are asked for: a bucket of hist() begins at a
// power of two and ends before the next one, and an exponential histogram has the lower bound in the
// bucket before.
package otlp
