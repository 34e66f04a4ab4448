package postgres

import (
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// clockEvery is how often the database's clock is looked at, clockSamples how
	// often each time.
	clockEvery   = 10 * time.Second
	clockSamples = 3
	// clockHold is by how much Now waits for the clock instead of going back.
	clockHold = time.Second
)

const sqlClock = `SELECT (extract(epoch FROM clock_timestamp()) * $1::bigint)::bigint`

// clock estimates the database's clock: it counts on from a sample. The estimate
// is off by no more than half of the time that the sample took.
type clock struct {
	mu     sync.Mutex
	local  time.Time // with the monotonic clock
	remote time.Time
	last   time.Time // what was told last
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.remote.Add(time.Since(c.local))
	if now.Before(c.last) && c.last.Sub(now) < clockHold {
		return c.last
	}
	c.last = now
	return now
}

// set adopts a sample that differs from the estimate by at least so much, and returns by
// how much it does.
func (c *clock) set(local, remote time.Time, least time.Duration) (jump time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.local.IsZero() {
		jump = remote.Sub(c.remote.Add(local.Sub(c.local)))
	}
	if jump.Abs() >= least {
		c.local, c.remote = local, remote
	}
	return jump
}

// Now returns an estimate of the database's clock, to the half of a round trip: the
// clock that all who share the database have in common. It is measured when the
// store is opened and every ten seconds after that, and counts on in between. Each new
// connection checks whether the clock was set. The estimate goes back only if the
// database's clock went back by more than a second.
func (s *Store) Now() time.Time { return s.clock.now() }

// readClock takes the best of a few samples.
func (s *Store) readClock(ctx context.Context, on querier) error {
	best := time.Duration(math.MaxInt64)
	var local, remote time.Time
	for range clockSamples {
		before := time.Now()
		var at time.Time
		err := s.each(ctx, on, sqlClock, func(r record) error {
			at = time.UnixMicro(r.int(0)).UTC()
			return nil
		}, int64(time.Second/time.Microsecond))
		if err != nil {
			return err
		}
		if trip := time.Since(before); trip < best {
			best, local, remote = trip, before.Add(trip/2), at
		}
	}
	s.setClock(local, remote, 0, best)
	return nil
}

func (s *Store) setClock(local, remote time.Time, least, trip time.Duration) {
	if jump := s.clock.set(local, remote, least); jump.Abs() >= clockHold+trip {
		s.log.Warn("clock of the database was set", "by", jump)
	}
}

// checkClock reads the clock over a new connection and adopts it if it was set: after a
// failover all connections are new, and their server may have another clock. All who
// share the database are then to know it before they claim anything. An error is left to
// those who use the connection.
func (s *Store) checkClock(ctx context.Context, c *pgconn.PgConn) {
	before := time.Now()
	results, err := c.Exec(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).ReadAll()
	trip := time.Since(before)
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return
	}
	micros, err := strconv.ParseInt(string(results[0].Rows[0][0]), 10, 64)
	if err != nil {
		return
	}
	s.setClock(before.Add(trip/2), time.UnixMicro(micros).UTC(), clockHold+trip, trip)
}

// tend looks at the clock and tidies up until the store is closed.
func (s *Store) tend(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := s.once(ctx, func(ctx context.Context, c *pgx.Conn) error {
			if err := s.readClock(ctx, c); err != nil {
				return err
			}
			if _, err := s.clear(ctx, c, s.doubts.all()); err != nil {
				return err
			}
			if err := s.foldTallies(ctx, c); err != nil {
				return err
			}
			if n%sweepEvery == 0 {
				_, err := s.exec(ctx, c, sqlSweep, s.Now().Add(-sweepAge).UnixMilli()<<markChance)
				return err
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			s.log.Warn("upkeep of the database failed", "error", err)
		}
	}
}

// sweepEvery is how many looks at the clock lie between two removals of marks.
const sweepEvery = 6
