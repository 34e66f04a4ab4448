package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// rest is the transport HTTP+JSON. Params are in the path, the query and the body.
type rest struct {
	url    *url.URL
	tenant string // "" if paths have none
	codec  interface {
		Path(m *a2a.Method) string
		DecodeHTTPError(raw []byte) (*a2a.Error, error)
	}
}

func (t rest) build(r *request) (verb, target string, body []byte, err error) {
	if r.method == nil || r.method.Path == "" {
		return "", "", nil, a2a.Errorf(a2a.CodeMethodNotFound, "the method %s has no path over HTTP+JSON", a2a.Quote(r.name))
	}
	path := &pathBuilder{pattern: t.codec.Path(r.method)}
	inQuery := r.method.HTTPMethod != http.MethodPost && r.method.HTTPMethod != http.MethodPatch
	query := url.Values{}
	body = []byte("{")
	if r.params != nil {
		err = wire.Members(r.params, func(name, value []byte) error {
			known, err := path.fill(string(name), value)
			switch {
			case err != nil || known:
				return err
			case inQuery:
				return addQuery(query, string(name), value)
			}
			if len(body) > 1 {
				body = append(body, ',')
			}
			body = append(wire.AppendString(body, string(name)), ':')
			body = append(body, value...)
			return nil
		})
	}
	if err != nil {
		return "", "", nil, a2a.Wrap(a2a.CodeInvalid, err, "params")
	}
	if err := path.missing(); err != nil {
		return "", "", nil, err
	}
	u := *t.url
	base := strings.TrimSuffix(u.EscapedPath(), "/")
	if t.tenant != "" {
		base += "/" + url.PathEscape(t.tenant)
	}
	u.RawPath = base + path.pattern
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return "", "", nil, a2a.Wrap(a2a.CodeInvalid, err, "path")
	}
	if u.RawQuery = query.Encode(); inQuery {
		return r.method.HTTPMethod, u.String(), nil, nil
	}
	return r.method.HTTPMethod, u.String(), append(body, '}'), nil
}

// pathBuilder replaces the variables of a pattern by params.
type pathBuilder struct{ pattern string }

// fill replaces a variable, and reports whether the pattern has it.
func (p *pathBuilder) fill(name string, value []byte) (known bool, err error) {
	variable := "{" + wire.Camel(name) + "}"
	if !strings.Contains(p.pattern, variable) {
		return false, nil
	}
	var text string
	if err := wire.Unmarshal(value, &text); err != nil || text == "" || text == "." || text == ".." {
		return true, &wire.Error{Path: name, Rule: "must be a string that can be a segment of a path"}
	}
	p.pattern = strings.Replace(p.pattern, variable, url.PathEscape(text), 1)
	return true, nil
}

// missing returns an error if a variable has no value. Escaped values have no braces.
func (p *pathBuilder) missing() error {
	_, rest, found := strings.Cut(p.pattern, "{")
	if !found {
		return nil
	}
	name, _, _ := strings.Cut(rest, "}")
	return a2a.Invalid(name, "is missing")
}

// addQuery adds a param to a query: the items of an array as values of the parameter, an object as
// JSON.
func addQuery(query url.Values, name string, value []byte) error {
	switch value[0] {
	case 'n':
	case '"':
		var text string
		if err := wire.Unmarshal(value, &text); err != nil {
			return err
		}
		query.Add(name, text)
	case '[':
		return wire.Items(value, func(_ int, item []byte) error { return addQuery(query, name, item) })
	default:
		query.Add(name, string(value))
	}
	return nil
}

// parse accepts an empty text as null.
func (t rest) parse(text []byte) (json.RawMessage, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return json.RawMessage("null"), nil
	}
	failed, err := t.codec.DecodeHTTPError(text)
	if err == nil {
		return nil, failed
	}
	var w *wire.Error
	if errors.As(err, &w) && w.Syntax {
		return nil, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the response is not JSON: it starts with %s", start(text))
	}
	return text, nil
}
