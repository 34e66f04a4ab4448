package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// request is one call of a method.
type request struct {
	name           string          // of the method, as the caller of this package wrote it
	method         *a2a.Method     // nil if it is not known
	params         json.RawMessage // nil leaves them out
	idempotencyKey string
	lastEventID    string
	stream         bool
}

func newRequest(name string, params json.RawMessage) *request {
	r := &request{name: name, params: params}
	if m, ok := a2a.MethodByName(name); ok {
		r.method = &m
	}
	return r
}

// call sends a request and returns the result of its response.
func (c *Client) call(ctx context.Context, r *request) (json.RawMessage, error) {
	resp, err := c.post(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if isStream(resp) {
		return nil, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the response to %s is a stream", r.name)
	}
	raw, err := c.readResult(ctx, resp)
	return raw, c.explain(r.method, err)
}

// explain returns the error for a method that the agent does not have, and other errors
// unchanged.
func (c *Client) explain(m *a2a.Method, err error) error {
	var e *a2a.Error
	if m == nil || !m.Extension || !errors.As(err, &e) {
		return err
	}
	// Over JSON-RPC a status is about the endpoint, not the method.
	status, _ := e.Data["httpStatus"].(float64)
	unknown := e.Code == a2a.CodeMethodNotFound && status == 0
	if c.binding.Transport == TransportREST {
		noPath := e.Code == a2a.CodeInvalidAgentResponse && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed)
		unknown = e.Code == a2a.CodeMethodNotFound || noPath
	}
	if !unknown {
		return err
	}
	return &a2a.Error{
		Code: a2a.CodeMethodNotFound, Data: e.Data, Err: err,
		Message: "the agent does not support " + m.Name + ", which is not a method of every A2A agent",
	}
}

// post sends a request. The caller must close the body of the response.
func (c *Client) post(ctx context.Context, r *request) (*http.Response, error) {
	if r.params != nil {
		if err := wire.Valid(r.params); err != nil {
			return nil, a2a.Errorf(a2a.CodeInvalid, "params: %s", err)
		}
	}
	verb, url, body, err := c.binding.build(r)
	if err != nil {
		return nil, err
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := c.newRequest(ctx, verb, url, reader)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	if r.stream {
		req.Header.Set("Accept", "text/event-stream, application/json")
	}
	if c.binding.ProtocolVersion != Version03 {
		// The header is not sent to servers of 0.3: they ignore it, or send errors in the form of
		// 1.0.
		req.Header.Set(versionHeader, c.binding.ProtocolVersion)
	}
	if r.idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.idempotencyKey)
	} else if r.method != nil && r.method.Idempotent {
		// net/http does not send a nil header, but it then repeats the POST if the server has closed the reused
		// connection.
		req.Header["X-Idempotency-Key"] = nil
	}
	if r.lastEventID != "" {
		req.Header.Set("Last-Event-ID", r.lastEventID)
	}
	return c.do(req)
}

// versionHeader names the protocol version of a request.
const versionHeader = "A2A-Version"

func (c *Client) newRequest(ctx context.Context, method, url string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "request cannot be made")
	}
	maps.Copy(req.Header, c.cfg.Header)
	req.Header = req.Header.Clone()
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	return req, nil
}

func (c *Client) do(req *http.Request) (*http.Response, error) {
	resp, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		return nil, networkError(req, err)
	}
	return resp, nil
}

// read returns the body of a response, or an error if it exceeds the limit.
func (c *Client) read(ctx context.Context, resp *http.Response) ([]byte, error) {
	limit := int64(c.cfg.MaxResponseBytes)
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, connectionLost(ctx, err)
	}
	if int64(len(body)) > limit {
		return nil, tooLarge("response", c.cfg.MaxResponseBytes)
	}
	return body, nil
}

// readResult reads a response that is not a stream.
func (c *Client) readResult(ctx context.Context, resp *http.Response) (json.RawMessage, error) {
	body, err := c.read(ctx, resp)
	if err != nil && resp.StatusCode/100 == 2 {
		return nil, err
	}
	ok := resp.StatusCode/100 == 2
	result, parseErr := c.binding.parse(body)
	if ok {
		return result, parseErr
	}
	status := statusError(resp)
	var agentErr *a2a.Error
	if !errors.As(parseErr, &agentErr) || agentErr.Code == a2a.CodeInvalidAgentResponse {
		return nil, status
	}
	if agentErr.Code == a2a.CodeInternal {
		agentErr.Code = status.Code // the status is more specific than an unknown number
	}
	if agentErr.Data == nil {
		agentErr.Data = make(map[string]any)
	}
	maps.Copy(agentErr.Data, status.Data)
	return nil, agentErr
}

func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode == http.StatusOK && kind == "text/event-stream"
}
