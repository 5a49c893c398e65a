// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
)

// A Budget is what tracing may take of the machine.
type Budget struct {
	// Share is of one CPU: 0.25 is a quarter.
	Share float64
	// Asked says that somebody has asked for it, who wants to know if it cannot be watched.
	Asked bool
	// Slowly lets the programs run for the least part of the time at first, and for more
	// as long as they take little. See Tracer.StartPaused.
	Slowly bool
	// Say is told when the part of the time in which programs are not paused has changed
	// much: what tracing takes, and that part, 1 for always.
	Say func(takes, part float64)
}

// How the cost is watched.
const (
	// sampleEvery is how often it is measured.
	sampleEvery = time.Second
	// sampleTime is how long the kernel measures its programs, which makes each run of
	// any program slower by two looks at the clock.
	sampleTime = 50 * time.Millisecond
	// pauseCycle is how often programs are switched on and paused, while they are: what
	// one sample sees is a whole cycle.
	pauseCycle = sampleTime
	// ownPerRecord bounds what counts of ksnoop's own CPU time. What takes longer, such
	// as reading debug info, happens once.
	ownPerRecord = 20 * time.Microsecond
)

// KeepWithin watches what tracing takes, once a second, until ctx ends. While that is more
// than the budget, it pauses the programs for a part of the time: they take up no new calls
// then. It returns an error if that does not help.
func (t *Tracer) KeepWithin(ctx context.Context, b Budget) error {
	th := throttle{limit: b.Share, part: 1}
	if b.Slowly {
		th.part, th.rising = leastPart, true
	}
	s := sampler{tracer: t, asked: b.Asked}
	s.own() // from here on
	for said := 1.0; ; {
		rising := th.rising
		if !rising {
			if err := t.runFor(ctx, sampleEvery-sampleTime, th.part); err != nil || ctx.Err() != nil {
				return err
			}
		}
		takes, err := s.sample(ctx, &th)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if err := th.next(takes); err != nil {
			return err
		}
		// Of guesses only the end is said, if there was a reason to begin.
		known := !s.guesses(rising, th.takes > b.Share/2) || said < 1 && th.part == 1
		if changedMuch(said, th.part) && !th.rising && known {
			said = th.part
			b.Say(th.takes, th.part)
		}
	}
}

// changedMuch reports whether somebody would want to know.
func changedMuch(from, to float64) bool {
	return from != to && (from == 1 || to == 1 || to < from/2 || to > from*2)
}

// pausedFor returns for how long the programs were paused.
func (t *Tracer) pausedFor() time.Duration {
	t.turning.Lock()
	defer t.turning.Unlock()
	if t.pausedAt.IsZero() {
		return t.paused
	}
	return t.paused + time.Since(t.pausedAt)
}

// runFor lets the programs run for a part of the time, for so long or until ctx ends. If that
// is not always, they are paused afterwards: what is to be done then may take its time.
func (t *Tracer) runFor(ctx context.Context, d time.Duration, part float64) error {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
		if err := t.turn(bpf.On); err != nil {
			return err
		}
		if part == 1 {
			wait(ctx, d)
			break
		}
		on := time.Duration(part * float64(pauseCycle))
		wait(ctx, on)
		if err := t.turn(bpf.Paused); err != nil {
			return err
		}
		wait(ctx, pauseCycle-on)
	}
	return nil
}

// wait returns after a time, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// A sampler measures what tracing takes.
type sampler struct {
	tracer *Tracer
	asked  bool
	// blind says that the kernel does not measure programs for us, unmeasured that it did not for the last sample.
	blind, unmeasured bool
	// Of ksnoop itself, at the last look: when that was, its CPU time, and how many records it had read.
	at      time.Time
	cpu     time.Duration
	records uint64
}

// sample lets the programs run and returns the share of one CPU that they and ksnoop itself take. Where they are not
// measured, a rise goes by how late ksnoop's own timers were: they are when a CPU does nothing but run programs. Later on that
// would say more of the machine's other work.
func (s *sampler) sample(ctx context.Context, th *throttle) (float64, error) {
	stats := s.measure()
	s.unmeasured = stats == nil
	before, begin := s.programTime(), time.Now()
	err := s.tracer.runFor(ctx, sampleTime, th.part)
	lasted := time.Since(begin)
	took := s.programTime() - before
	switch {
	case stats != nil:
		err = errors.Join(err, stats.Close())
	case th.rising:
		took = lasted - sampleTime
	}
	return float64(took)/float64(lasted) + s.own(), err
}

// programTime is what programs have taken, 0 where that is not measured.
func (s *sampler) programTime() time.Duration {
	if s.unmeasured {
		return 0
	}
	return s.tracer.programTime()
}

// guesses reports whether the part of the time in which programs run has no measured reason: the last sample went by late timers,
// as it does while the part rises, or by what ksnoop itself takes, which is not much. Nobody is told then: the machine's other
// work may be the reason.
func (s *sampler) guesses(rising, much bool) bool { return s.unmeasured && (rising || !much) }

// measure has the kernel measure programs until what it returns is closed: nil if the kernel does not.
func (s *sampler) measure() io.Closer {
	if s.blind {
		return nil
	}
	stats, err := s.tracer.host.measure()
	if err != nil {
		s.lacks(err)
		return nil
	}
	return stats
}

// lacks says that programs are not measured, for want of CAP_SYS_ADMIN. What else may be
// the reason passes.
func (s *sampler) lacks(err error) {
	if !errors.Is(err, unix.EPERM) {
		return
	}
	s.blind = true
	level := slog.LevelInfo
	if s.asked {
		level = slog.LevelWarn
	}
	s.tracer.options.Log.Log(context.Background(), level, "for --max-cpu only what ksnoop itself takes is watched, not its programs: that needs CAP_SYS_ADMIN, or sysctl kernel.bpf_stats_enabled=1")
}

// own returns the share of one CPU that ksnoop itself has taken since it was last asked.
func (s *sampler) own() float64 {
	cpu, records, now := s.tracer.host.ownTime(), s.tracer.read.Load(), time.Now()
	took := min(cpu-s.cpu, time.Duration(records-s.records)*ownPerRecord)
	share := float64(took) / float64(now.Sub(s.at))
	s.cpu, s.records, s.at = cpu, records, now
	return share
}

// A throttle decides for which part of the time programs are to run.
type throttle struct {
	limit float64 // share of one CPU
	part  float64 // 1: always
	// rising says that part has only gone up so far, from the least.
	rising bool
	// recent are the samples since the programs last ran always.
	recent []float64
	// takes is what has decided for part: a sample, or the mean of some.
	takes float64
	over  int // samples in a row that were over the limit although part was the least
}

const (
	// patience is how many samples together have to be over the limit before programs are
	// paused: a burst is what many are waiting for.
	patience = 4
	// leastPart is the smallest part: a millisecond of a cycle.
	leastPart = 1.0 / 50
	// giveUp is for how many samples the least part may be too much.
	giveUp = 5
	// mostRise is by how much the part is multiplied at most, and firstRise the same at the beginning.
	mostRise, firstRise = 1.5, 4
)

// errTooMuch is why tracing ends.
type errTooMuch struct{ takes, limit float64 }

func (e errTooMuch) Error() string {
	return fmt.Sprintf("tracing takes %.0f%% of a CPU, and still would if it looked at next to no calls; --max-cpu allows %.0f%%", e.takes*100, e.limit*100)
}

// next decides by another sample.
func (c *throttle) next(takes float64) error {
	if c.part == 1 {
		c.recent = append(c.recent, takes)
		if len(c.recent) < patience {
			return nil
		}
		c.recent = c.recent[len(c.recent)-patience:]
		sum := 0.0
		for _, s := range c.recent {
			sum += s
		}
		if takes = sum / patience; takes <= c.limit {
			return nil
		}
	}
	c.takes = takes
	if c.part == leastPart && takes > c.limit {
		c.rising = false
		if c.over++; c.over == giveUp {
			return errTooMuch{takes, c.limit}
		}
		return nil
	}
	c.over = 0
	// To somewhat below the limit; up slowly, down fast.
	change, most := 0.8*c.limit/takes, mostRise
	if c.rising {
		most = firstRise
	}
	c.part = max(leastPart, min(1, c.part*min(most, max(0.25, change))))
	c.rising = c.rising && c.part < 1 && change >= mostRise
	if c.part == 1 {
		c.recent = nil
	}
	return nil
}
