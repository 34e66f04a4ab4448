package suite_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/agents/conformance"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/recording"
	"github.com/holdfast-dev/holdfast/rpc"
)

// startAgent starts the conformance agent in a profile and returns its URL. change may be nil.
func startAgent(t *testing.T, profile string, change func(*holdfast.Config)) string {
	t.Helper()
	p, err := conformance.ProfileByName(profile)
	if err != nil {
		t.Fatal(err)
	}
	cfg := holdfast.Config{Store: inmem.New()}
	if change != nil {
		change(&cfg)
	}
	agent, err := p.Agent(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(recorded(t, agent.Handler()))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := agent.Stop(t.Context()); err != nil {
			t.Logf("Stop() = %v", err)
		}
	})
	return server.URL
}

// exchanges is the file for the responses of this suite, nil without HOLDFAST_RESPONSES.
var exchanges = sync.OnceValues(func() (*recording.File, error) {
	dir := os.Getenv("HOLDFAST_RESPONSES")
	if dir == "" {
		return nil, nil
	}
	return recording.Create(dir)
})

// recorded returns a handler that writes the exchanges of next to the file, if there is one.
func recorded(t *testing.T, next http.Handler) http.Handler {
	t.Helper()
	file, err := exchanges()
	if err != nil {
		t.Fatal(err)
	}
	if file == nil {
		return next
	}
	return recording.Handler(next, func(x recording.Exchange) { record(t, x) })
}

// record writes an exchange to the file, if there is one.
func record(t *testing.T, x recording.Exchange) {
	if file, err := exchanges(); err == nil && file != nil {
		if err := file.Append(x); err != nil {
			t.Errorf("record: %v", err)
		}
	}
}

// conn sends requests in one version over one binding.
type conn struct {
	t     *testing.T
	url   string
	codec rpc.Codec
	rest  bool
	// header is sent with every request.
	header http.Header
}

func newConn(t *testing.T, url string, codec rpc.Codec, rest bool) *conn {
	c := &conn{t: t, url: url, codec: codec, rest: rest, header: make(http.Header)}
	if codec.Version() == (v10.Codec{}).Version() {
		c.header.Set("A2A-Version", "1.0")
	}
	return c
}

// with returns a copy of c that sends another header too.
func (c *conn) with(name, value string) *conn {
	out := *c
	out.header = c.header.Clone()
	out.header.Set(name, value)
	return &out
}

// on returns a copy of c for a subtest.
func (c *conn) on(t *testing.T) *conn {
	out := *c
	out.t = t
	return &out
}

// reply is the response to a call: a result or an error.
type reply struct {
	status int
	header http.Header
	body   []byte
	result any
	err    *a2a.Error
}

// code returns the code of the error, or "".
func (r reply) code() a2a.Code {
	if r.err == nil {
		return ""
	}
	return r.err.Code
}

// at returns the member of the result at a path such as "task.status.state" or "history.0", or nil.
func (r reply) at(path string) any { return at(r.result, path) }

func (r reply) text(path string) string {
	text, _ := r.at(path).(string)
	return text
}

func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func length(v any) int {
	list, _ := v.([]any)
	return len(list)
}

// object is the params of a call.
type object = map[string]any

var pathVariable = regexp.MustCompile(`\{(\w+)\}`)

// request returns the request for a method, which is named as in A2A 0.3.
func (c *conn) request(method string, params object) *http.Request {
	c.t.Helper()
	m, ok := a2a.MethodByName(method)
	if !ok {
		c.t.Fatalf("no method %s", method)
	}
	verb, path, body := http.MethodPost, "/", any(object{"jsonrpc": "2.0", "id": 7, "method": c.codec.MethodName(&m), "params": params})
	if c.rest {
		pattern := c.codec.(interface{ Path(m *a2a.Method) string }).Path(&m)
		verb, path, body = m.HTTPMethod, c.fillPath(pattern, params), params
		if verb == http.MethodGet || verb == http.MethodDelete {
			path, body = path+query(pattern, params), nil
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	if body == nil {
		raw = nil
	}
	r, err := http.NewRequestWithContext(c.t.Context(), verb, c.url+path, strings.NewReader(string(raw)))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header = c.header.Clone()
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// fillPath replaces the variables of a path by params.
func (c *conn) fillPath(path string, params object) string {
	return pathVariable.ReplaceAllStringFunc(path, func(name string) string {
		value, ok := params[strings.Trim(name, "{}")]
		if !ok {
			c.t.Fatalf("no param for %s of %s", name, path)
		}
		return url.PathEscape(fmt.Sprint(value))
	})
}

// query returns the query of the params that are no variables of a path.
func query(path string, params object) string {
	values := make(url.Values)
	for name, value := range params {
		if name != "id" && !strings.Contains(path, "{"+name+"}") {
			values.Set(name, fmt.Sprint(value))
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// call calls a method and checks the form of the response.
func (c *conn) call(method string, params object) reply {
	c.t.Helper()
	resp := c.do(c.request(method, params))
	defer resp.Body.Close()
	return c.read(method, resp)
}

func (c *conn) do(r *http.Request) *http.Response {
	c.t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// read reads a response without a stream.
func (c *conn) read(method string, resp *http.Response) reply {
	c.t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	out := reply{status: resp.StatusCode, header: resp.Header, body: body}
	result := body
	if c.rest {
		if resp.StatusCode >= 400 {
			out.err = c.decodeHTTPError(body)
			return out
		}
	} else if result, out.err = c.unwrap(body); out.err != nil {
		return out
	}
	if len(result) > 0 {
		checkForm(c.t, c.codec, method, result)
		if err := json.Unmarshal(result, &out.result); err != nil {
			c.t.Fatalf("%s = %s: %v", method, body, err)
		}
	}
	return out
}

// unwrap returns the result or error of a JSON-RPC response.
func (c *conn) unwrap(body []byte) (json.RawMessage, *a2a.Error) {
	c.t.Helper()
	var envelope struct {
		Version string          `json:"jsonrpc"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil || envelope.Version != "2.0" || (envelope.Result == nil) == (envelope.Error == nil) {
		c.t.Fatalf("response = %s, want JSON-RPC 2.0 with either a result or an error", body)
	}
	if envelope.Error == nil {
		return envelope.Result, nil
	}
	checkError(c.t, c.codec, envelope.Error)
	var failed *a2a.Error
	var err error
	switch codec := c.codec.(type) {
	case v10.Codec:
		failed, err = codec.DecodeError(envelope.Error)
	case v03.Codec:
		failed, err = codec.DecodeError(envelope.Error)
	}
	if err != nil {
		c.t.Fatalf("error = %s: %v", envelope.Error, err)
	}
	return nil, failed
}

func (c *conn) decodeHTTPError(body []byte) *a2a.Error {
	c.t.Helper()
	failed, err := v10.Codec{}.DecodeHTTPError(body)
	if err != nil || failed == nil {
		c.t.Fatalf("error = %s, %v, want the form of AIP-193", body, err)
	}
	return failed
}

// stream is an open stream.
type stream struct {
	c    *conn
	resp *http.Response
	in   *bufio.Reader
}

// open calls a streaming method.
func (c *conn) open(method string, params object) *stream {
	c.t.Helper()
	r := c.request(method, params)
	r.Header.Set("Accept", "text/event-stream")
	resp := c.do(r)
	c.t.Cleanup(func() { _ = resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		c.t.Fatalf("%s = %d %s %s, want a stream", method, resp.StatusCode, kind, body)
	}
	return &stream{c, resp, bufio.NewReader(resp.Body)}
}

// next returns the next event, or nil at the end of the stream.
func (s *stream) next() any {
	s.c.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			s.c.t.Fatal(err)
		}
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		raw := json.RawMessage(data)
		if !s.c.rest {
			var failed *a2a.Error
			if raw, failed = s.c.unwrap(raw); failed != nil {
				s.c.t.Fatalf("event = %s, want a result", data)
			}
		}
		checkForm(s.c.t, s.c.codec, a2a.MethodStream, raw)
		var event any
		if err := json.Unmarshal(raw, &event); err != nil {
			s.c.t.Fatal(err)
		}
		return event
	}
}

// rest returns the events up to the end of the stream.
func (s *stream) rest() (events []any) {
	s.c.t.Helper()
	for e := s.next(); e != nil; e = s.next() {
		events = append(events, e)
	}
	return events
}

// fetch sends a request and returns the response, with its JSON as the result.
func (c *conn) fetch(r *http.Request) reply {
	c.t.Helper()
	resp := c.do(r)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	out := reply{status: resp.StatusCode, header: resp.Header, body: body}
	if err := json.Unmarshal(body, &out.result); err != nil {
		c.t.Fatalf("%s %s = %s: %v", r.Method, r.URL.Path, body, err)
	}
	return out
}

// receiver receives the requests to a webhook.
type receiver struct {
	*httptest.Server
	requests chan received
}

type received struct {
	header http.Header
	body   json.RawMessage
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{requests: make(chan received, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		record(t, recording.Exchange{Method: req.Method, Path: req.URL.Path, Request: body, Webhook: true})
		r.requests <- received{req.Header, body}
	}))
	t.Cleanup(r.Close)
	return r
}

// next waits for the next request.
func (r *receiver) next(t *testing.T) received {
	t.Helper()
	select {
	case got := <-r.requests:
		return got
	case <-time.After(await.Limit):
		t.Fatal("no request to the webhook")
		return received{}
	}
}
