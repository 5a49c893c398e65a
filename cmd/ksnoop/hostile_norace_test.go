// SPDX-License-Identifier: Apache-2.0

//go:build !race

package main

// hostileRecordings is how many recordings TestHostileForms replays.
const hostileRecordings = 4000
