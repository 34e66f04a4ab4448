package client

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/holdfast-dev/holdfast/a2a"
)

// jsonRPC is the JSON-RPC transport.
type jsonRPC struct {
	url   *url.URL
	codec interface {
		MethodName(m *a2a.Method) string
		DecodeError(raw []byte) (*a2a.Error, error)
	}
}

// requestID is the JSON-RPC id of all requests. Each request has its own HTTP
// exchange, so responses cannot be confused.
const requestID = 1

func (t jsonRPC) build(r *request) (verb, target string, body []byte, err error) {
	name := r.name
	if r.method != nil && name == r.method.Name {
		name = t.codec.MethodName(r.method)
	}
	body, err = json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      int             `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params,omitempty"`
	}{"2.0", requestID, name, r.params})
	if err != nil {
		return "", "", nil, a2a.Wrap(a2a.CodeInvalid, err, "request cannot be encoded")
	}
	return http.MethodPost, t.url.String(), body, nil
}

// response is a JSON-RPC response. Result is nil if the member is missing.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

func (t jsonRPC) parse(text []byte) (json.RawMessage, error) {
	var r response
	err := json.Unmarshal(text, &r)
	var failed *a2a.Error
	if err == nil && len(r.Error) > 0 && string(r.Error) != "null" {
		failed, err = t.codec.DecodeError(r.Error)
	}
	switch {
	case err != nil:
		return nil, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the response is not JSON-RPC: it starts with %s", start(text))
	case failed != nil:
		return nil, failed
	case r.Version != "2.0":
		return nil, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the response is not JSON-RPC: it has neither result nor error")
	case string(r.ID) != "1":
		return nil, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the response is for another request: its id is %s", a2a.Quote(string(r.ID)))
	case r.Result == nil:
		return json.RawMessage("null"), nil // some servers omit it
	}
	return r.Result, nil
}

// start returns the start of a text for an error message.
func start(text []byte) string { return a2a.Quote(string(text[:min(len(text), 65)])) }
