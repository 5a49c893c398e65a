// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/protomsg"
)

// mostPoints is how many data points a metric has at most, so that a request can hold it. Others
// follow in a metric of the same name.
const mostPoints = 1000

// A metric is one whose data points are being collected.
type metric struct {
	name, description, unit string
	field                   protowire.Number // of its data: metricGauge and others
	total                   bool             // it only grows
	points                  []byte
	count                   uint64
}

// begin begins a data point, which was added up from a time of day to a time.
func (m *metric) begin(p *Printer, attrs protowire.Number, from, to uint64) *attributes {
	a := p.begin(attrs)
	if m.field != metricGauge {
		a.body = protomsg.AppendFixed(a.body, pointStart, from)
	}
	a.body = protomsg.AppendFixed(a.body, pointTime, p.at(to))
	return a
}

// end ends a data point. It appends the metric if that is full.
func (m *metric) end(p *Printer, dst []byte) []byte {
	m.points = protomsg.AppendString(m.points, dataPoints, p.attrs.body)
	if m.count++; m.count == mostPoints {
		return m.append(p, dst)
	}
	return dst
}

// append appends the metric, unless it has no data points.
func (m *metric) append(p *Printer, dst []byte) []byte {
	if m.count == 0 {
		return dst
	}
	dst, resource := p.resource(dst, 0, bpf.Owner{})
	b := protomsg.AppendString(p.attrs.body[:0], metricName, m.name)
	b = protomsg.AppendString(b, metricDescription, m.description)
	b = protomsg.AppendString(b, metricUnit, m.unit)
	b, data := protomsg.Begin(b, m.field)
	b = append(b, m.points...)
	if m.field != metricGauge {
		b = protomsg.AppendUint(b, dataTemporality, temporalTotal)
	}
	if m.total {
		b = protomsg.AppendUint(b, sumMonotonic, 1)
	}
	p.attrs.body = protomsg.End(b, data)
	dst = p.append(dst, Metric, resource, m.count)
	m.points, m.count = m.points[:0], 0
	return dst
}

// appendNumber appends the value of a data point: an integer, unless it is too large for one.
func appendNumber(dst []byte, signed bool, v uint64) []byte {
	if !signed && v > math.MaxInt64 {
		return protomsg.AppendDouble(dst, numberFloat, float64(v))
	}
	return protomsg.AppendFixed(dst, numberInt, v)
}

// appendLosses appends what is missing up to a time, by cause.
func (p *Printer) appendLosses(dst []byte, now uint64) []byte {
	p.told = now
	m := metric{name: "ksnoop.lost", description: "What is missing among events and in other metrics, by cause.", unit: "1", field: metricSum, total: true}
	if at := p.at(now); p.first == 0 || at < p.first { // no event, or the clock was set to before
		p.first = at
	}
	for cause, n := range p.lost {
		if n == 0 {
			continue
		}
		a := m.begin(p, numberAttrs, p.first, now)
		a.body = appendNumber(a.body, false, n)
		a.foreign("cause", output.LossText(bpf.Counter(cause)))
		dst = m.end(p, dst)
	}
	return m.append(p, dst)
}
