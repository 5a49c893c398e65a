// SPDX-License-Identifier: Apache-2.0

// Package report makes one HTML file of a run: events on a timeline and in a list, call trees, a
// flame graph, latencies and tables. A browser shows it without a network.
//
// A Printer is a printer like those of the other formats. The data of the page are the lines of
// JSON that jsonlines prints, so there is one model of events. They are compressed and written as
// base64, of which no byte means anything in HTML. Nothing else of a recording is in the file: the
// page makes all text of it with textContent, and its policy allows only the scripts that are in
// this package, by their hashes.
package report
