package store

import (
	"context"

	"github.com/holdfast-dev/holdfast/internal/memory"
)

// LogRow describes a row of a task's log. A row contains events that were committed
// together and are read together.
type LogRow struct {
	Seq    int64 // of the first event
	Events int   // number of events
	// Bytes is the number of bytes to read for any of the events.
	Bytes int64
}

// Last returns the sequence of the row's last event.
func (r *LogRow) Last() int64 { return r.Seq + int64(r.Events) - 1 }

const (
	// maxWalkRows and maxWalkBytes limit the pages of WalkLog. A larger row is a page of
	// its own.
	maxWalkRows  = 256
	maxWalkBytes = 1 << 20
	// MemoryPerStoredByte is the memory that each byte of a row needs while the row is read: one
	// byte as stored and one decoded.
	MemoryPerStoredByte = 2
)

// LogReader reads the logs of tasks. See [Tasks] for its methods.
type LogReader interface {
	Events(ctx context.Context, key Key, after int64, limit int) ([]Event, error)
	LogRows(ctx context.Context, key Key, after int64, limit int) ([]LogRow, error)
}

// WalkLog reads the events of a log with sequences greater than after, up to through. It
// calls f with pages of them, in order, until f returns false or the log ends. The memory
// of a page is reserved from b until f returns. It returns the errors of
// [memory.Hold.Grow], and ErrNotFound.
func WalkLog(ctx context.Context, s LogReader, b *memory.Budget, task Key, after, through int64, f func(page []Event) bool) error {
	hold := b.Hold(task.Owner)
	defer hold.Release()
	for after < through {
		rows, err := s.LogRows(ctx, task, after, int(min(through-after, maxWalkRows)))
		if err != nil || len(rows) == 0 {
			return err
		}
		last, bytes := rows[0].Last(), rows[0].Bytes
		for _, r := range rows[1:] {
			if bytes+r.Bytes > maxWalkBytes {
				break
			}
			last, bytes = r.Last(), bytes+r.Bytes
		}
		if err := hold.Grow(ctx, MemoryPerStoredByte*bytes); err != nil {
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

// LogSize returns the size in bytes of the rows of a log that contain its events up to a
// sequence: the total, and the size of the last row.
func LogSize(ctx context.Context, s LogReader, task Key, through int64) (total, last int64, err error) {
	for after := int64(0); after < through; {
		rows, err := s.LogRows(ctx, task, after, 16*maxWalkRows)
		if err != nil || len(rows) == 0 {
			return total, last, err
		}
		for i := range rows {
			if rows[i].Seq > through {
				return total, last, nil
			}
			total, last, after = total+rows[i].Bytes, rows[i].Bytes, rows[i].Last()
		}
	}
	return total, last, nil
}
