package wire

import (
	"errors"
	"strconv"
)

// Error says which member of a document broke which rule. Rule reads on after
// the path: "params.message.parts" + " " + "is required".
type Error struct {
	Path string // dotted members and [indices]; "" is the document itself
	Rule string
	// Syntax is set when the text is not JSON at all.
	Syntax bool
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Rule
	}
	return e.Path + " " + e.Rule
}

// In returns err with its path below name. It returns other errors unchanged.
func In(err error, name string) error { return within(err, name) }

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
