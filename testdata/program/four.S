/* SPDX-License-Identifier: Apache-2.0 */
/* Code without a compiler: a unit of its own, with lines and little else. */

	.text
	.globl	four
	.type	four, @function
four:
	nop
	nop
	ret
	.size	four, .-four

nameless:
	nop
	nop
	ret

	.section .note.GNU-stack,"",@progbits
