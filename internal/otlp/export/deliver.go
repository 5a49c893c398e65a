// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	patience     = time.Minute            // for how long a waiting Exporter sees a request fail until it gives up
	firstPause   = 500 * time.Millisecond // before a request is sent again
	longestPause = 30 * time.Second
	longestAsked = 5 * time.Minute // that a collector can ask for
)

// deliver sends a batch, and sends it again while that may help.
func (e *Exporter) deliver(ctx context.Context, b *batch) {
	pause := firstPause
	closing, began := e.closing, time.Now()
	for {
		var o outcome
		if ctx.Err() != nil {
			e.settle(b, o)
			return
		}
		o, again, asked := e.sender.send(ctx, b)
		if !again || ctx.Err() != nil {
			e.settle(b, o)
			return
		}
		e.complain(o.reason)
		if e.options.Wait && time.Since(began) > patience {
			e.cancel()
			e.giveUp()
			continue
		}
		wait, hurry := pause/2+rand.N(pause), closing
		if asked > 0 {
			wait, hurry = min(asked, longestAsked), nil
		}
		pause = min(2*pause, longestPause)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-hurry: // there is not much time left
			closing = nil
		}
		timer.Stop()
		e.sender.retries++
	}
}

// grpcPort is where collectors take OTLP by gRPC.
const grpcPort = "4317"

// complain says why a request has to be sent again.
func (e *Exporter) complain(reason string) {
	e.mu.Lock()
	e.counts.reason = reason
	e.mu.Unlock()
	if !e.sender.complained && e.options.Say != nil {
		hint := ""
		if e.options.Config.targets[traces].url.Port() == grpcPort {
			hint = " (" + grpcPort + " is the port of gRPC, which ksnoop does not speak; OTLP by HTTP has 4318)"
		}
		e.options.Say(reason + hint + "; it is tried again")
	}
	e.sender.complained = true
}
