// SPDX-License-Identifier: Apache-2.0

// Package why finds out why a command fails. It runs the command and records each system call
// that fails, and what is written to standard error. Choose then tells which of these calls is
// the one that the command has failed by. Further runs record the functions that this call
// reaches in the kernel's code, until it is known which of them was the first to return the
// error, and at last with what that one was called and which way it took.
package why
