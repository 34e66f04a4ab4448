package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/config"
)

// Config configures a Client. URL or Card is required. Zero fields have the
// documented default.
type Config struct {
	// URL is the address of the agent. For [Discover] it is a base URL such as
	// https://agent.example.com/, the URL of the agent card, or an endpoint of the
	// agent. For [New] it is the endpoint. It must not contain credentials, see
	// Token.
	URL string
	// Card is the JSON of the agent card, if it is known. Discover then does not fetch the card.
	// URLs in it may be relative to URL.
	Card json.RawMessage
	// Version is the preferred protocol version, [Version03] or [Version10], and Transport the
	// preferred transport, [TransportJSONRPC] or [TransportREST]. The client uses the first
	// interface of the card that fits both, otherwise one that fits Version, otherwise one that
	// fits Transport, otherwise the first that it supports. Without a card, Version and Transport
	// describe the endpoint, by default 0.3 and JSON-RPC.
	Version, Transport string
	// VerifyCard is called with the JSON of every agent card before the client uses
	// it, if set. An error rejects the card. [VerifyCard] checks its signatures.
	VerifyCard func(ctx context.Context, card []byte) error
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
	MaxResponseBytes int `default:"128MiB" min:"1"`
	// Reconnects is the maximum number of consecutive attempts of a stream to
	// reconnect. A received event resets the count. Default 12, which take about a minute; a
	// negative value disables reconnects.
	Reconnects int `default:"12"`
	// OnReconnect, if set, is called before each attempt to reconnect, by the goroutine that ranges
	// over the stream.
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

// Client is a client of one agent. Create it with [Discover] or [New]. It is safe for
// concurrent use. It has many methods because it has one for each method of the protocol.
type Client struct {
	cfg     Config
	url     *url.URL // Config.URL, or the URL of the endpoint
	binding *binding
	card    atomic.Pointer[a2a.AgentCard] // nil before it is known
}

// ConfigError lists all problems of a [Config], each with its field, value and rule.
type ConfigError = config.Error

// New returns a client, or a [*ConfigError] with all problems of cfg. With cfg.Card the client uses
// an interface of the card, otherwise the endpoint at cfg.URL. New sends nothing, unless
// cfg.VerifyCard does.
func New(cfg Config) (*Client, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Card != nil {
		if err := c.useCard(context.Background(), cfg.Card, c.url); err != nil {
			return nil, err
		}
		return c, nil
	}
	c.binding = newBinding(a2a.AgentInterface{
		URL: cfg.URL, Transport: cmp.Or(cfg.Transport, TransportJSONRPC), ProtocolVersion: cmp.Or(cfg.Version, Version03),
	}, c.url)
	if c.binding == nil {
		return nil, a2a.Errorf(a2a.CodeInvalid, "Transport %s with Version %s is not supported", cfg.Transport, cfg.Version)
	}
	return c, nil
}

func newClient(cfg Config) (*Client, error) {
	u, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = defaultHTTPClient()
	}
	cfg.Header = cfg.Header.Clone()
	return &Client{cfg: cfg, url: u}, nil
}

// complete sets the defaults of c. It returns the parsed URL, or all problems of c.
func (c *Config) complete() (*url.URL, error) {
	e := config.Apply("client", c)
	u, err := url.Parse(c.URL)
	switch { // without the URL, which may contain a secret
	case err == nil && c.URL == "" && c.Card != nil:
	case err != nil:
		e.Reject(true, "URL", nil, "cannot be parsed")
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		e.Reject(true, "URL", nil, "must start with http:// or https:// and name a host")
	case u.User != nil:
		e.Reject(true, "URL", nil, "must not contain credentials")
	}
	invalid := strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f })
	e.Reject(invalid, "Token", nil, "contains a character that is not allowed in a header")
	e.Reject(c.Version != "" && c.Version != Version03 && c.Version != Version10, "Version", c.Version, "0.3 or 1.0")
	e.Reject(c.Transport != "" && c.Transport != TransportJSONRPC && c.Transport != TransportREST, "Transport", c.Transport, "JSONRPC or HTTP+JSON")
	return u, e.OrNil()
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

// Interface returns the interface of the agent that the client uses. Its protocol version is
// [Version03] or [Version10].
func (c *Client) Interface() a2a.AgentInterface {
	i := c.binding.AgentInterface
	i.URL = c.binding.url.String()
	return i
}

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
	if p.Configuration == nil {
		p.Configuration = new(a2a.MessageSendConfiguration) // A2A 0.3 has no default for Blocking
	}
	return c.encode(a2a.MessageSendParams{Message: p.Message, Configuration: p.Configuration, Metadata: p.Metadata})
}

// Send sends a message and returns an [*a2a.Task] or, from agents without tasks,
// an [*a2a.Message]. Configuration.Blocking and the server determine whether it
// waits for the task to finish; the returned task may still be working. With an idempotency
// key, Send resends the same message if the connection is lost, as often as a stream reconnects.
func (c *Client) Send(ctx context.Context, p SendParams) (a2a.Event, error) {
	params, err := c.encodeSend(p)
	if err != nil {
		return nil, err
	}
	r := newRequest(a2a.MethodSend, params)
	r.idempotencyKey = p.IdempotencyKey
	var raw json.RawMessage
	for f := (&follower{c: c, send: r}); ; {
		if raw, err = c.call(ctx, r); err == nil {
			break
		}
		if a2a.CodeOf(err) != a2a.CodeUnavailable || !f.shouldRetry(ctx, err) {
			return nil, err
		}
		if err = f.pause(ctx, err); err != nil {
			return nil, err
		}
	}
	event, err := c.binding.codec.DecodeEvent(raw)
	switch event.(type) {
	case *a2a.Task, *a2a.Message:
		if err == nil {
			return event, nil
		}
	}
	return nil, c.badResult(a2a.MethodSend, err)
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
// an extension of A2A.
func (c *Client) DeleteTask(ctx context.Context, p a2a.DeleteTaskParams) error {
	_, err := result[a2a.DeleteTaskResult](ctx, c, a2a.MethodTasksDelete, p)
	return err
}

// Invoke calls a method with params of package a2a and decodes the result into the value that
// result points to. method is the name of the method in A2A 0.3, such as [a2a.MethodGet].
// Invoke also returns the result as the agent sent it. For each method of A2A, Client has a
// more specific function.
func (c *Client) Invoke(ctx context.Context, method string, params, result any) (json.RawMessage, error) {
	raw, err := c.encode(params)
	if err != nil {
		return nil, err
	}
	if raw, err = c.call(ctx, newRequest(method, raw)); err != nil {
		return nil, err
	}
	if method == a2a.MethodPushList && string(raw) == "null" {
		raw = json.RawMessage("[]") // some servers encode an empty list as null
	}
	if err := c.binding.codec.DecodeResult(raw, result); err != nil {
		return nil, c.badResult(method, err)
	}
	return raw, nil
}

// Call calls any method with a single result and returns the result, which may
// be null. Params and result are JSON in the version of [Client.Interface]. A
// method name of A2A 0.3 is replaced by the name in that version; other names are sent
// unchanged. If params is nil, the request has no params.
func (c *Client) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return c.call(ctx, newRequest(method, params))
}

// result calls a method and decodes its result.
func result[T any](ctx context.Context, c *Client, method string, params any) (*T, error) {
	v := new(T)
	if _, err := c.Invoke(ctx, method, params, v); err != nil {
		return nil, err
	}
	return v, nil
}

func (c *Client) encode(params any) (json.RawMessage, error) {
	raw, err := c.binding.codec.EncodeParams(params)
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "params cannot be encoded")
	}
	return raw, nil
}

func (c *Client) badResult(method string, err error) error {
	return a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the result of %s is not valid A2A %s", method, c.binding.ProtocolVersion)
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
