// SPDX-License-Identifier: Apache-2.0

//go:build race

package main

// hostileRecordings is how many recordings TestHostileForms replays. The race detector, which
// has nothing to find there, makes each ten times as expensive.
const hostileRecordings = 600
