// SPDX-License-Identifier: Apache-2.0

package why

// A Lost is what is missing in what was seen, by cause.
type Lost struct {
	What  string `json:"what"`
	Count uint64 `json:"count"`
	// Text says both; "" stands for the number and What.
	Text string `json:"-"`
}
