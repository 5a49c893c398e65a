// SPDX-License-Identifier: Apache-2.0

// Package agentconfig reads the file of "ksnoop agent": a few keys of the agent itself, and requests whose
// keys are the options of "ksnoop trace". It knows no option: whoever reads a file says which there are.
//
// The file is not trusted. Its size is bounded before the parser sees it, the parser bounds the depth of
// nesting, and aliases are refused, so that nothing in it is expanded. Every fault has a line and a column,
// and all faults are reported at once.
package agentconfig
