// SPDX-License-Identifier: Apache-2.0

package debuginfo

// Numbers of the DWARF 5 standard, section 7, and of GNU extensions, as far as the reader
// uses them.

const (
	tagEnumerationType   = 0x04
	tagFormalParameter   = 0x05
	tagLexicalBlock      = 0x0b
	tagPointerType       = 0x0f
	tagStructureType     = 0x13
	tagTypedef           = 0x16
	tagUnionType         = 0x17
	tagInlinedSubroutine = 0x1d
	tagBaseType          = 0x24
	tagConstType         = 0x26
	tagSubprogram        = 0x2e
	tagVariable          = 0x34
	tagVolatileType      = 0x35
	tagRestrictType      = 0x37
	tagAtomicType        = 0x47
)

const (
	attrSibling        = 0x01
	attrLocation       = 0x02
	attrName           = 0x03
	attrByteSize       = 0x0b
	attrStmtList       = 0x10
	attrLowPC          = 0x11
	attrHighPC         = 0x12
	attrLanguage       = 0x13
	attrCompDir        = 0x1b
	attrConstValue     = 0x1c
	attrAbstractOrigin = 0x31
	attrDeclFile       = 0x3a
	attrDeclLine       = 0x3b
	attrEncoding       = 0x3e
	attrFrameBase      = 0x40
	attrSpecification  = 0x47
	attrStaticLink     = 0x48
	attrType           = 0x49
	attrEntryPC        = 0x52
	attrRanges         = 0x55
	attrCallColumn     = 0x57
	attrCallFile       = 0x58
	attrCallLine       = 0x59
	attrStrOffsetsBase = 0x72
	attrAddrBase       = 0x73
	attrRnglistsBase   = 0x74
	attrDwoName        = 0x76
	attrLinkageName    = 0x6e
	attrLoclistsBase   = 0x8c
	attrMIPSLinkage    = 0x2007 // before DWARF 4
	attrGNUDwoName     = 0x2130
	attrGNUDwoID       = 0x2131
	attrGNURangesBase  = 0x2132
	attrGNUAddrBase    = 0x2133
)

const (
	formAddr          = 0x01
	formBlock2        = 0x03
	formBlock4        = 0x04
	formData2         = 0x05
	formData4         = 0x06
	formData8         = 0x07
	formString        = 0x08
	formBlock         = 0x09
	formBlock1        = 0x0a
	formData1         = 0x0b
	formFlag          = 0x0c
	formSdata         = 0x0d
	formStrp          = 0x0e
	formUdata         = 0x0f
	formRefAddr       = 0x10
	formRef1          = 0x11
	formRef2          = 0x12
	formRef4          = 0x13
	formRef8          = 0x14
	formRefUdata      = 0x15
	formIndirect      = 0x16
	formSecOffset     = 0x17
	formExprloc       = 0x18
	formFlagPresent   = 0x19
	formStrx          = 0x1a
	formAddrx         = 0x1b
	formRefSup4       = 0x1c
	formStrpSup       = 0x1d
	formData16        = 0x1e
	formLineStrp      = 0x1f
	formRefSig8       = 0x20
	formImplicitConst = 0x21
	formLoclistx      = 0x22
	formRnglistx      = 0x23
	formRefSup8       = 0x24
	formStrx1         = 0x25
	formStrx2         = 0x26
	formStrx3         = 0x27
	formStrx4         = 0x28
	formAddrx1        = 0x29
	formAddrx2        = 0x2a
	formAddrx3        = 0x2b
	formAddrx4        = 0x2c
	formGNUAddrIndex  = 0x1f01
	formGNUStrIndex   = 0x1f02
	formGNURefAlt     = 0x1f20
	formGNUStrpAlt    = 0x1f21
)

const (
	unitCompile      = 1
	unitType         = 2
	unitPartial      = 3
	unitSkeleton     = 4
	unitSplitCompile = 5
	unitSplitType    = 6
)

const (
	rangeEndOfList    = 0
	rangeBaseAddressx = 1
	rangeStartxEndx   = 2
	rangeStartxLength = 3
	rangeOffsetPair   = 4
	rangeBaseAddress  = 5
	rangeStartEnd     = 6
	rangeStartLength  = 7
)

const (
	locEndOfList    = 0
	locBaseAddressx = 1
	locStartxEndx   = 2
	locStartxLength = 3
	locOffsetPair   = 4
	locDefault      = 5
	locBaseAddress  = 6
	locStartEnd     = 7
	locStartLength  = 8
)

const (
	lineCopy             = 1
	lineAdvancePC        = 2
	lineAdvanceLine      = 3
	lineSetFile          = 4
	lineSetColumn        = 5
	lineNegateStmt       = 6
	lineSetBasicBlock    = 7
	lineConstAddPC       = 8
	lineFixedAdvancePC   = 9
	lineSetPrologueEnd   = 10
	lineSetEpilogueBegin = 11
	lineSetISA           = 12

	lineExtEndSequence = 1
	lineExtSetAddress  = 2
	lineExtDefineFile  = 3

	lineContentPath      = 1
	lineContentDirectory = 2
)

// plainC reports whether functions of a language are at the top level only. GNU C's nested
// functions, which have a static link, are the exception.
func plainC(language uint64) bool {
	switch language {
	case 0x01, 0x02, 0x0c, 0x1d, 0x2c, 0x3e, // C89, C, C99, C11, C17, C23
		0x8001: // assembler
		return true
	}
	return false
}
