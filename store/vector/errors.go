package vector

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Errors of stores. Test for them with errors.Is.
var (
	// ErrCollectionNotFound: the owner has no such collection. It is a store.ErrNotFound.
	ErrCollectionNotFound = fmt.Errorf("vector: collection %w", store.ErrNotFound)
	// ErrExists: the collection has a document with the same id.
	ErrExists error = a2a.Errorf(a2a.CodeConflict, "vector: document already exists")
	// ErrMismatch: a write or a query does not fit the collection. The error is a
	// [MismatchError].
	ErrMismatch error = a2a.Errorf(a2a.CodeInvalid, "vector: collection mismatch")
)

// MismatchError reports a value that differs from the collection's value. It is [ErrMismatch].
type MismatchError struct {
	Collection string
	// Field is "dimension", "metric" or "embedder".
	Field string
	// Value is the value of the call, Want the value of the collection.
	Value, Want string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("vector: %s: is %.64q, collection %.64q has %.64q", e.Field, e.Value, e.Collection, e.Want)
}

// Unwrap returns [ErrMismatch].
func (e *MismatchError) Unwrap() error { return ErrMismatch }

// EmbedderError is the error of a call if its embedder failed, or returned embeddings that are
// not valid.
type EmbedderError struct {
	// Embedder is the name of the embedder.
	Embedder string
	// Err is the error. Its code is the code of the embedder's error, unavailable if that
	// error has none.
	Err error
}

func (e *EmbedderError) Error() string {
	return fmt.Sprintf("vector: embedder %.64q: %s", e.Embedder, strings.TrimPrefix(e.Err.Error(), "vector: "))
}

// Unchanged implements contract.Unchanged.
func (*EmbedderError) Unchanged() {}

// Unwrap returns the error of the embedder.
func (e *EmbedderError) Unwrap() error { return e.Err }
