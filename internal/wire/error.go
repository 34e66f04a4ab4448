package wire

import (
	"errors"
	"strconv"
)

// Error names the member of a document that breaks a rule. Path, a space and Rule form a
// sentence: "params.message.parts is required".
type Error struct {
	Path string // dotted members and [indices]; "" is the document itself
	Rule string
	// Syntax is set if the text is not valid JSON.
	Syntax bool
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Rule
	}
	return e.Path + " " + e.Rule
}

// within prefixes the path of err by a member name or an index.
func within[K string | int](err error, key K) error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) || e.Syntax {
		return err
	}
	var head string
	switch k := any(key).(type) {
	case string:
		head = clip(k)
	case int:
		head = "[" + strconv.Itoa(k) + "]"
	}
	switch {
	case e.Path == "":
		e.Path = head
	case e.Path[0] == '[':
		e.Path = head + e.Path
	default:
		e.Path = head + "." + e.Path
	}
	return e
}
