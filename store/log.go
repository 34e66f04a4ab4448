package store

import (
	"context"

	"github.com/holdfast-dev/holdfast/internal/memory"
)

// LogRow says how large a row of a task's log is: events that were committed together,
// and are read together.
type LogRow struct {
	Seq    int64 // of the first event
	Events int
	// Bytes is how much is read to have any of the events.
	Bytes int64
}

// Last is the sequence of the row's last event.
func (r *LogRow) Last() int64 { return r.Seq + int64(r.Events) - 1 }

const (
	// walkRows and walkBytes are how much of a log is read at once to walk through it; a
	// larger row is read by itself.
	walkRows  = 256
	walkBytes = 1 << 20
	// LoadedPerByte is how much memory a byte of a row takes while the row is read: as it
	// is stored, and decoded.
	LoadedPerByte = 2
)

// WalkLog calls f with the events of a log behind one sequence and up to another, in order, page by
// page, until f returns false or the log ends. A page draws from b until f returns. Errors: those of
// [memory.Hold.Grow], ErrNotFound.
func WalkLog(ctx context.Context, s Store, b *memory.Budget, task Key, after, through int64, f func(page []Event) bool) error {
	hold := b.Hold(task.Owner)
	defer hold.Release()
	for after < through {
		rows, err := s.LogRows(ctx, task, after, int(min(through-after, walkRows)))
		if err != nil || len(rows) == 0 {
			return err
		}
		last, bytes := rows[0].Last(), rows[0].Bytes
		for _, r := range rows[1:] {
			if bytes+r.Bytes > walkBytes {
				break
			}
			last, bytes = r.Last(), bytes+r.Bytes
		}
		if err := hold.Grow(ctx, LoadedPerByte*bytes); err != nil {
			return err
		}
		events, err := s.Events(ctx, task, after, int(min(last, through)-after))
		if err != nil || len(events) == 0 {
			return err
		}
		after = events[len(events)-1].Seq
		if !f(events) {
			return nil
		}
		hold.Release()
	}
	return nil
}

// LogSize returns how large the rows of a log are that hold its events up to one, and the
// last of them.
func LogSize(ctx context.Context, s Store, task Key, through int64) (all, last int64, err error) {
	for after := int64(0); after < through; {
		rows, err := s.LogRows(ctx, task, after, 16*walkRows)
		if err != nil || len(rows) == 0 {
			return all, last, err
		}
		for i := range rows {
			if rows[i].Seq > through {
				return all, last, nil
			}
			all, last, after = all+rows[i].Bytes, rows[i].Bytes, rows[i].Last()
		}
	}
	return all, last, nil
}
