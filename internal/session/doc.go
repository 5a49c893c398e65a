// SPDX-License-Identifier: Apache-2.0

// Package session decodes the records of sessions: call trees, error stacks, branches. It
// is pure: it does no input or output, and time is what the events say it is.
package session
