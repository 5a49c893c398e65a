// SPDX-License-Identifier: Apache-2.0

// Package show writes what a stream of records says, from a live run or a recording: calls
// or sessions, and at the end what is missing.
package show
