package command

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
)

// UsageError is an error in the command line or the settings.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// Usagef returns a usage error.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// HintError is an error with a hint that suggests what to do.
type HintError struct {
	error
	Hint string
}

func (e *HintError) Unwrap() error { return e.error }

// WithHint returns err with a hint.
func WithHint(err error, hint string) error { return &HintError{err, hint} }

// Without returns the error for a store that lacks a feature of the command.
func Without(feature string) error {
	return a2a.Errorf(a2a.CodeUnsupported, "the store does not support %s", feature)
}

// NotFoundError reports data that the owner does not have.
type NotFoundError struct{ text string }

func (e *NotFoundError) Error() string { return e.text }

// NotFound returns the error for data that an owner does not have, with a hint about the owner.
func (k *Data) NotFound(what, name string) error {
	return &HintError{
		&NotFoundError{fmt.Sprintf("owner %s has no %s %s", a2a.Quote(k.Owner), what, a2a.Quote(name))},
		"if it has another owner, set --owner",
	}
}
