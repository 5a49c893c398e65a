// SPDX-License-Identifier: Apache-2.0

// Package symbols turns addresses of a kernel into what views print of them:
// function and offset from kallsyms, and from debug info, where there is some,
// source lines and the functions that were inlined.
package symbols
