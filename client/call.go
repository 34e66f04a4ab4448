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

// request is one JSON-RPC request.
type request struct {
	method         string
	params         json.RawMessage // nil leaves the member out
	idempotencyKey string
	lastEventID    string
	stream         bool
}

// requestID is the JSON-RPC id of all requests. Each request has its own HTTP
// exchange, so responses cannot be confused.
const requestID = 1

func (r request) body() ([]byte, error) {
	if r.params != nil {
		if err := wire.Valid(r.params); err != nil {
			return nil, a2a.Errorf(a2a.CodeInvalid, "params: %s", err)
		}
	}
	body, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      int             `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params,omitempty"`
	}{"2.0", requestID, r.method, r.params})
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "request cannot be encoded")
	}
	return body, nil
}

// call sends a request and returns the result of its response.
func (c *Client) call(ctx context.Context, r request) (json.RawMessage, error) {
	resp, err := c.post(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if isStream(resp) {
		return nil, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the response to %s is a stream", r.method)
	}
	return c.readResult(ctx, resp)
}

// post sends a request. The caller must close the body of the response.
func (c *Client) post(ctx context.Context, r request) (*http.Response, error) {
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	req, err := c.newRequest(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if r.stream {
		req.Header.Set("Accept", "text/event-stream, application/json")
	}
	if r.idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.idempotencyKey)
	}
	if r.lastEventID != "" {
		req.Header.Set("Last-Event-ID", r.lastEventID)
	}
	return c.do(req)
}

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
	if err != nil && resp.StatusCode == http.StatusOK {
		return nil, err
	}
	result, rpcErr := c.parseResponse(body)
	if resp.StatusCode == http.StatusOK {
		return result, rpcErr
	}
	status := statusError(resp)
	var agentErr *a2a.Error
	if !errors.As(rpcErr, &agentErr) || agentErr.Code == a2a.CodeInvalidAgentResponse {
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

// response is a JSON-RPC response. Result is nil if the member is missing, and
// "null" if it is null.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// parseResponse returns the result of a JSON-RPC response, or its error.
func (c *Client) parseResponse(body []byte) (json.RawMessage, error) {
	var r response
	err := json.Unmarshal(body, &r)
	var failed *a2a.Error
	if err == nil && len(r.Error) > 0 && string(r.Error) != "null" {
		failed, err = c.codec.DecodeError(r.Error)
	}
	switch {
	case err != nil:
		return nil, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the response is not JSON-RPC: it starts with %s", a2a.Quote(string(body[:min(len(body), 65)])))
	case failed != nil:
		return nil, failed
	case r.Version != "2.0" || r.Result == nil:
		return nil, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the response is not JSON-RPC: it has neither result nor error")
	case string(r.ID) != "1":
		return nil, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the response is for another request: its id is %s", a2a.Quote(string(r.ID)))
	}
	return r.Result, nil
}

func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode == http.StatusOK && kind == "text/event-stream"
}
