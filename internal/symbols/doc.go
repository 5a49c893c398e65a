// SPDX-License-Identifier: Apache-2.0

// Package symbols turns kernel addresses into what views print: function and offset from
// kallsyms and, where debug info exists, source lines and inlined functions. A [Resolver]
// does this; [DebugInfo] is its source of lines.
package symbols
