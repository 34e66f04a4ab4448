package contract

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// LineType is a type of lines in an export; see docs/export.md.
type LineType struct {
	// Name is the value of the member type. It is unique among all kinds.
	Name string
	// Counts is the name of the items that its lines count, "" if a line is a part of an item.
	Counts string
	// After are the types of the same contract that it may follow. nil means all of them, and the
	// start of the contract's lines.
	After []string
	// Incomplete lines must be followed by a line of the same contract.
	Incomplete bool
}

// Scanner checks the lines of a contract in one document, in their order. Its errors are errors of
// package wire, or have code invalid_params; the caller adds the number of the line.
type Scanner interface {
	// Scan checks a line and returns what an Importer adds. It does not keep raw.
	Scan(typ string, raw []byte) (item any, err error)
	// End checks that the lines are complete.
	End() error
}

// ImportParams are the params of an import of one document. An import adds only items that the
// store does not have.
type ImportParams struct {
	// Owner is the owner of the added data, whatever the document says.
	Owner string
	// Write is false for a first pass that compares the document with the store.
	Write bool
	// Now is the clock.
	Now func() time.Time
	// Conflict reports an item that differs from the store's. The importer returns its result.
	Conflict func(format string, args ...any) error
	// Note reports a part of the document that cannot be added.
	Note func(format string, args ...any)
	// Added reports added items.
	Added func(count string, n int64)
	// TaskExists reports whether a task of Owner exists.
	TaskExists func(ctx context.Context, id string) (bool, error)
}

// Importer compares the items of a document with a store and adds them. It may collect them.
type Importer interface {
	// Add adds an item of the contract's Scanner.
	Add(ctx context.Context, item any) error
	// Flush adds the collected items.
	Flush(ctx context.Context) error
	// Abort ends an import that has failed. It returns when nothing uses the store any more.
	Abort()
}

// RecordForm is how data of a contract are records of the store of tasks.
type RecordForm struct {
	Namespace string
	// Item returns what an Importer adds for a record, nil if the record is empty or has expired.
	Item func(owner string, r store.RecordChange, now time.Time) (item any, err error)
	// Record returns the record of an item.
	Record func(owner string, item any) (store.RecordChange, error)
}

// NoTarget returns the error for data that a target cannot take.
func (k *Kind) NoTarget() error {
	return a2a.Errorf(a2a.CodeUnsupported, "the input has %s, and the target has no store into which they can be imported", k.Name)
}

// Immediate has the methods of an [Importer] that collects nothing. Importers embed it.
type Immediate struct{}

// Flush does nothing.
func (Immediate) Flush(context.Context) error { return nil }

// Abort does nothing.
func (Immediate) Abort() {}
