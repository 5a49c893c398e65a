// SPDX-License-Identifier: Apache-2.0

// Package dw has the numbers of DWARF 5 that places of variables and call frames are written with, and
// reads types of debug info within bounds.
package dw

// Operators of expressions (DW_OP_*, table 7.9), and those of GNU. NumLit is how many there are of OpLit0, OpReg0 and OpBreg0.
const (
	OpAddr          = 0x03
	OpDeref         = 0x06
	OpConst1u       = 0x08 // up to OpConst8s: of 1, 2, 4 and 8 bytes, unsigned and signed in turn
	OpConst2u       = 0x0a
	OpConst2s       = 0x0b
	OpConst4u       = 0x0c
	OpConst8s       = 0x0f
	OpConstu        = 0x10
	OpConsts        = 0x11
	OpDup           = 0x12
	OpDrop          = 0x13
	OpOver          = 0x14
	OpPick          = 0x15
	OpSwap          = 0x16
	OpRot           = 0x17
	OpAbs           = 0x19
	OpAnd           = 0x1a
	OpDiv           = 0x1b
	OpMinus         = 0x1c
	OpMod           = 0x1d
	OpMul           = 0x1e
	OpNeg           = 0x1f
	OpNot           = 0x20
	OpOr            = 0x21
	OpPlus          = 0x22
	OpPlusUconst    = 0x23
	OpShl           = 0x24
	OpShr           = 0x25
	OpShra          = 0x26
	OpXor           = 0x27
	OpBra           = 0x28
	OpEq            = 0x29
	OpGe            = 0x2a
	OpGt            = 0x2b
	OpLe            = 0x2c
	OpLt            = 0x2d
	OpNe            = 0x2e
	OpSkip          = 0x2f
	OpLit0          = 0x30
	OpLit31         = 0x4f
	OpReg0          = 0x50
	OpBreg0         = 0x70
	OpBreg31        = 0x8f
	OpRegx          = 0x90
	OpFbreg         = 0x91
	OpBregx         = 0x92
	OpDerefSize     = 0x94
	OpNop           = 0x96
	OpCallFrameCFA  = 0x9c
	OpImplicitValue = 0x9e
	OpStackValue    = 0x9f
	OpAddrx         = 0xa1
	OpConstType     = 0xa4
	OpRegvalType    = 0xa5
	OpConvert       = 0xa8
	OpGNUConstType  = 0xf4
	OpGNURegvalType = 0xf5
	OpGNUConvert    = 0xf7

	NumLit = 32
)

// Instructions of call frames (DW_CFA_*, table 7.29). Those of the first group have an operand in the low six bits.
const (
	CFAAdvanceLoc = 0x40
	CFAOffset     = 0x80
	CFARestore    = 0xc0

	CFANop              = 0x00
	CFASetLoc           = 0x01
	CFAAdvanceLoc1      = 0x02
	CFAAdvanceLoc2      = 0x03
	CFAAdvanceLoc4      = 0x04
	CFAOffsetExtended   = 0x05
	CFARestoreExtended  = 0x06
	CFAUndefined        = 0x07
	CFASameValue        = 0x08
	CFARegister         = 0x09
	CFARememberState    = 0x0a
	CFARestoreState     = 0x0b
	CFADefCFA           = 0x0c
	CFADefCFARegister   = 0x0d
	CFADefCFAOffset     = 0x0e
	CFADefCFAExpression = 0x0f
	CFAExpression       = 0x10
	CFAOffsetExtendedSF = 0x11
	CFADefCFASF         = 0x12
	CFADefCFAOffsetSF   = 0x13
	CFAValOffset        = 0x14
	CFAValOffsetSF      = 0x15
	CFAValExpression    = 0x16
	// CFANegateRAStateWithPC is as CFANegateRAState, of an address that was signed with where that was done (AArch64 DWARF, 2024Q3).
	CFANegateRAStateWithPC = 0x2c
	CFANegateRAState       = 0x2d // arm64: the return address is signed from here on, or no longer
	CFAGNUArgsSize         = 0x2e
	CFAGNUNegativeOffset   = 0x2f
)
