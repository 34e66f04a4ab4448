package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
)

// Defaults of a [Config].
const (
	DefaultMaxResponseBytes = 128 << 20
	DefaultReconnects       = 12
)

// Config configures a Client. Only URL is required. Zero fields have the
// documented default.
type Config struct {
	// URL is the JSON-RPC endpoint: the url of the agent's card, such as
	// http://127.0.0.1:3773/. It must not contain credentials.
	URL string
	// Token is sent as a bearer token, if set.
	Token string
	// HTTPClient sends the requests. It should have no Timeout, since a blocking
	// send may take long and calls end with their context. Default: a client with
	// a dial timeout of 10 s that does not turn a redirected POST into a GET.
	HTTPClient *http.Client
	// Header is sent with every request.
	Header http.Header
	// MaxResponseBytes is the maximum size of a response, and of a single event of
	// a stream. Default 128 MiB.
	MaxResponseBytes int
	// Reconnects is the maximum number of consecutive attempts of a stream to
	// reconnect. A received event resets the count. Default 12, about a minute; a
	// negative value disables reconnects.
	Reconnects int
	// OnReconnect is called before each of these attempts, if set, by the goroutine
	// that ranges over the stream.
	OnReconnect func(Reconnect)
}

// Reconnect describes an attempt of a stream to reconnect.
type Reconnect struct {
	// TaskID is "" if the connection was lost before the task was known.
	TaskID string
	// Attempt is the number of the attempt since the last event, from 1.
	Attempt int
	// Delay is the backoff before the attempt.
	Delay time.Duration
	// Err is the error that ended the connection.
	Err error
}

// Client is a client of one agent. Create it with [New]. It is safe for
// concurrent use.
type Client struct {
	cfg   Config
	url   *url.URL
	codec v03.Codec
}

// New returns a client, or an error with all problems of cfg. It sends nothing.
func New(cfg Config) (*Client, error) {
	u, err := cfg.validate()
	if err != nil {
		return nil, a2a.Errorf(a2a.CodeInvalid, "client config: %s", err)
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = defaultHTTPClient()
	}
	if cfg.MaxResponseBytes == 0 {
		cfg.MaxResponseBytes = DefaultMaxResponseBytes
	}
	if cfg.Reconnects == 0 {
		cfg.Reconnects = DefaultReconnects
	}
	cfg.Header = cfg.Header.Clone()
	return &Client{cfg: cfg, url: u}, nil
}

func (c Config) validate() (*url.URL, error) {
	var errs []error
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		// The text of a parse error contains the URL, which may contain a secret.
		errs = append(errs, errors.New("URL cannot be parsed"))
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		errs = append(errs, errors.New("URL must start with http:// or https:// and name a host"))
	case u.User != nil:
		errs = append(errs, errors.New("URL must not contain credentials: use Token"))
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		errs = append(errs, errors.New("Token contains a character that is not allowed in a header"))
	}
	if c.MaxResponseBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxResponseBytes is %d, want more than 0", c.MaxResponseBytes))
	}
	return u, errors.Join(errs...)
}

func defaultHTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dialer.DialContext,
			ForceAttemptHTTP2:     true,
			MaxIdleConnsPerHost:   16,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.Method != via[0].Method || len(via) >= 5 {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

// URL returns the URL of the JSON-RPC endpoint.
func (c *Client) URL() string { return c.url.String() }

// SendParams are the arguments of [Client.Send] and [Client.Stream].
type SendParams struct {
	// Message is the message to send. An empty Role means the user role, an empty
	// ID a new random one. To retry after a lost response, pass the same message
	// with the same ID: Holdfast recognizes it. [Text] and [UserMessage] set an ID.
	Message       a2a.Message
	Configuration *a2a.MessageSendConfiguration
	Metadata      map[string]any
	// IdempotencyKey is sent in the Idempotency-Key header, if set. A server that
	// supports it accepts the message once, even if it is sent several times.
	// Stream then resends the message if the connection is lost before a response.
	IdempotencyKey string
}

// UserMessage returns a message with the user role and a new id.
func UserMessage(parts ...a2a.Part) a2a.Message {
	return a2a.Message{ID: newID(), Role: a2a.RoleUser, Parts: parts}
}

// Text returns a message with the user role, one text part and a new id.
func Text(text string) a2a.Message { return UserMessage(a2a.TextPart{Text: text}) }

func (c *Client) encodeSend(p SendParams) (json.RawMessage, error) {
	if p.Message.Role == "" {
		p.Message.Role = a2a.RoleUser
	}
	if p.Message.ID == "" {
		p.Message.ID = newID()
	}
	return c.encode(a2a.MessageSendParams{Message: p.Message, Configuration: p.Configuration, Metadata: p.Metadata})
}

// Send sends a message and returns an [*a2a.Task] or, from agents without tasks,
// an [*a2a.Message]. Configuration.Blocking and the server determine whether it
// waits for the task to finish; the returned task may still be working.
func (c *Client) Send(ctx context.Context, p SendParams) (a2a.Event, error) {
	params, err := c.encodeSend(p)
	if err != nil {
		return nil, err
	}
	raw, err := c.call(ctx, request{method: a2a.MethodSend, params: params, idempotencyKey: p.IdempotencyKey})
	if err != nil {
		return nil, err
	}
	event, err := c.codec.DecodeEvent(raw)
	switch event.(type) {
	case *a2a.Task, *a2a.Message:
		if err == nil {
			return event, nil
		}
	}
	return nil, badResult(a2a.MethodSend, err)
}

// Task returns a task.
func (c *Client) Task(ctx context.Context, p a2a.TaskQueryParams) (*a2a.Task, error) {
	return result[a2a.Task](ctx, c, a2a.MethodGet, p)
}

// Cancel cancels a task and returns its new state.
func (c *Client) Cancel(ctx context.Context, id string) (*a2a.Task, error) {
	return result[a2a.Task](ctx, c, a2a.MethodCancel, a2a.TaskIDParams{ID: id})
}

// DeleteTask deletes a finished task with all its data. The error is a conflict if the task
// is not finished, or has undelivered webhook events and p.Force is not set. The method is
// an extension of A2A 0.3.
func (c *Client) DeleteTask(ctx context.Context, p a2a.DeleteTaskParams) error {
	_, err := result[map[string]string](ctx, c, a2a.MethodTasksDelete, p)
	return err
}

// Call calls any method with a single result and returns the result, which may
// be null. If params is nil, the request has no params.
func (c *Client) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return c.call(ctx, request{method: method, params: params})
}

// result calls a method and decodes its result.
func result[T any](ctx context.Context, c *Client, method string, params any) (*T, error) {
	raw, err := c.encode(params)
	if err != nil {
		return nil, err
	}
	if raw, err = c.call(ctx, request{method: method, params: raw}); err != nil {
		return nil, err
	}
	v := new(T)
	if err := c.codec.DecodeResult(raw, v); err != nil {
		return nil, badResult(method, err)
	}
	return v, nil
}

func (c *Client) encode(params any) (json.RawMessage, error) {
	raw, err := c.codec.EncodeParams(params)
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "params cannot be encoded")
	}
	return raw, nil
}

func badResult(method string, err error) error {
	return a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the result of %s is not valid A2A 0.3", method)
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
