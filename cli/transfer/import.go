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
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/contract/all"
)

// Unfinished is the treatment of unfinished tasks: tasks that are neither final nor waiting
// for their client.
type Unfinished string

// Treatments of unfinished tasks.
const (
	// UnfinishedRefuse rejects the import with an [*UnfinishedError]. It is the default.
	UnfinishedRefuse Unfinished = "refuse"
	// UnfinishedQueue queues them in the target store. Their turns start again, with the
	// recorded steps.
	UnfinishedQueue Unfinished = "queue"
	// UnfinishedCancel cancels them.
	UnfinishedCancel Unfinished = "cancel"
)

// ImportOptions are options of [Import].
type ImportOptions struct {
	// Owner, if not empty, replaces the owner that each document names.
	Owner string
	// Unfinished is the treatment of unfinished tasks; "" is [UnfinishedRefuse].
	Unfinished Unfinished
	// Contracts are the stores of the target for data that agents keep, at most one of a kind.
	Contracts []contract.Store
	// Kinds are the contracts in the input. Default: all.Kinds.
	Kinds []*contract.Kind
	// Files stores large files of tasks. nil leaves them within the tasks.
	Files blob.Store
	// Now returns the time of cancellations; nil is [time.Now].
	Now func() time.Time
}

// UnfinishedError reports unfinished tasks in the input of [Import]. Its code is conflict.
type UnfinishedError struct {
	Tasks int64 // number of unfinished tasks
	named string
}

func (e *UnfinishedError) Error() string { return e.codedError().Message }

// Unwrap returns the error with its code.
func (e *UnfinishedError) Unwrap() error { return e.codedError() }

func (e *UnfinishedError) codedError() *a2a.Error {
	return a2a.Errorf(a2a.CodeConflict, "the input contains unfinished tasks (%s); queue or cancel them", e.named)
}

func (o *ImportOptions) validate() error {
	if strings.ContainsRune(o.Owner, 0) {
		return a2a.Invalid("Owner", "must not contain a NUL")
	}
	if o.Owner != "" && checkOwner(o.Owner) != nil {
		return a2a.Invalid("Owner", "must not start with a control character")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Kinds == nil {
		o.Kinds = all.Kinds()
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

// Import reads the documents in r and writes those parts of them that the store does not have.
// No other process may write to the store during the import.
//
// Import reads r twice: it checks all of r, also against the store, before it writes. It copies
// an r that cannot seek to a temporary file. It rejects a context or task that exists and is
// neither equal to the one in the document nor an earlier or later state of it. It rejects
// unfinished tasks with an [*UnfinishedError], unless the options say otherwise. If an error of
// the store interrupts the import, importing the same input again finishes it.
//
// If the parent of a context does not exist, Import leaves it out and adds a note to the
// report; a later import adds the parent. References to contexts that do not exist are kept.
func Import(ctx context.Context, r io.Reader, s Target, opts ImportOptions) (report Report, err error) {
	if err := opts.validate(); err != nil {
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
	checker := &importer{store: s, opts: opts}
	if err := scan(ctx, input, opts.Kinds, checker); err != nil {
		return Report{}, err
	}
	if err := checker.checkResult(); err != nil {
		return Report{}, err
	}
	if _, err := input.Seek(start, io.SeekStart); err != nil {
		return Report{}, fmt.Errorf("read export: %w", err)
	}
	writer := &importer{store: s, opts: opts, write: true}
	if opts.Files != nil {
		writer.files.files = fileref.New(fileref.Config{Blobs: opts.Files})
	}
	if err = scan(ctx, input, opts.Kinds, writer); err == nil {
		err = writer.addParents(ctx)
	}
	if err != nil {
		writer.abort()
	}
	return writer.report, err
}

// seekable returns r if it can seek, else a temporary file with the content of r. done removes
// the temporary file.
func seekable(r io.Reader) (_ io.ReadSeeker, done func() error, err error) {
	if seeker, ok := r.(io.ReadSeeker); ok {
		if _, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			return seeker, func() error { return nil }, nil
		}
	}
	spool, err := os.CreateTemp("", "holdfast-import-*")
	if err != nil {
		return nil, nil, fmt.Errorf("create a temporary file for the input: %w", err)
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
