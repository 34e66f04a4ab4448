package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// While a session holds a snapshot, such as a backup, PostgreSQL cannot remove index entries of replaced rows.
// A claim that walked the entries of all earlier tasks would become slower with each of them. So claims read the
// entries of one era only, the newest. After some claims, a process starts the next era and moves the entries of
// ready and leased tasks and lanes to it. A transaction may add an entry to an era that has just ended: claims find
// it when a check has moved it.

const (
	// A process starts an era after eraClaims claims, or after eraClaimsPerMove for each entry that it moved to
	// the era before, if that is more.
	eraClaims        = 2048
	eraClaimsPerMove = 2
	// eraBatch is the maximum number of entries of a table and a phase that one transaction moves.
	eraBatch = 2048
	// An ended era is checked for late entries after firstEraCheck, after 10 and 100 times firstEraCheck, and then
	// recentEras times at intervals of eraCheckInterval. Each allErasEvery-th interval, a check reads all eras.
	firstEraCheck    = 20 * time.Millisecond
	eraCheckInterval = 15 * time.Second
	recentEras       = 5
	allErasEvery     = 40
)

var (
	stmtEra = &statement{name: "holdfast_era", text: `SELECT {era}`}
	// stmtStartEra starts an era, unless another process has ended the era $1.
	stmtStartEra = &statement{name: "holdfast_era_start", text: `UPDATE {s}.queue_era SET era = era + 1 WHERE pk = 1 AND era = $1::bigint`}
	// stmtMoveTasks and stmtMoveLanes move up to $2 entries of each phase from the eras since $1 to the newest.
	// They skip locked rows, which a later check finds.
	stmtMoveTasks = &statement{name: "holdfast_era_tasks", text: `WITH u AS MATERIALIZED (
			` + oldEntries("task_rows", "owner, id") + `
		)
		UPDATE {s}.task_rows t SET era = {era} FROM u WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"`}
	stmtMoveLanes = &statement{name: "holdfast_era_lanes", text: `WITH u AS MATERIALIZED (
			` + oldEntries("webhook_lanes", "owner, task_id, id") + `
		)
		UPDATE {s}.webhook_lanes l SET era = {era} FROM u WHERE ` + sqlLaneKey}
)

func oldEntries(table, key string) string {
	of := func(phase string) string {
		return fmt.Sprintf(`SELECT * FROM (SELECT %[2]s FROM {s}.%[1]s WHERE phase = %[3]s AND era >= $1::bigint AND era < {era} ORDER BY era LIMIT $2::bigint FOR NO KEY UPDATE SKIP LOCKED) x`,
			table, key, phase)
	}
	return of("{ready}") + ` UNION ALL ` + of("{leased}")
}

// eras decides when eras start.
type eras struct {
	claims, limit atomic.Int64 // in this era, and the number after which it ends
	shortest      atomic.Int64 // lowest limit; tests reduce it
	due           chan struct{}
}

func newEras() *eras {
	e := &eras{due: make(chan struct{}, 1)}
	e.shortest.Store(eraClaims)
	e.started(0)
	return e
}

// claimed adds n claims.
func (e *eras) claimed(n int) {
	if e.claims.Add(int64(n)) < e.limit.Load() {
		return
	}
	select {
	case e.due <- struct{}{}:
	default:
	}
}

// started resets the claims after n entries were moved to a new era.
func (e *eras) started(n int) {
	e.limit.Store(max(e.shortest.Load(), eraClaimsPerMove*int64(n)))
	e.claims.Store(0)
}

// runEras starts eras and checks for late entries, until ctx is done.
func (s *changeWriter) runEras(ctx context.Context) {
	tick := time.NewTicker(eraCheckInterval)
	defer tick.Stop()
	first := time.NewTimer(0) // moves what a killed process left
	defer first.Stop()
	var era, ended int64    // the newest, and the one before it
	var delay time.Duration // pause before the latest check of ended
	var recent []int64      // the newest at each of the last ticks
	for n := 1; ; {
		since, start, ticked := ended, false, false
		select {
		case <-s.eras.due:
			since, start = era, true
		case <-first.C:
			if delay *= 10; delay > 0 && delay <= 100*firstEraCheck {
				first.Reset(delay)
			}
		case <-tick.C:
			ticked = true
			if n++; n%allErasEvery == 0 || len(recent) < recentEras {
				since = 0
			} else {
				since = recent[0]
			}
		case <-ctx.Done():
			return
		}
		newest, moved, err := s.moveEntries(ctx, since, start)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				s.log.Warn("entries of the queues were not moved to the newest era", "error", err)
			}
			continue
		case start:
			ended = era
			s.eras.started(moved)
			delay = firstEraCheck
			first.Reset(delay)
		case ticked:
			recent = append(recent, newest)
			recent = recent[max(0, len(recent)-recentEras):]
		}
		era = newest
	}
}

// moveEntries moves the entries of the eras since one to the newest, which it returns. With start, it starts the
// era after since, in the transaction of the first batch, so that claims miss none of these entries.
func (s *changeWriter) moveEntries(ctx context.Context, since int64, start bool) (newest int64, moved int, err error) {
	for batch := eraBatch; batch >= eraBatch; start = false {
		tasks := &call{statement: stmtMoveTasks, args: []any{since, eraBatch}}
		lanes := &call{statement: stmtMoveLanes, args: []any{since, eraBatch}}
		calls := []*call{tasks, lanes, {statement: stmtEra, row: func(r record) { newest = r.int(0) }}}
		if start {
			calls = append([]*call{{statement: stmtStartEra, args: []any{since}}}, calls...)
		}
		if err := s.pipelined(ctx, calls); err != nil { // one round trip, so that no suspended process holds the locks
			return newest, moved, err
		}
		batch = int(tasks.changed + lanes.changed)
		moved += batch
		s.lanesDue(lanes.changed > 0) // claims may have skipped the locked rows
		if tasks.changed > 0 {
			s.outbox.addWork()
		}
	}
	return newest, moved, nil
}
