package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// respond is a transport that gives every request the same response.
func respond(status int, contentType string, body func() io.Reader) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Status: http.StatusText(status), Request: r,
			Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(body()),
		}, nil
	})
}

// endless repeats a text without end.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at]
		e.at = (e.at + 1) % len(e.text)
	}
	return len(p), nil
}

// slow returns one byte per second, until its request ends.
type slow struct{ ctx context.Context }

func (s slow) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		p[0] = ' '
		return 1, nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func TestHostileResponsesOverEachBinding(t *testing.T) {
	t.Parallel()
	const events = "text/event-stream"
	for _, test := range []struct {
		name        string
		status      int
		contentType string
		body        func() io.Reader
		want        a2a.Code
	}{
		{"an endless result", 200, "application/json", func() io.Reader { return &endless{text: "["} }, a2a.CodeTooLarge},
		{"an endless error", 400, "application/json", func() io.Reader { return &endless{text: "{"} }, a2a.CodeInvalidAgentResponse},
		{"a deep result", 200, "application/json", func() io.Reader { return strings.NewReader(strings.Repeat("[", 4000)) }, a2a.CodeInvalidAgentResponse},
		{"a cut result", 200, "application/json", func() io.Reader { return io.MultiReader(strings.NewReader(`{"task":{`), resetReader{}) }, a2a.CodeUnavailable},
		{"an endless event", 200, events, func() io.Reader { return &endless{text: "data: x\n"} }, a2a.CodeTooLarge},
		{"an endless line", 200, events, func() io.Reader { return &endless{text: "x"} }, a2a.CodeTooLarge},
		{"a cut event", 200, events, func() io.Reader { return io.MultiReader(strings.NewReader("data: {"), resetReader{}) }, a2a.CodeUnavailable},
		{"no JSON in an event", 200, events, func() io.Reader { return strings.NewReader("data: <html>\n\n") }, a2a.CodeInvalidAgentResponse},
		{"an array in an event", 200, events, func() io.Reader { return strings.NewReader("data: []\n\n") }, a2a.CodeInvalidAgentResponse},
	} {
		for _, b := range bindings {
			t.Run(test.name+" "+b.transport+" "+b.version, func(t *testing.T) {
				t.Parallel()
				c := newClient(t, client.Config{
					URL: "http://agent.test/", Version: b.version, Transport: b.transport, MaxResponseBytes: 4096, Reconnects: -1,
					HTTPClient: &http.Client{Transport: respond(test.status, test.contentType, test.body)},
				})
				err := func() error {
					if test.contentType == events {
						for _, err := range c.Stream(t.Context(), client.SendParams{Message: client.Text("x")}) {
							if err != nil {
								return err
							}
						}
						return nil
					}
					_, err := c.Task(t.Context(), a2a.TaskQueryParams{ID: "t1"})
					return err
				}()
				if a2a.CodeOf(err) != test.want {
					t.Errorf("error = %v (%s), want %s", err, a2a.CodeOf(err), test.want)
				}
			})
		}
	}
}

func TestSlowResponsesEndWithTheContext(t *testing.T) {
	for _, b := range bindings {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errReset)
			defer cancel()
			c := newClient(t, client.Config{
				URL: "http://agent.test/", Version: b.version, Transport: b.transport,
				HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(slow{r.Context()}), Request: r}, nil
				})},
			})
			start := time.Now()
			if _, err := c.Task(ctx, a2a.TaskQueryParams{ID: "t1"}); !errors.Is(err, errReset) || time.Since(start) != time.Minute {
				t.Errorf("%s %s: Task() = %v after %s, want the cause of its context after 1m", b.transport, b.version, err, time.Since(start))
			}
		})
	}
}

// FuzzResponses gives a client any response, over each binding. Every error has a code and no secret,
// and every result is what the method returns.
func FuzzResponses(f *testing.F) {
	for _, body := range []string{
		rpcResult(workingTask), rpcFailure(-32001), workingTask, `{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`,
		`{"error":{"code":404,"status":"NOT_FOUND","message":"m","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{"code":"internal"}}]}}`,
		event("1", taskIn("working")) + event("2", status("completed", true)), "id: 1\ndata: {\"statusUpdate\":{}}\n\n", "null", "", "<html>",
		`{"name":"n","description":"d","version":"1","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],"url":"//x","supportedInterfaces":[{"url":"/a","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}]}`,
		`{"configs":[],"tasks":null,"code":-1,"message":""}`,
	} {
		f.Add([]byte(body), uint16(200), false)
		f.Add([]byte(body), uint16(200), true)
		f.Add([]byte(body), uint16(404), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, status uint16, stream bool) {
		contentType := "application/json"
		if stream {
			contentType = "text/event-stream"
		}
		answer := respond(200+int(status)%400, contentType, func() io.Reader { return bytes.NewReader(body) })
		check := func(method string, ok bool, err error) {
			if err == nil && !ok {
				t.Errorf("%s() returns nothing without an error", method)
			}
			if err != nil && (a2a.CodeOf(err) == "" || strings.Contains(err.Error(), "sesame")) {
				t.Errorf("%s() = %v (%s), want a code and no token", method, err, a2a.CodeOf(err))
			}
		}
		cfg := client.Config{URL: "https://agent.test/a", Token: "sesame-sesame", MaxResponseBytes: 1 << 16, Reconnects: -1, HTTPClient: &http.Client{Transport: answer}}
		discovered, err := client.Discover(t.Context(), cfg)
		check("Discover", discovered != nil, err)
		for _, b := range bindings {
			cfg.Version, cfg.Transport = b.version, b.transport
			c := newClient(t, cfg)
			sent, err := c.Send(t.Context(), client.SendParams{Message: client.Text("x")})
			check("Send", sent != nil, err)
			task, err := c.Task(t.Context(), a2a.TaskQueryParams{ID: "t1"})
			check("Task", task != nil && task.ID != "", err)
			page, err := c.List(t.Context(), a2a.ListTasksParams{})
			check("List", page != nil, err)
			_, err = c.ListWebhooks(t.Context(), "t1")
			check("ListWebhooks", true, err)
			check("DeleteWebhook", true, c.DeleteWebhook(t.Context(), "t1", "w"))
			for u, err := range c.Stream(t.Context(), client.SendParams{Message: client.Text("x")}) {
				check("Stream", u.Event != nil, err)
			}
		}
	})
}
