package loadgen

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Scenario is a kind of request.
type Scenario string

// The scenarios.
const (
	// Send is a blocking message/send. The response must be a completed Task.
	Send Scenario = "send"
	// SendGet is a non-blocking message/send followed by at least one tasks/get, until the task is
	// completed. The pauses between reads start at 1 ms and double up to 32 ms.
	SendGet Scenario = "send-get"
	// Stream is a message/stream that is read to its end. The last event must be final and complete
	// the task.
	Stream Scenario = "stream"
	// Get is a tasks/get of one of the tasks that were created before the measurement.
	Get Scenario = "get"
	// List is a tasks/list (an extension of A2A 0.3) with a page size of 20. The result must be an
	// array of 1 to 20 tasks, or an object with such an array as member "tasks".
	List Scenario = "list"
	// Contexts is a contexts/list (an extension of A2A 0.3) with a page size of 20. The result must
	// have 1 to 20 "contexts". In turn, it lists all contexts, active ones, those with CommonTag,
	// those with both tags, and all by name. Lists not by name are sorted by update time, newest
	// first.
	Contexts Scenario = "contexts"
	// Echo posts the body of Send to a server that responds with the same JSON value: the baseline
	// of HTTP and JSON.
	Echo Scenario = "echo"
)

// Scenarios returns all scenarios in the order of a report.
func Scenarios() []Scenario {
	return []Scenario{Send, SendGet, Stream, Get, List, Contexts, Echo}
}

// Tags by which [Contexts] filters. To show the cost of a filter, many contexts should have
// CommonTag, and few of those the other tag too.
const (
	CommonTag = "bench"
	RareTag   = "bench-rare"
)

// Defaults and limits of a [Config].
const (
	DefaultConcurrency  = 64
	DefaultDuration     = 5 * time.Second
	DefaultPayloadBytes = 100
	DefaultTimeout      = 30 * time.Second
	DefaultTasks        = 256

	maxConcurrency  = 1 << 16 // the worker's part of a message id
	maxPayloadBytes = 64 << 20
	maxGRPCPayload  = 15 << 10 // the message must fit into one frame
)

// Config configures a measurement. Zero fields have the documented default. Only URL is required.
type Config struct {
	// URL is the http or https URL to which JSON-RPC requests are posted, or the base of REST
	// paths. Required.
	URL string
	// Binding is the protocol version and the transport; empty means [JSONRPC03].
	Binding Binding
	// Scenario is the kind of request; empty means [Send].
	Scenario Scenario
	// Concurrency is the number of workers and connections; 0 means
	// [DefaultConcurrency].
	Concurrency int
	// Duration is the length of the window; 0 means [DefaultDuration], or no limit if Requests is
	// set.
	Duration time.Duration
	// Requests ends the window after this number of requests; 0 means no such limit.
	Requests int
	// PayloadBytes is the size of the text in each message; 0 means [DefaultPayloadBytes]. Each
	// worker has a copy.
	PayloadBytes int
	// WarmUp is the time that the loop runs before the window; 0 means none.
	WarmUp time.Duration
	// Timeout is the maximum duration of a call; 0 means [DefaultTimeout]. A call may take up to a
	// tenth longer.
	Timeout time.Duration
	// Tasks is the number of tasks that [Get], [List] and [Contexts] create beforehand, by blocking
	// sends; 0 means [DefaultTasks]. For every tenth one, [Contexts] also creates a context with a
	// name and both tags.
	Tasks int
	// Token, if set, is sent as a bearer token. Errors do not contain it.
	Token string
	// Header is sent with every request. It must not set Host, Content-Type and Content-Length. It
	// may replace Accept and Authorization.
	Header http.Header
	// OnStart, if not nil, is called once when the window starts, by a goroutine of Run, so that
	// the caller can read its own meters. Run returns only after OnStart has returned.
	OnStart func()
}

func (c Config) withDefaults() Config {
	if c.Scenario == "" {
		c.Scenario = Send
	}
	if c.Binding == "" {
		c.Binding = JSONRPC03
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Duration == 0 && c.Requests == 0 {
		c.Duration = DefaultDuration
	}
	if c.PayloadBytes == 0 {
		c.PayloadBytes = DefaultPayloadBytes
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Tasks == 0 {
		c.Tasks = DefaultTasks
	}
	return c
}

// validate returns all problems of c, joined, and the parsed URL.
func (c Config) validate() (*url.URL, error) {
	var errs []error
	problem := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("loadgen: "+format, args...))
		}
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		// The text of a parse error repeats the URL, which may contain a secret.
		problem(true, "url cannot be parsed")
	default:
		problem(u.Scheme != "http" && u.Scheme != "https" || u.Host == "", "url must be http://host or https://host")
		problem(u.User != nil, "url must not carry credentials: use a token")
	}
	problem(!slices.Contains(Bindings(), c.Binding), "unknown binding %q, want one of %v", c.Binding, Bindings())
	problem(c.Binding != JSONRPC03 && (c.Scenario == Contexts || c.Scenario == Echo), "scenario %s needs the binding %s", c.Scenario, JSONRPC03)
	problem(c.Binding == GRPC10 && !slices.Contains([]Scenario{Send, SendGet, Get}, c.Scenario), "scenario %s is not available over gRPC", c.Scenario)
	problem(c.Binding == GRPC10 && c.PayloadBytes > maxGRPCPayload, "payload of %d bytes is larger than %d, the maximum over gRPC", c.PayloadBytes, maxGRPCPayload)
	problem(!slices.Contains(Scenarios(), c.Scenario), "unknown scenario %q, want one of %v", c.Scenario, Scenarios())
	problem(c.Concurrency < 0 || c.Concurrency > maxConcurrency, "concurrency %d is outside 1..%d", c.Concurrency, maxConcurrency)
	problem(c.Duration < 0, "duration %v is negative", c.Duration)
	problem(c.Requests < 0, "requests %d is negative", c.Requests)
	problem(c.PayloadBytes < 0 || c.PayloadBytes > maxPayloadBytes, "payload of %d bytes is outside 1..%d", c.PayloadBytes, maxPayloadBytes)
	problem(c.WarmUp < 0, "warm-up %v is negative", c.WarmUp)
	problem(c.Timeout < 0, "timeout %v is negative", c.Timeout)
	problem(c.Tasks < 0, "tasks %d is negative", c.Tasks)
	problem(!printable(c.Token), "token has a character that no header may carry")
	for name, values := range c.Header {
		problem(!headerName(name), "header name %q is not allowed", name)
		for _, v := range values {
			problem(!printable(v), "header %s has a character that no header may carry", name)
		}
	}
	return u, errors.Join(errs...)
}

func printable(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// headerName reports whether name is a valid header name. It is false for headers that frame the
// request, which only the generator may write.
func headerName(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "", "Host", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Expect", "Upgrade", "Te", "Trailer", "Accept-Encoding":
		return false
	}
	const others = "!#$%&'*+-.^_`|~"
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune(others, r) {
			return false
		}
	}
	return true
}
