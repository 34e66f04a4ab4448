package v03

import (
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Version is the version of the protocol, as agent cards tell it.
const Version = "0.3.0"

// MetadataReceived is the member of a status update's metadata that holds the
// id of the client's message that joined the task with it.
const MetadataReceived = "receivedMessageId"

// Params reads the params of a method; absent params are an empty object. Errors
// have the code invalid_params and name the member in Data["field"]. What cannot be
// read is told alone; of what can be, every rule that its Validate finds broken,
// advice aside, with all members in Data["fields"] if there are several.
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

// required returns what Validate found as the error for the caller, without what
// is only advice.
func required(err error) error {
	var broken *a2a.InvalidError
	if !errors.As(err, &broken) {
		return err
	}
	var told *a2a.Error
	if err = broken.Required(); errors.As(err, &told) {
		return told
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

// History applies historyLength to a task's messages, oldest first: nil keeps
// all, n at most the newest n. The result is nil only if there was no limit and
// there are no messages, so that a client that asked for a length is told the
// member history even when it is empty.
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
