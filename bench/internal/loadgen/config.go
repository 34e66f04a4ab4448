package loadgen

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Scenario names what a request is.
type Scenario string

// The scenarios.
const (
	// Send is a blocking message/send; the answer must be a completed Task.
	Send Scenario = "send"
	// SendGet is a non-blocking message/send, then tasks/get, at least once,
	// until the task has completed. Between two reads it waits for a
	// millisecond, then twice as long each time, up to 32 milliseconds.
	SendGet Scenario = "send-get"
	// Stream is a message/stream read to its end; the last event must be
	// final and must complete the task.
	Stream Scenario = "stream"
	// Get is a tasks/get of one of the tasks made before the measurement.
	Get Scenario = "get"
	// List is a tasks/list (an extension of A2A 0.3) of a page of 20; the
	// result must be an array of 1 to 20 tasks, or an object with such an
	// array under "tasks".
	List Scenario = "list"
	// Contexts is a contexts/list (an extension of A2A 0.3) of a page of 20; the
	// result must have 1 to 20 "contexts". By turns it asks for all, those that
	// are active, those with CommonTag, those with both tags, and all by name;
	// otherwise the last updated come first.
	Contexts Scenario = "contexts"
	// Echo posts the body of Send to a plain server that answers with the
	// same JSON value: the floor that HTTP and JSON alone set.
	Echo Scenario = "echo"
)

// Scenarios returns all scenarios in the order in which a report shows them.
func Scenarios() []Scenario {
	return []Scenario{Send, SendGet, Stream, Get, List, Contexts, Echo}
}

// Tags of contexts that [Contexts] asks for. To see what a filter costs, many
// contexts should have the one and few of those the other too.
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
)

// Config says what to measure. The zero value of every field but URL is a
// usable default.
type Config struct {
	// URL is where JSON-RPC requests are posted, http or https. Required.
	URL string
	// Scenario is what to do there; empty means [Send].
	Scenario Scenario
	// Concurrency is the number of workers and connections; 0 means
	// [DefaultConcurrency].
	Concurrency int
	// Duration is the length of the window; 0 means [DefaultDuration], or no
	// limit of time if Requests is set.
	Duration time.Duration
	// Requests ends the window early, after that many requests; 0 means no
	// such limit.
	Requests int
	// PayloadBytes is the size of the text in each message; 0 means
	// [DefaultPayloadBytes]. Each worker holds a copy.
	PayloadBytes int
	// WarmUp is how long the loop runs before the window; 0 means not at all.
	WarmUp time.Duration
	// Timeout bounds each call; 0 means [DefaultTimeout]. It is kept within
	// a tenth, always on the longer side.
	Timeout time.Duration
	// Tasks is how many tasks [Get], [List] and [Contexts] make beforehand, by
	// blocking sends; 0 means [DefaultTasks]. For one in ten [Contexts] makes a
	// context with a name and both tags too.
	Tasks int
	// Token, if set, is sent as a bearer token. It appears in no error.
	Token string
	// Header is sent with every request, besides Host, Content-Type,
	// Content-Length, Accept and Authorization, which are set here; Accept
	// and Authorization may be replaced by it.
	Header http.Header
	// OnStart, if not nil, is called once when the window starts, by a
	// goroutine of Run, so that the caller can take the state of its own
	// meters. Run returns after it.
	OnStart func()
}

func (c Config) withDefaults() Config {
	if c.Scenario == "" {
		c.Scenario = Send
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

// validate returns all that is wrong with c, joined, and the parsed URL.
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
		// The text of a parse error repeats the URL, which may carry a secret.
		problem(true, "url cannot be parsed")
	default:
		problem(u.Scheme != "http" && u.Scheme != "https" || u.Host == "", "url must be http://host or https://host")
		problem(u.User != nil, "url must not carry credentials: use a token")
	}
	problem(!known(c.Scenario), "unknown scenario %q, want one of %v", c.Scenario, Scenarios())
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

func known(s Scenario) bool {
	for _, each := range Scenarios() {
		if s == each {
			return true
		}
	}
	return false
}

func printable(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// headerName reports whether name is a token and not a header that frames the
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
