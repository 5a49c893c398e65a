// SPDX-License-Identifier: Apache-2.0

// Package export sends the frames of package otlp to an OpenTelemetry Collector, or whatever else
// takes OTLP by HTTP.
//
// An [Exporter] is written to by whoever reads events, which never waits for the network: frames
// go into batches, batches into a queue that is bounded in bytes, and one goroutine sends them.
// What finds no room is counted, by kind. Requests that fail for a reason that may pass are sent
// again, later each time. Answers are not trusted: they are read up to a bound, and cleaned.
package export
