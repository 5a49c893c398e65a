// SPDX-License-Identifier: Apache-2.0

// Package exprfuzz makes random types, memory and expressions of package
// expr's language over them, for tests that compare what an expression means
// in two places: in Eval, in generated BPF, in C.
package exprfuzz
