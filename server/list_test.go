package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/webhook"
)

// page calls a list method and returns its items as JSON, and its other members.
func (e *env) page(method, params, items string) (list []string, rest map[string]any) {
	e.t.Helper()
	got := e.call(method, params, as("alice")...)
	var raw map[string]json.RawMessage
	var entries []json.RawMessage
	if got.Error != nil || json.Unmarshal(got.Result, &raw) != nil || json.Unmarshal(raw[items], &entries) != nil || json.Unmarshal(got.Result, &rest) != nil {
		e.t.Fatalf("%s %s = %s, want a page of %s", method, params, got.Body, items)
	}
	for _, entry := range entries {
		list = append(list, string(entry))
	}
	return list, rest
}

func TestLimitAndOffsetPageThroughEveryList(t *testing.T) {
	t.Parallel()
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	t.Cleanup(failing.Close)
	e, _ := startWebhook(t, newStore(), worker, func(c *webhook.Config) { c.AllowHosts = nil })
	const want = 3
	var last taskView
	for i := range want {
		last = e.call(a2a.MethodSend, params(message("a"), fmt.Sprintf(`"configuration":{"blocking":true,"pushNotificationConfig":{"url":%q}}`, failing.URL)), as("alice")...).task(t)
		e.call(a2a.MethodFeedback, fmt.Sprintf(`{"taskId":%q,"rating":%d}`, last.ID, i+1), as("alice")...)
	}
	await.True(t, "each event is a dead letter", func() bool {
		dead, _ := e.page(a2a.MethodDeadLetters, `{}`, "deadLetters")
		return len(dead) == 3*want
	})
	for _, list := range []struct{ method, items, filter string }{
		{a2a.MethodList, "tasks", ""},
		{a2a.MethodContextsList, "contexts", ""},
		{a2a.MethodFeedbackList, "feedback", ""},
		{a2a.MethodDeadLetters, "deadLetters", ""},
		{a2a.MethodPushAttempts, "attempts", fmt.Sprintf(`"taskId":%q,`, last.ID)},
	} {
		all, _ := e.page(list.method, `{`+list.filter+`"limit":100}`, list.items)
		if len(all) < want {
			t.Errorf("%s = %d items, want at least %d", list.method, len(all), want)
		}
		for offset := range len(all) + 1 {
			got, rest := e.page(list.method, fmt.Sprintf(`{%s"limit":1,"offset":%d}`, list.filter, offset), list.items)
			if offset < len(all) != (len(got) == 1) || len(got) == 1 && got[0] != all[offset] {
				t.Errorf("%s with offset %d = %s, want item %d of %s", list.method, offset, got, offset, all)
			}
			if offset < len(all)-1 {
				next, _ := e.page(list.method, fmt.Sprintf(`{%s"limit":1,"pageToken":%q}`, list.filter, rest["nextPageToken"]), list.items)
				if len(next) != 1 || next[0] != all[offset+1] {
					t.Errorf("%s after offset %d = %s, want item %d of %s", list.method, offset, next, offset+1, all)
				}
			}
		}
		for _, bad := range []string{`"offset":-1`, `"offset":10001`, `"offset":1,"pageToken":"x"`, `"offset":"1"`} {
			if got := e.call(list.method, `{`+list.filter+bad+`}`, as("alice")...); got.code() != -32602 || got.Error.Data["field"] != "offset" {
				t.Errorf("%s %s = %s, want -32602 on offset", list.method, bad, got.Body)
			}
		}
	}
}

func TestTaskListsOmitUnrequestedContent(t *testing.T) {
	t.Parallel()
	for codec, whole := range map[rpc.Codec]bool{v03.Codec{}: false, v03.Codec{Bindu: true}: true} {
		e := start(t, worker, func(c *server.Config) {
			twoTokens(c)
			c.Codecs = []rpc.Codec{codec}
		})
		e.call(a2a.MethodSend, params(message("a"), blocking), as("alice")...)
		for _, test := range []struct {
			params             string
			history, artifacts bool
		}{
			{`{}`, whole, false},
			{`{"historyLength":1}`, true, false},
			{`{"metadata":{"historyLength":1}}`, true, false},
			{`{"includeArtifacts":true}`, whole, true},
		} {
			tasks, _ := e.page(a2a.MethodList, test.params, "tasks")
			if len(tasks) != 1 || strings.Contains(tasks[0], `"history"`) != test.history || strings.Contains(tasks[0], `"artifacts"`) != test.artifacts {
				t.Errorf("codec %+v, %s = %s, want history %t, artifacts %t", codec, test.params, tasks, test.history, test.artifacts)
			}
		}
	}
}

func TestPagesReportTruncationBySize(t *testing.T) {
	t.Parallel()
	e := startConfig(t, engine.Config{Store: newStore(), Handler: worker, NewID: newID, Limits: engine.Limits{PageBytes: 3000}}, twoTokens)
	ts := httptest.NewServer(e.server)
	t.Cleanup(ts.Close)
	e.url, e.client = ts.URL, ts.Client()
	for range 3 {
		text := fmt.Sprintf(`{"messageId":"m","role":"user","parts":[{"kind":"text","text":%q}]}`, strings.Repeat("x", 2000))
		e.call(a2a.MethodSend, params(text, blocking), as("alice")...).task(t)
	}
	for _, list := range []struct{ method, items string }{{a2a.MethodList, "tasks"}, {a2a.MethodContextsList, "contexts"}} {
		for query, want := range map[string]any{`"historyLength":9,"pageSize":3`: true, `"historyLength":9,"pageSize":1`: nil, `"pageSize":2`: nil, `"pageSize":50`: nil} {
			items, rest := e.page(list.method, `{`+query+`}`, list.items)
			if rest["truncatedBySize"] != want || want == true && (len(items) == 3 || rest["nextPageToken"] == "") {
				t.Errorf("%s {%s} = %d items, truncatedBySize %v, want %v", list.method, query, len(items), rest["truncatedBySize"], want)
			}
		}
	}
}

func TestTotalsStopAtTheirLimit(t *testing.T) {
	t.Parallel()
	e := startConfig(t, engine.Config{Store: newStore(), Handler: worker, NewID: newID, Limits: engine.Limits{ListTotal: 2}}, twoTokens)
	ts := httptest.NewServer(e.server)
	t.Cleanup(ts.Close)
	e.url, e.client = ts.URL, ts.Client()
	var last taskView
	for range 3 {
		last = e.call(a2a.MethodSend, params(message("a"), blocking), as("alice")...).task(t)
	}
	for _, test := range []struct {
		method, items, params string
		total, capped         any
	}{
		{a2a.MethodList, "tasks", `{}`, nil, nil},
		{a2a.MethodList, "tasks", `{"pageSize":1,"includeTotal":true}`, 2.0, true},
		{a2a.MethodList, "tasks", `{"metadata":{"status":"completed"}}`, 2.0, true},
		{a2a.MethodList, "tasks", fmt.Sprintf(`{"includeTotal":true,"contextId":%q}`, last.ContextID), 1.0, nil},
		{a2a.MethodContextsList, "contexts", `{}`, 3.0, nil}, // a counter
		{a2a.MethodContextsList, "contexts", `{"metadata":{"status":"active"}}`, 3.0, nil},
		{a2a.MethodContextsList, "contexts", `{"metadata":{"createdAfter":"2020-01-01T00:00:00Z"}}`, 2.0, true},
	} {
		_, rest := e.page(test.method, test.params, test.items)
		if rest["total"] != test.total || rest["totalCapped"] != test.capped {
			t.Errorf("%s %s: total %v, totalCapped %v, want %v, %v", test.method, test.params, rest["total"], rest["totalCapped"], test.total, test.capped)
		}
	}
}
