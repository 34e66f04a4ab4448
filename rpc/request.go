package rpc

import (
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// maxID is the maximum length of an id in bytes. A stream repeats the id in every event.
const maxID = 1024

// ID is the JSON literal of a request's id: a string, a number or null. An empty ID means
// that the request has none.
type ID []byte

// Request is a JSON-RPC request. ID and Params refer to the memory of the parsed text.
type Request struct {
	ID     ID
	Method string
	// Params is the JSON text of the params, empty if they are absent.
	Params []byte
}

// Parse reads one request. If it returns an error, the request has the ID for the response
// if the ID is valid. Errors: parse_error, invalid_request.
func Parse(data []byte) (Request, error) {
	var r Request
	var version, id, method []byte
	err := wire.Members(data, func(name, value []byte) error {
		switch string(name) {
		case "jsonrpc":
			version = value
		case "id":
			id = value
		case "method":
			method = value
		case "params":
			r.Params = value
		}
		return nil
	})
	if err != nil {
		return Request{}, malformed(err, "the request")
	}
	if r.ID, err = checkID(id); err != nil {
		return r, err
	}
	if string(version) != `"2.0"` {
		if v, ok := text(version); !ok || v != "2.0" {
			return r, a2a.Errorf(a2a.CodeInvalidRequest, `jsonrpc must be the string "2.0"`)
		}
	}
	if len(method) == 0 {
		return r, a2a.Errorf(a2a.CodeInvalidRequest, "method is required")
	}
	name, ok := text(method)
	if !ok {
		return r, a2a.Errorf(a2a.CodeInvalidRequest, "method must be a string")
	}
	r.Method = name
	return r, nil
}

// IsBatch reports whether the first non-blank character of data is "[".
func IsBatch(data []byte) bool {
	for _, c := range data {
		switch c {
		case ' ', '\t', '\n', '\r':
		default:
			return c == '['
		}
	}
	return false
}

// ParseBatch returns the texts of the requests of a batch, at least one and at most limit.
// They refer to the memory of data. Errors: parse_error, invalid_request.
func ParseBatch(data []byte, limit int) ([][]byte, error) {
	var items [][]byte
	n := 0
	err := wire.Items(data, func(_ int, value []byte) error {
		if n++; n <= limit {
			items = append(items, value)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, malformed(err, "the batch")
	case n == 0:
		return nil, a2a.Errorf(a2a.CodeInvalidRequest, "the batch is empty")
	case n > limit:
		return nil, a2a.Errorf(a2a.CodeInvalidRequest, "the batch has %d requests, want at most %d", n, limit)
	}
	return items, nil
}

func malformed(err error, subject string) error {
	var w *wire.Error
	if errors.As(err, &w) && !w.Syntax {
		if w.Path != "" {
			subject = "member " + a2a.Quote(w.Path) + " of " + subject
		}
		return a2a.Errorf(a2a.CodeInvalidRequest, "%s %s", subject, w.Rule)
	}
	return a2a.Errorf(a2a.CodeParse, "%s", err)
}

func checkID(id []byte) (ID, error) {
	switch {
	case len(id) == 0:
		return nil, nil
	case len(id) > maxID:
		return nil, a2a.Errorf(a2a.CodeInvalidRequest, "id is longer than %d bytes", maxID)
	}
	switch id[0] {
	case '{', '[', 't', 'f':
		return nil, a2a.Errorf(a2a.CodeInvalidRequest, "id must be a string, a number or null")
	case '"':
		var s string
		if err := wire.UnmarshalStrict(id, &s); err != nil {
			return nil, a2a.Errorf(a2a.CodeInvalidRequest, "id %s", err)
		}
	}
	return id, nil
}

// text returns the value of a JSON string literal.
func text(literal []byte) (string, bool) {
	var s string
	if len(literal) == 0 || literal[0] != '"' || wire.Unmarshal(literal, &s) != nil {
		return "", false
	}
	return s, true
}
