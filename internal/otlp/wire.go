// SPDX-License-Identifier: Apache-2.0

package otlp

// Field numbers, by message.
const (
	keyName   = 1 // of KeyValue
	keyValue  = 2
	anyString = 1 // of AnyValue
	anyBool   = 2
	anyInt    = 3

	resourceAttributes = 1
	scopeName          = 1
	scopeVersion       = 2

	spanTraceID    = 1
	spanID         = 2
	spanParentID   = 4
	spanName       = 5
	spanKind       = 6
	spanStart      = 7
	spanEnd        = 8
	spanAttributes = 9
	spanEvents     = 11
	spanStatus     = 15

	eventTime       = 1
	eventName       = 2
	eventAttributes = 3

	statusMessage = 2
	statusCode    = 3

	logTime           = 1
	logSeverity       = 2
	logSeverityText   = 3
	logBody           = 5
	logAttributes     = 6
	logTraceID        = 9
	logSpanID         = 10
	logObserved       = 11
	logEventName      = 12
	metricName        = 1
	metricDescription = 2
	metricUnit        = 3
	metricGauge       = 5
	metricSum         = 7
	metricHistogram   = 9
	metricExponential = 10

	dataPoints      = 1 // of Gauge, Sum, Histogram and ExponentialHistogram
	dataTemporality = 2
	sumMonotonic    = 3

	pointStart  = 2 // of NumberDataPoint, HistogramDataPoint and ExponentialHistogramDataPoint
	pointTime   = 3
	numberFloat = 4
	numberInt   = 6
	numberAttrs = 7
	histCount   = 4
	histCounts  = 6
	histBounds  = 7
	histAttrs   = 9

	exponentialAttrs    = 1
	exponentialCount    = 4
	exponentialScale    = 6
	exponentialZero     = 7
	exponentialPositive = 8
	bucketsOffset       = 1
	bucketsCounts       = 2
)

// Values of enums.
const (
	kindInternal  = 1
	statusError   = 2
	severityInfo  = 9
	severityWarn  = 13
	temporalTotal = 2 // AGGREGATION_TEMPORALITY_CUMULATIVE
)
