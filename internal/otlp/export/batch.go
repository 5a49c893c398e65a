// SPDX-License-Identifier: Apache-2.0

package export

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ksnoop/ksnoop/internal/otlp"
	"github.com/ksnoop/ksnoop/internal/protomsg"
)

// Fields of requests. They have the same numbers for spans, log records and metrics.
const (
	requestResources = 1 // ExportTraceServiceRequest.resource_spans
	resourceOf       = 1 // ResourceSpans.resource
	scopesOf         = 2 // ResourceSpans.scope_spans
	scopeOf          = 1 // ScopeSpans.scope
	itemsOf          = 2 // ScopeSpans.spans
)

// A batch is what becomes one request.
type batch struct {
	signal signal
	groups []*group
	index  map[uint64]*group // by the number of their resource
	size   int64
	count  uint64 // spans, log records or data points
}

// A group are the items of one resource.
type group struct{ resource, items []byte }

// overhead is the memory of a group besides its bytes.
const overhead = 128

// add adds an item of a resource, whose message is given.
func (b *batch) add(f *otlp.Frame, resource []byte) {
	g := b.index[f.Resource]
	if g == nil {
		g = &group{resource: resource}
		b.index[f.Resource] = g
		b.groups = append(b.groups, g)
		b.size += int64(len(resource)) + overhead
	}
	before := len(g.items)
	g.items = protomsg.AppendString(g.items, itemsOf, f.Body)
	b.size += int64(len(g.items) - before)
	b.count += f.Count
}

// append appends the request.
func (b *batch) append(dst, scope []byte) []byte {
	for _, g := range b.groups {
		inner := protowire.SizeTag(scopeOf) + protowire.SizeBytes(len(scope)) + len(g.items)
		outer := protowire.SizeTag(resourceOf) + protowire.SizeBytes(len(g.resource)) + protowire.SizeTag(scopesOf) + protowire.SizeBytes(inner)
		dst = protowire.AppendVarint(protowire.AppendTag(dst, requestResources, protowire.BytesType), uint64(outer))
		dst = protomsg.AppendString(dst, resourceOf, g.resource)
		dst = protowire.AppendVarint(protowire.AppendTag(dst, scopesOf, protowire.BytesType), uint64(inner))
		dst = append(protomsg.AppendString(dst, scopeOf, scope), g.items...)
	}
	return dst
}
