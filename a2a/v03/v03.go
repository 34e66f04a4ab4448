package v03

import (
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Version is the protocol version on agent cards.
const Version = "0.3.0"

// MetadataReceived is the member of a status update's metadata with the id of the client's
// message that the update added to the task.
const MetadataReceived = "receivedMessageId"

// Params decodes the params of a method. Absent params are an empty object. Errors have the
// code invalid_params and name the member in Data["field"]. A decoding error is reported
// alone. Otherwise all rules that Validate finds violated are reported, except advice, and
// Data["fields"] lists the members if there are several.
func Params[P any](raw []byte) (P, error) {
	var p P
	if len(raw) == 0 || raw[0] == 'n' {
		raw = []byte("{}")
	}
	if err := wire.UnmarshalStrict(raw, &p); err != nil {
		return p, invalid(err)
	}
	if v, ok := any(&p).(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return p, required(err)
		}
	}
	return p, nil
}

// required converts the result of Validate to the error for the caller, without advice.
func required(err error) error {
	var found *a2a.InvalidError
	if !errors.As(err, &found) {
		return err
	}
	var e *a2a.Error
	if err = found.Required(); errors.As(err, &e) {
		return e
	}
	return nil
}

func invalid(err error) error {
	var w *wire.Error
	if !errors.As(err, &w) || w.Syntax {
		return err
	}
	path := w.Path
	if path == "" {
		path = "params"
	}
	return a2a.Invalid(path, "%s", w.Rule)
}

// History applies historyLength to the messages of a task, oldest first: nil keeps all, n at
// most the newest n. The result is nil only if n and messages are nil, so that the member
// history is present, even if empty, when the client requested a length.
func History(messages []a2a.Message, n *int) []a2a.Message {
	if n == nil {
		return messages
	}
	if len(messages) > *n {
		messages = messages[len(messages)-*n:]
	}
	if messages == nil {
		messages = []a2a.Message{}
	}
	return messages
}
