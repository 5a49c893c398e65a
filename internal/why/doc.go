// SPDX-License-Identifier: Apache-2.0

// Package why finds out why a command fails. It runs the command and records each system call
// that fails, and what is written to standard error. Choose then tells which of these calls is
// the one that the command has failed by.
package why
