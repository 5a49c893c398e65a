// SPDX-License-Identifier: Apache-2.0

package perfetto

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers, by message.
const (
	tracePacket = 1 // of Trace

	packetClockSnapshot = 6
	packetTimestamp     = 8
	packetSequenceID    = 10
	packetTrackEvent    = 11
	packetInternedData  = 12
	packetSequenceFlags = 13
	packetDefaults      = 59
	packetTrack         = 60

	snapshotClocks  = 1
	snapshotPrimary = 2
	clockID         = 1
	clockTimestamp  = 2

	defaultsClockID = 58

	internedCategories  = 1
	internedEventNames  = 2
	internedAnnotations = 3
	internedFunctions   = 5
	internedFrames      = 6
	internedCallstacks  = 7
	internedSourcePaths = 18

	internedID     = 1 // of all interned messages
	internedString = 2
	frameFunction  = 2
	frameSource    = 5
	frameLine      = 6
	frameKind      = 7
	stackFrame     = 2

	trackUUID    = 1
	trackName    = 2
	trackProcess = 3
	trackThread  = 4
	trackParent  = 5
	processPID   = 1
	processName  = 6
	threadPID    = 1
	threadTID    = 2
	threadName   = 5

	eventCategory    = 3
	eventAnnotations = 4
	eventType        = 9
	eventName        = 10
	eventTrack       = 11
	eventCallstack   = 56

	annotationName    = 1
	annotationBool    = 2
	annotationUint    = 3
	annotationInt     = 4
	annotationString  = 6
	annotationPointer = 7
)

// Values of enums.
const (
	typeBegin   = 1
	typeEnd     = 2
	typeInstant = 3

	clockRealtime  = 1
	clockMonotonic = 3

	stateCleared = 1
	needsState   = 2

	kindKernel = 2 // of a frame
)

// begin begins a message in a field. end is to be called with what it returns.
func begin(dst []byte, field protowire.Number) (_ []byte, start int) {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	return dst, len(dst)
}

// end ends a message: its length goes before its bytes.
func end(dst []byte, start int) []byte {
	size := len(dst) - start
	var length [10]byte
	n := len(protowire.AppendVarint(length[:0], uint64(size)))
	dst = append(dst, length[:n]...)
	copy(dst[start+n:], dst[start:start+size])
	copy(dst[start:], length[:n])
	return dst
}

func appendUint(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

func appendString[T ~string | ~[]byte](dst []byte, field protowire.Number, s T) []byte {
	dst = protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(len(s)))
	return append(dst, s...)
}
