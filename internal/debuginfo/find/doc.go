// SPDX-License-Identifier: Apache-2.0

// Package find finds the file with the debug info of a kernel ([Find]) or of one of its
// modules ([Module]). It looks where distributions, developers and debuginfod's client put
// such files, and it compares build IDs.
//
// If there is none, the error says what was looked at and why it was refused, and which
// package of the distribution has it. Package debuginfo reads the files.
package find
