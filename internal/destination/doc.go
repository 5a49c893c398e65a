// SPDX-License-Identifier: Apache-2.0

// Package destination opens the files that ksnoop writes to: recordings, and what is printed
// to a file.
package destination
