// SPDX-License-Identifier: Apache-2.0

// Package session puts events together into what they are part of. It is pure:
// it does no input or output, and time is what the events say it is.
package session
