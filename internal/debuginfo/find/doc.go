// SPDX-License-Identifier: Apache-2.0

// Package find finds the file that has the debug info of a kernel or of one of its
// modules: where distributions, developers and debuginfod's client put it, and by
// its build ID. Where there is none it says what was looked at, and which package
// of the distribution has it. What the files say is for package debuginfo to read.
package find
