package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Unfinished says what to do with tasks that are neither over nor waiting for their
// client.
type Unfinished string

// What to do with unfinished tasks.
const (
	// UnfinishedRefuse refuses the import and names them. It is the default.
	UnfinishedRefuse Unfinished = "refuse"
	// UnfinishedQueue has the target run them: their turns begin again, with the
	// steps that were recorded.
	UnfinishedQueue Unfinished = "queue"
	// UnfinishedCancel ends them.
	UnfinishedCancel Unfinished = "cancel"
)

// ImportOptions say how to import.
type ImportOptions struct {
	// Owner, if not empty, is to own what is imported, in place of the owner that
	// each document names.
	Owner string
	// Unfinished is for tasks that are not finished; "" refuses.
	Unfinished Unfinished
	// Now is the time of cancellations; nil is the wall clock.
	Now func() time.Time
}

// UnfinishedError refuses documents with unfinished tasks. Its code is conflict.
type UnfinishedError struct {
	Tasks int64 // how many
	named string
}

func (e *UnfinishedError) Error() string { return e.coded().Message }

// Unwrap returns the error with its code.
func (e *UnfinishedError) Unwrap() error { return e.coded() }

func (e *UnfinishedError) coded() *a2a.Error {
	return a2a.Errorf(a2a.CodeConflict, "the document has unfinished tasks (%s); choose whether to queue or to cancel them", e.named)
}

func (o *ImportOptions) complete() error {
	if strings.ContainsRune(o.Owner, 0) {
		return a2a.Invalid("Owner", "must not have a NUL")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	switch o.Unfinished {
	case "":
		o.Unfinished = UnfinishedRefuse
	case UnfinishedRefuse, UnfinishedQueue, UnfinishedCancel:
	default:
		return a2a.Invalid("Unfinished", "is %s, want refuse, queue or cancel", a2a.Quote(string(o.Unfinished)))
	}
	return nil
}

// Import reads the documents in r and writes what the store lacks of them. Nobody
// else may be writing to the store.
//
// Nothing is written before all of r has been read and checked, against the store
// too; an r that cannot seek is kept in a temporary file for that. A context or task
// that is there and is not that of the document, or an earlier or later state of it,
// is refused, and so are unfinished tasks, by an [*UnfinishedError], unless the options
// say otherwise. When an error of the store cuts the import short, the next import of
// the same documents finishes it.
//
// A parent context that the target lacks is left out and noted in the report; a later
// import adds it. References to contexts that the target lacks are kept.
func Import(ctx context.Context, r io.Reader, s store.Store, opts ImportOptions) (report Report, err error) {
	if err := opts.complete(); err != nil {
		return Report{}, err
	}
	input, done, err := seekable(r)
	if err != nil {
		return Report{}, err
	}
	defer func() {
		if derr := done(); derr != nil {
			err = errors.Join(err, derr)
		}
	}()
	start, err := input.Seek(0, io.SeekCurrent)
	if err != nil {
		return Report{}, fmt.Errorf("read export: %w", err)
	}
	look := &importer{store: s, opts: opts}
	if err := scan(ctx, input, look); err != nil {
		return Report{}, err
	}
	if err := look.refusal(); err != nil {
		return Report{}, err
	}
	if _, err := input.Seek(start, io.SeekStart); err != nil {
		return Report{}, fmt.Errorf("read export: %w", err)
	}
	write := &importer{store: s, opts: opts, write: true}
	if err = scan(ctx, input, write); err == nil {
		err = write.addParents(ctx)
	}
	return write.report, err
}

// seekable returns r itself if it can be read twice, else a temporary file with what
// it holds. done removes that.
func seekable(r io.Reader) (_ io.ReadSeeker, done func() error, err error) {
	if seeker, ok := r.(io.ReadSeeker); ok {
		if _, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			return seeker, func() error { return nil }, nil
		}
	}
	spool, err := os.CreateTemp("", "holdfast-import-*")
	if err != nil {
		return nil, nil, fmt.Errorf("keep the input of the import: %w", err)
	}
	done = func() error { return errors.Join(spool.Close(), os.Remove(spool.Name())) }
	if _, err = io.Copy(spool, r); err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read export: %w", err), done())
	}
	return spool, done, nil
}
