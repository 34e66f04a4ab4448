package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// sampleParams has valid params of each supported method that require access to the store.
var sampleParams = map[string]string{
	a2a.MethodSend:        params(message("a")),
	a2a.MethodStream:      params(message("a")),
	a2a.MethodGet:         `{"id":"x","historyLength":1}`,
	a2a.MethodList:        `{"metadata":{"status":["working"],"contextId":"c","createdAfter":"2020-01-01T00:00:00Z","createdBefore":"2999-01-01T00:00:00Z","limit":5,"offset":1,"sortBy":"createdAt","sortOrder":"asc","historyLength":1}}`,
	a2a.MethodCancel:      `{"id":"x"}`,
	a2a.MethodTasksDelete: `{"id":"x"}`,
	a2a.MethodResubscribe: `{"id":"x"}`,

	a2a.MethodContextsList:   `{"historyLength":1,"metadata":{"status":"active","tags":["a"],"role":"assistant","createdAfter":"2020-01-01T00:00:00Z","limit":5,"offset":1,"sortBy":"name","sortOrder":"asc"}}`,
	a2a.MethodContextsGet:    `{"contextId":"c","historyLength":1}`,
	a2a.MethodContextsCreate: `{"contextId":"c","name":"n","description":"d","role":"r","status":"paused","tags":["a"],"metadata":{"k":1},"parentContextId":"p","referenceContextIds":["q"],"extensions":{"u":1}}`,
	a2a.MethodContextsUpdate: `{"contextId":"c","name":"n","description":"d","role":"r","status":"completed","tags":[],"metadata":{},"parentContextId":"","referenceContextIds":[],"extensions":{},"force":true}`,
	a2a.MethodContextsClear:  `{"contextId":"c","metadata":{"force":true}}`,

	a2a.MethodFeedback:     `{"taskId":"x","feedback":"good","rating":5,"metadata":{"k":1}}`,
	a2a.MethodFeedbackList: `{"taskId":"x","pageSize":5}`,
}

func TestEveryMethodRejectsInvalidParams(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, m := range a2a.Methods() {
		if m.Off != "" {
			continue
		}
		var valid map[string]any
		if err := json.Unmarshal([]byte(sampleParams[m.Name]), &valid); err != nil {
			t.Errorf("method %s has no sample of its params: %v", m.Name, err)
			continue
		}
		nonsense := []string{`[]`, `"x"`, `5`, `true`, `[{}]`, `{"metadata":[]}`, `{"metadata":"x"}`}
		for member, value := range valid {
			for _, wrong := range []any{5, "", []any{5}, map[string]any{}, true} {
				if fmt.Sprintf("%T", wrong) == fmt.Sprintf("%T", value) || fmt.Sprintf("%T%T", wrong, value) == "intfloat64" {
					continue
				}
				valid[member] = wrong
				text, err := json.Marshal(valid)
				if err != nil {
					t.Fatal(err)
				}
				nonsense = append(nonsense, string(text))
			}
			valid[member] = value
		}
		for _, text := range nonsense {
			got := e.call(m.Name, text)
			if got.Status != http.StatusOK || got.code() != -32602 {
				t.Errorf("%s %s = HTTP %d %s, want -32602", m.Name, text, got.Status, got.Body)
			} else if field, _ := got.Error.Data["field"].(string); field == "" || !strings.HasPrefix(got.Error.Message, field) {
				t.Errorf("%s %s = %s, want the field in the error", m.Name, text, got.Body)
			}
		}
	}
	for _, row := range ownLists {
		if got := e.call(row.method, row.params); strings.Contains(string(got.Result), "Id\"") {
			t.Errorf("%s = %s, want nothing: rejected requests must have no effect", row.method, got.Result)
		}
	}
}

// brokenStore returns a store with operations that fail while broken is set.
func brokenStore(broken *atomic.Bool) store.Store {
	return storetest.Intercept(newStore(), func(ctx context.Context, _ storetest.Call, do func(context.Context) error) error {
		if broken.Load() {
			return errors.New("write /srv/data: password hunter2")
		}
		return do(ctx)
	})
}

func TestNoMethodExposesInternalErrors(t *testing.T) {
	t.Parallel()
	var logged await.Buffer
	var broken atomic.Bool
	st := brokenStore(&broken)
	e := startOn(t, st, echo, func(c *server.Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	broken.Store(true)
	for _, m := range a2a.Methods() {
		if m.Off != "" {
			continue
		}
		got := e.call(m.Name, sampleParams[m.Name])
		if got.code() != -32603 && got.code() != -32053 || strings.Contains(string(got.Body), "hunter2") {
			t.Errorf("%s = HTTP %d %s, want an error without its cause", m.Name, got.Status, got.Body)
		}
		if id := got.Header.Get("X-Request-Id"); id == "" || !strings.Contains(logged.String(), id) {
			t.Errorf("%s: request %s is not in the log", m.Name, id)
		}
	}
}

// FuzzMethods calls any method with any params over each binding. Every response must be JSON
// without an internal error.
func FuzzMethods(f *testing.F) {
	methods := a2a.Methods()
	for i, m := range methods {
		for binding := range uint8(4) {
			f.Add(binding, uint8(i), []byte(sampleParams[m.Name]))
		}
	}
	f.Add(uint8(2), uint8(3), []byte("pageSize=5&status=TASK_STATE_WORKING"))
	e := startEngine(f, newStore(), echo, nil)
	f.Fuzz(func(t *testing.T, binding, method uint8, params []byte) {
		m := methods[int(method)%len(methods)]
		verb, path, name := http.MethodPost, "/", m.Name
		switch binding % 4 {
		case 1:
			name = m.NameV10
		case 2:
			verb, path, name = m.HTTPMethod, v10.Codec{}.Path(&m), ""
		case 3:
			verb, path, name = m.HTTPMethod, v03.ProtoCodec{}.Path(&m), ""
		}
		if path == "" {
			return
		}
		path = pathVariable.ReplaceAllString(path, "x")
		body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, name, params)
		if name == "" {
			body = params
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, verb, path, bytes.NewReader(body))
		if verb == http.MethodGet || verb == http.MethodDelete {
			r = httptest.NewRequestWithContext(ctx, verb, path, nil)
			r.URL.RawQuery = string(params)
		}
		rec := httptest.NewRecorder()
		e.server.ServeHTTP(rec, r)
		if strings.HasPrefix(rec.Header().Get("Content-Type"), "text/event-stream") {
			return
		}
		var got reply
		err := json.Unmarshal(rec.Body.Bytes(), &got)
		if name == "" && rec.Code < http.StatusInternalServerError && json.Valid(rec.Body.Bytes()) {
			return
		}
		if name == "" || err != nil || rec.Code != http.StatusOK || got.code() == a2a.CodeInternal.JSONRPC() {
			t.Errorf("%s %s?%s %s = HTTP %d %s (%v), want JSON without an internal error", verb, path, r.URL.RawQuery, body, rec.Code, rec.Body, err)
		}
	})
}

var pathVariable = regexp.MustCompile(`\{[^}]*\}`)
