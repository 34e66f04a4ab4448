package client

import (
	"bytes"
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
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Defaults of a [Config].
const (
	DefaultMaxResponseBytes = 128 << 20
	DefaultReconnects       = 12
)

// Config says which agent to talk to, and how. Only URL is required; zero
// fields take the documented default.
type Config struct {
	// URL is where JSON-RPC requests are posted: the url of the agent's card,
	// such as http://127.0.0.1:3773/. It must not carry credentials.
	URL string
	// Token, if set, is sent as a bearer token.
	Token string
	// HTTPClient sends the requests. It needs no Timeout: calls end with their
	// context, and a blocking send may take long. Default: a client that gives up
	// on dialling after 10 s and does not turn a redirected POST into a GET.
	HTTPClient *http.Client
	// Header is sent with every request.
	Header http.Header
	// MaxResponseBytes is the largest answer, and the largest single event of a
	// stream, that is read. Default 128 MiB.
	MaxResponseBytes int
	// Reconnects is how many attempts in a row a stream makes to get its
	// connection back before it gives up; an event that arrives starts the count
	// anew. Default 12, which is about a minute; negative is none.
	Reconnects int
	// OnReconnect, if set, is called before each of these attempts, by the
	// goroutine that ranges over the stream.
	OnReconnect func(Reconnect)
}

// Reconnect says that a stream has lost its connection and will try again.
type Reconnect struct {
	// TaskID is "" when the connection was lost before the task was known.
	TaskID string
	// Attempt counts from 1 since the last event.
	Attempt int
	// Delay is the pause before the attempt.
	Delay time.Duration
	// Err is why the connection ended.
	Err error
}

// Client talks to one agent. Make one with [New].
type Client struct {
	cfg Config
	url *url.URL
}

// New returns a client, or all that is wrong with cfg. It sends nothing.
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
		// The text of a parse error repeats the URL, which may carry a secret.
		errs = append(errs, errors.New("URL cannot be parsed"))
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		errs = append(errs, errors.New("URL must begin with http:// or https:// and name a host"))
	case u.User != nil:
		errs = append(errs, errors.New("URL must not carry credentials: use Token"))
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		errs = append(errs, errors.New("Token has a character that no header may carry"))
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

// URL is where requests are posted.
func (c *Client) URL() string { return c.url.String() }

// SendParams are the arguments of [Client.Send] and [Client.Stream].
type SendParams struct {
	// Message is what to say. An empty Role is that of the user; an empty ID is
	// made up. To retry after an answer was lost, pass the same message with the same
	// ID: [Text] and [UserMessage] make one that Holdfast recognises.
	Message       a2a.Message
	Configuration *a2a.MessageSendConfiguration
	Metadata      map[string]any
	// IdempotencyKey, if set, is sent in the header of that name: a server that
	// knows it takes the message once, however often it is sent with this key.
	// Stream then sends again when the connection is lost before an answer.
	IdempotencyKey string
}

// UserMessage returns a message of the user with a new id.
func UserMessage(parts ...a2a.Part) a2a.Message {
	return a2a.Message{ID: newID(), Role: a2a.RoleUser, Parts: parts}
}

// Text returns a message of the user that is one text.
func Text(text string) a2a.Message { return UserMessage(a2a.TextPart{Text: text}) }

func (p SendParams) encode() (json.RawMessage, error) {
	if p.Message.Role == "" {
		p.Message.Role = a2a.RoleUser
	}
	if p.Message.ID == "" {
		p.Message.ID = newID()
	}
	return encode(a2a.MessageSendParams{Message: p.Message, Configuration: p.Configuration, Metadata: p.Metadata})
}

// Send sends a message and returns the answer: an [*a2a.Task] or, from agents
// that keep no tasks, an [*a2a.Message]. Whether it waits for the task's end is up
// to Configuration.Blocking and to the server; the task may still be working.
func (c *Client) Send(ctx context.Context, p SendParams) (a2a.Event, error) {
	params, err := p.encode()
	if err != nil {
		return nil, err
	}
	raw, err := c.call(ctx, request{method: a2a.MethodSend, params: params, idempotencyKey: p.IdempotencyKey})
	if err != nil {
		return nil, err
	}
	event, err := a2a.DecodeEvent(raw)
	switch event.(type) {
	case *a2a.Task, *a2a.Message:
		if err == nil {
			return event, nil
		}
	}
	return nil, badResult(a2a.MethodSend, err)
}

// Task reads a task.
func (c *Client) Task(ctx context.Context, p a2a.TaskQueryParams) (*a2a.Task, error) {
	return result[a2a.Task](ctx, c, a2a.MethodGet, p)
}

// Cancel cancels a task and returns it as it then stands.
func (c *Client) Cancel(ctx context.Context, id string) (*a2a.Task, error) {
	return result[a2a.Task](ctx, c, a2a.MethodCancel, a2a.TaskIDParams{ID: id})
}

// DeleteTask deletes a finished task with all that belongs to it. A task that is not
// finished, or that has webhook events to deliver unless p.Force is set, is a conflict. An
// extension of A2A 0.3.
func (c *Client) DeleteTask(ctx context.Context, p a2a.DeleteTaskParams) error {
	_, err := result[map[string]string](ctx, c, a2a.MethodTasksDelete, p)
	return err
}

// Call calls any method that answers with one result and returns that, null
// included. A nil params sends none.
func (c *Client) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return c.call(ctx, request{method: method, params: params})
}

// result calls a method and decodes what it answers.
func result[T any](ctx context.Context, c *Client, method string, params any) (*T, error) {
	raw, err := encode(params)
	if err != nil {
		return nil, err
	}
	if raw, err = c.call(ctx, request{method: method, params: raw}); err != nil {
		return nil, err
	}
	v := new(T)
	if err := wire.Unmarshal(raw, v); err != nil {
		return nil, badResult(method, err)
	}
	return v, nil
}

func encode(params any) (json.RawMessage, error) {
	raw, err := wire.Marshal(params)
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "params cannot be encoded")
	}
	return bytes.TrimSpace(raw), nil
}

func badResult(method string, err error) error {
	return a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the result of %s is not what A2A 0.3 says", method)
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
