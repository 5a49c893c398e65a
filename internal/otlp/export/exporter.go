// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/internal/otlp"
)

// Options of an Exporter.
type Options struct {
	Config  *Config
	Version string // of ksnoop
	// Queue bounds what waits to be sent, in bytes; 0: defaultQueue.
	Queue int64
	// Wait has Write wait for room in the queue. Without it, what finds no room is dropped.
	Wait bool
	// Say is told about failures that may pass, once until a request succeeds again. It is called
	// by another goroutine.
	Say func(text string)
}

// defaultQueue is how many bytes wait to be sent at most, unless the user says otherwise.
const defaultQueue = 64 << 20

const (
	batchSize = 1 << 20          // bytes of a batch
	batchAge  = time.Second      // after which a batch is sent that is not full
	lastTime  = 10 * time.Second // for what is left at the end
	hurryTime = time.Second      // for what is left after Interrupt
)

// An Exporter sends what is written to it.
type Exporter struct {
	options Options
	sender  sender
	cancel  context.CancelFunc
	done    chan struct{} // closed when the goroutine has ended
	wake    chan struct{} // has a value when the goroutine has to look
	closing chan struct{} // closed by Close

	mu        sync.Mutex
	room      sync.Cond // queued has become less, or all was given up
	resources map[uint64][]byte
	open      [signals]*batch
	begun     []byte // a frame whose end was not written yet
	queue     []*batch
	queued    int64           // bytes in all batches that were not sent
	waiting   [signals]uint64 // items in them
	over      bool            // nothing is sent any more
	counts    Counts
}

// New returns an Exporter. Close ends it.
func New(o Options) *Exporter {
	if o.Queue == 0 {
		o.Queue = defaultQueue
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Exporter{options: o, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1), closing: make(chan struct{}), resources: map[uint64][]byte{}}
	e.room.L = &e.mu
	e.sender = newSender(o.Config, o.Version)
	go e.run(ctx)
	return e
}

// Write takes a part of a stream of frames of package otlp. It may begin and end within a frame.
func (e *Exporter) Write(part []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	stream := part
	if len(e.begun) > 0 {
		e.begun = append(e.begun, part...)
		stream = e.begun
	}
	for len(stream) > 0 {
		f, rest, err := otlp.Next(stream)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		e.take(&f)
		stream = rest
	}
	e.begun = append(e.begun[:0], stream...)
	return len(part), nil
}

func (e *Exporter) take(f *otlp.Frame) {
	switch f.Kind {
	case otlp.Forget:
		maps.DeleteFunc(e.resources, func(n uint64, _ []byte) bool { return n>>32 == f.Resource>>32 })
	case otlp.Resource:
		e.resources[f.Resource] = append([]byte(nil), f.Body...)
	case otlp.Span:
		e.add(traces, f)
	case otlp.LogRecord:
		e.add(logs, f)
	case otlp.Metric:
		e.add(metrics, f)
	}
}

// add adds an item to the open batch of its signal, and queues that when it is full.
func (e *Exporter) add(s signal, f *otlp.Frame) {
	resource := e.resources[f.Resource]
	need := int64(len(f.Body)) + int64(len(resource)) + overhead
	for e.options.Wait && e.queued > 0 && e.queued+need > e.options.Queue && !e.over {
		e.seal() // else what has to be sent first may still be open
		e.room.Wait()
	}
	if e.over || e.queued+need > e.options.Queue {
		e.counts.dropped[s] += f.Count
		return
	}
	b := e.open[s]
	if b == nil {
		b = &batch{signal: s, index: map[uint64]*group{}}
		e.open[s] = b
	}
	before := b.size
	b.add(f, resource)
	e.queued += b.size - before
	e.waiting[s] += f.Count
	if b.size >= batchSize {
		e.queue, e.open[s] = append(e.queue, b), nil
		e.rouse()
	}
}

// seal queues all open batches.
func (e *Exporter) seal() {
	for s, b := range e.open {
		if b != nil {
			e.queue, e.open[s] = append(e.queue, b), nil
		}
	}
	e.rouse()
}

// rouse has the goroutine look at the queue.
func (e *Exporter) rouse() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// run sends batches until Close was called and all are sent, or ctx ends.
func (e *Exporter) run(ctx context.Context) {
	defer close(e.done)
	tick := time.NewTicker(batchAge)
	defer tick.Stop()
	for {
		for b := e.next(); b != nil; b = e.next() {
			e.deliver(ctx, b)
		}
		select {
		case <-e.closing:
			e.mu.Lock()
			e.seal()
			left := len(e.queue)
			e.mu.Unlock()
			if left == 0 {
				return
			}
		case <-e.wake:
		case <-tick.C:
			e.mu.Lock()
			e.seal()
			e.mu.Unlock()
		}
	}
}

// next takes the oldest batch from the queue; nil: there is none.
func (e *Exporter) next() *batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return nil
	}
	b := e.queue[0]
	e.queue[0] = nil
	e.queue = e.queue[1:]
	return b
}

// settle counts what has become of a batch.
func (e *Exporter) settle(b *batch, o outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &e.counts
	c.sent[b.signal] += o.taken
	c.refused[b.signal] += o.refused
	c.dropped[b.signal] += b.count - o.taken - o.refused
	if o.taken > 0 {
		c.bytes, c.packed = c.bytes+uint64(o.size), c.packed+uint64(o.packed)
	}
	if o.reason != "" {
		c.reason = o.reason
	}
	e.queued -= b.size
	e.waiting[b.signal] -= b.count
	e.room.Broadcast()
}

// Missing returns how many items are known by now not to arrive.
func (e *Exporter) Missing() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts.Missing()
}

// Waiting says how many items were not sent yet.
func (e *Exporter) Waiting() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return listed(&e.waiting)
}

// giveUp drops what is written from now on.
func (e *Exporter) giveUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.room.Broadcast()
}

// Interrupt ends the waiting for a collector: somebody does not want to wait. What is written from now on is dropped and counted, and so is
// what is left after a second.
func (e *Exporter) Interrupt() {
	e.giveUp()
	time.AfterFunc(hurryTime, e.cancel)
}

// Close sends what is left. Without Wait it takes no longer than ten seconds. It returns what has
// become of all that was written.
func (e *Exporter) Close() Counts {
	close(e.closing)
	if !e.options.Wait {
		late := time.AfterFunc(lastTime, e.cancel)
		defer late.Stop()
	}
	<-e.done
	e.cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts.requests, e.counts.retries = e.sender.requests, e.sender.retries
	return e.counts
}
