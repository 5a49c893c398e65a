// SPDX-License-Identifier: Apache-2.0

package perfetto

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
