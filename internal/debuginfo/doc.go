// SPDX-License-Identifier: Apache-2.0

// Package debuginfo reads a kernel's debug info: it finds the file that belongs
// to a kernel, by build ID, and says what is missing where there is none. It
// reads files through an fs.FS.
package debuginfo
