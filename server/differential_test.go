package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/server/internal/conversation"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// clientCodec is what a client uses of the codec of a version.
type clientCodec interface {
	MethodName(m *a2a.Method) string
	EncodeParams(params any) ([]byte, error)
	DecodeResult(raw []byte, v any) error
	DecodeEvent(raw []byte) (a2a.Event, error)
}

// httpBinding is a client over HTTP. It leaves to transport how requests and responses look.
type httpBinding struct {
	codec clientCodec
	url   string
	// request returns the request for a method. raw is the JSON of params.
	request func(b *httpBinding, m *a2a.Method, params any, raw []byte) (*http.Request, error)
	// response returns the result in a body or an item of a stream, or the error.
	response func(b *httpBinding, status int, body []byte) ([]byte, error)
}

func (b *httpBinding) do(ctx context.Context, method string, params any) (*http.Response, error) {
	m, ok := a2a.MethodByName(method)
	if !ok {
		return nil, fmt.Errorf("unknown method %s", method)
	}
	raw, err := b.codec.EncodeParams(params)
	if err != nil {
		return nil, err
	}
	req, err := b.request(b, &m, params, raw)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if _, ok := b.codec.(v10.Codec); ok {
		req.Header.Set("A2A-Version", "1.0")
	}
	return http.DefaultClient.Do(req.WithContext(ctx))
}

func (b *httpBinding) Call(ctx context.Context, method string, params, result any) error {
	resp, err := b.do(ctx, method, params)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	raw, err := b.response(b, resp.StatusCode, body)
	if err != nil || result == nil {
		return err
	}
	return b.codec.DecodeResult(raw, result)
}

func (b *httpBinding) Stream(ctx context.Context, method string, params any) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		resp, err := b.do(ctx, method, params)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			body, _ := io.ReadAll(resp.Body)
			if _, err = b.response(b, resp.StatusCode, body); err == nil {
				err = fmt.Errorf("no stream: %s", body)
			}
			yield(nil, err)
			return
		}
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !ok {
				continue
			}
			raw, err := b.response(b, resp.StatusCode, data)
			var e a2a.Event
			if err == nil {
				e, err = b.codec.DecodeEvent(raw)
			}
			if !yield(e, err) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
		}
	}
}

func jsonRPC(codec clientCodec, decodeError func([]byte) (*a2a.Error, error), url string) conversation.Binding {
	return &httpBinding{codec: codec, url: url, request: func(b *httpBinding, m *a2a.Method, _ any, raw []byte) (*http.Request, error) {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, b.codec.MethodName(m), raw)
		return http.NewRequest(http.MethodPost, b.url, strings.NewReader(body))
	}, response: func(b *httpBinding, _ int, body []byte) ([]byte, error) {
		var r struct{ Result, Error json.RawMessage }
		if err := json.Unmarshal(body, &r); err != nil {
			return nil, fmt.Errorf("%w: %s", err, body)
		}
		if r.Error == nil {
			return r.Result, nil
		}
		e, err := decodeError(r.Error)
		if err != nil {
			return nil, err
		}
		return nil, e
	}}
}

// restCodec is what a client uses of the codec of a version over HTTP+JSON.
type restCodec interface {
	clientCodec
	Path(m *a2a.Method) string
}

func httpJSON(codec restCodec, decodeError func([]byte) (*a2a.Error, error), url string) conversation.Binding {
	return &httpBinding{codec: codec, url: url, request: func(b *httpBinding, m *a2a.Method, params any, raw []byte) (*http.Request, error) {
		return restRequest(b.url, m.HTTPMethod, codec.Path(m), params, raw)
	}, response: func(b *httpBinding, status int, body []byte) ([]byte, error) {
		if status == http.StatusOK {
			return body, nil
		}
		e, err := decodeError(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, body)
		}
		return nil, e
	}}
}

// restRequest moves the params that are variables of the path there, and the others of requests
// without a body to the query.
func restRequest(base, verb, path string, params any, raw []byte) (*http.Request, error) {
	var members, plain map[string]json.RawMessage
	rawPlain, err := v03.Codec{}.EncodeParams(params)
	if err = errors.Join(err, json.Unmarshal(raw, &members), json.Unmarshal(rawPlain, &plain)); err != nil {
		return nil, err
	}
	if _, ok := plain["taskId"]; !ok {
		plain["taskId"] = plain["id"] // the task of a webhook
	}
	for _, variable := range pathVariable.FindAllString(path, -1) {
		name := strings.Trim(variable, "{}")
		value, ok := members[name]
		if !ok {
			value = plain[name]
		}
		path = strings.ReplaceAll(path, variable, url.PathEscape(asText(value)))
		delete(members, name)
	}
	if verb == http.MethodPost {
		body, err := json.Marshal(members)
		if err != nil {
			return nil, err
		}
		return http.NewRequest(verb, base+path, bytes.NewReader(body))
	}
	query := url.Values{}
	for name, value := range members {
		var list []string
		if json.Unmarshal(value, &list) == nil {
			query[name] = list
		} else {
			query.Set(name, asText(value))
		}
	}
	return http.NewRequest(verb, base+path+"?"+query.Encode(), nil)
}

// asText returns a JSON value without the quotes of a string.
func asText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// openStores returns a fresh store of every backend: with the tag services, also of PostgreSQL.
func openStores() map[string]func(*testing.T) store.Store {
	stores := map[string]func(*testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return inmem.New() },
		"SQLite": func(t *testing.T) store.Store {
			db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return db
		},
	}
	if pgtest.Enabled {
		stores["PostgreSQL"] = func(t *testing.T) store.Store {
			at := pgtest.URL(t)
			db, err := postgres.Open(t.Context(), postgres.Config{URL: at, Schema: pgtest.Schema(t, at), Migrate: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return db
		}
	}
	return stores
}

// converse holds the conversation with an agent over a store.
func converse(t *testing.T, st store.Store, connect func(url string) conversation.Binding) []conversation.Exchange {
	t.Helper()
	var last atomic.Int64
	ids := func() string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", last.Add(1)) }
	clock := &conversation.Clock{Store: st}
	hooks, err := webhook.New(webhook.Config{Store: clock, NewID: ids, Sender: &discardSender{}})
	if err != nil {
		t.Fatal(err)
	}
	e := startConfig(t, engine.Config{Store: clock, Handler: conversation.Handle, NewID: ids}, func(c *server.Config) { c.Webhook = hooks })
	ts := httptest.NewServer(e.server)
	t.Cleanup(ts.Close)
	return conversation.Run(t, connect(ts.URL), clock)
}

// Clients of both versions over all bindings read the same model, whatever the store.
func TestVersionsAndBindingsHaveTheSameModel(t *testing.T) {
	t.Parallel()
	bindings := map[string]func(url string) conversation.Binding{
		"0.3 JSON-RPC":  func(url string) conversation.Binding { return jsonRPC(v03.Codec{}, v03.Codec{}.DecodeError, url) },
		"1.0 JSON-RPC":  func(url string) conversation.Binding { return jsonRPC(v10.Codec{}, v10.Codec{}.DecodeError, url) },
		"0.3 HTTP+JSON": func(url string) conversation.Binding { return httpJSON(v03.ProtoCodec{}, v03.Codec{}.DecodeError, url) },
		"1.0 HTTP+JSON": func(url string) conversation.Binding { return httpJSON(v10.Codec{}, v10.Codec{}.DecodeHTTPError, url) },
	}
	stores := openStores()
	want := converse(t, stores["memory"](t), bindings["0.3 JSON-RPC"])
	if len(want) < 50 {
		t.Fatalf("the conversation has %d exchanges, want at least 50", len(want))
	}
	for backend, open := range stores {
		for name, connect := range bindings {
			t.Run(name+" on "+backend, func(t *testing.T) {
				t.Parallel()
				if diff := conversation.Diff(want, converse(t, open(t), connect)); diff != "" {
					t.Errorf("the conversation differs from that over 0.3 JSON-RPC in memory (-want +got):\n%s", diff)
				}
			})
		}
	}
}
