package postgres

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// clockInterval is the time between two readings of the database clock, clockSamples the
	// number of samples of a reading.
	clockInterval = 10 * time.Second
	clockSamples  = 3
	// clockTolerance is the largest backward step that Now hides: it repeats its last value
	// until the clock catches up.
	clockTolerance = time.Second
)

const sqlClock = `SELECT (extract(epoch FROM clock_timestamp()) * $1::bigint)::bigint`

// clock estimates the database clock from a sample and the local monotonic clock. Its error
// is at most half of the round trip of the sample.
type clock struct {
	log *slog.Logger

	mu           sync.Mutex
	local        time.Time // with the monotonic clock
	remote       time.Time
	lastReturned time.Time // the last result of now
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.remote.Add(time.Since(c.local))
	if now.Before(c.lastReturned) && c.lastReturned.Sub(now) < clockTolerance {
		return c.lastReturned
	}
	c.lastReturned = now
	return now
}

// set adopts a sample that differs from the estimate by at least minJump, and returns the
// difference.
func (c *clock) set(local, remote time.Time, minJump time.Duration) (jump time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.local.IsZero() {
		jump = remote.Sub(c.remote.Add(local.Sub(c.local)))
	}
	if jump.Abs() >= minJump {
		c.local, c.remote = local, remote
	}
	return jump
}

// adopt is set for a sample with a round trip. It logs a jump.
func (c *clock) adopt(local, remote time.Time, minJump, trip time.Duration) {
	if jump := c.set(local, remote, minJump); jump.Abs() >= clockTolerance+trip {
		c.log.Warn("database clock jumped", "by", jump)
	}
}

// check reads the clock over a new connection and adopts it if it has jumped: after a
// failover the new server may have a different clock, and no claim may use the old one. It
// ignores errors, which the next use of the connection reports.
func (c *clock) check(ctx context.Context, conn *pgconn.PgConn) {
	before := time.Now()
	results, err := conn.Exec(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).ReadAll()
	trip := time.Since(before)
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return
	}
	micros, err := strconv.ParseInt(string(results[0].Rows[0][0]), 10, 64)
	if err != nil {
		return
	}
	c.adopt(before.Add(trip/2), time.UnixMicro(micros).UTC(), clockTolerance+trip, trip)
}

// Now implements [store.Clock]. It returns an estimate of the database clock, which all
// processes on the database share, with an error of at most half a round trip. The store
// reads the clock when it opens, every ten seconds and, unless it is behind a pooler, on each
// new connection. Now goes back only if the database clock was set back by a second or more.
func (s *database) Now() time.Time { return s.clock.now() }

// readClock adopts the sample with the shortest round trip.
func (s *database) readClock(ctx context.Context, on querier) error {
	best := time.Duration(math.MaxInt64)
	var local, remote time.Time
	for range clockSamples {
		before := time.Now()
		var at time.Time
		err := s.eachRow(ctx, on, sqlClock, func(r record) error {
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
	s.clock.adopt(local, remote, 0, best)
	return nil
}

// maintain periodically reads the clock, resolves indeterminate commits, merges counters and
// deletes old marks, until ctx is done.
func (s *changeWriter) maintain(ctx context.Context) {
	tick := time.NewTicker(clockInterval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := s.runOnce(ctx, func(ctx context.Context, c *pgx.Conn) error {
			if err := s.readClock(ctx, c); err != nil {
				return err
			}
			if _, err := s.resolveMarks(ctx, c, s.indeterminate.all()); err != nil {
				return err
			}
			if err := s.mergeCounters(ctx, c); err != nil {
				return err
			}
			if n%deleteMarksEvery == 0 {
				_, err := s.exec(ctx, c, sqlDeleteOldMarks, s.Now().Add(-deleteMarksAfter).UnixMilli()<<markRandomBits)
				return err
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			s.log.Warn("database maintenance failed", "error", err)
		}
	}
}

// deleteMarksEvery is the number of maintenance rounds between two deletions of old marks.
const deleteMarksEvery = 6
