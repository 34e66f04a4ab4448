package rpc

import (
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// maxID is the longest id, in bytes: it is repeated in every event of a stream.
const maxID = 1024

// ID is the literal of a request's id: a string, a number or null. An ID of
// length 0 was absent.
type ID []byte

// Request is one call. ID and Params share memory with the text it was parsed
// from.
type Request struct {
	ID     ID
	Method string
	// Params is the text of the params, empty when they are absent.
	Params []byte
}

// Parse reads one request. On error the request still has the ID that the answer
// is to bear, if one could be made out. Errors: parse_error, invalid_request.
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

// IsBatch reports whether data begins like a batch.
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

// ParseBatch returns the texts of the requests of a batch of 1 to limit. They
// share memory with data. Errors: parse_error, invalid_request.
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
		return nil, a2a.Errorf(a2a.CodeInvalidRequest, "the batch has %d requests, at most %d are taken", n, limit)
	}
	return items, nil
}

func malformed(err error, what string) error {
	var w *wire.Error
	if errors.As(err, &w) && !w.Syntax {
		if w.Path != "" {
			what = "member " + a2a.Quote(w.Path) + " of " + what
		}
		return a2a.Errorf(a2a.CodeInvalidRequest, "%s %s", what, w.Rule)
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

// text returns the string of a JSON literal.
func text(literal []byte) (string, bool) {
	var s string
	if len(literal) == 0 || literal[0] != '"' || wire.Unmarshal(literal, &s) != nil {
		return "", false
	}
	return s, true
}
