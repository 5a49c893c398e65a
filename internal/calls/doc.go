// SPDX-License-Identifier: Apache-2.0

// Package calls pairs the records of the two ends of a call. It is pure: it does no
// input or output, and time is what the events say it is.
package calls
