// SPDX-License-Identifier: Apache-2.0

// Package process names addresses of processes: from the maps of a process and
// the symbols of the files that are mapped.
package process
