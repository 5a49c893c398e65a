// SPDX-License-Identifier: Apache-2.0

// Package examples has programs that use ksnoop's packages. Its tests build them
// outside of the module, as others would.
package examples
