package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
)

// ok calls a method that must succeed and decodes its result.
func (e *env) ok(method, params string, result any, h ...string) {
	e.t.Helper()
	got := e.call(method, params, h...)
	if got.Error != nil {
		e.t.Fatalf("%s %s = %s, want success", method, params, got.Body)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(got.Result, result); err != nil {
		e.t.Fatalf("%s: %v", got.Result, err)
	}
}

func TestErrorsOfContextsAndFeedback(t *testing.T) {
	t.Parallel()
	h, _ := blockingHandler(t)
	e := start(t, h, nil)
	for _, status := range []string{"paused", "completed", "archived"} {
		e.ok("contexts/create", fmt.Sprintf(`{"contextId":%q}`, status), nil)
		e.ok("contexts/update", fmt.Sprintf(`{"contextId":%q,"status":%q}`, status, status), nil)
	}
	e.ok("contexts/create", `{"contextId":"active","parentContextId":"paused"}`, nil)
	busy := e.call("message/send", params(message("a", `"contextId":"active"`))).task(t)
	long := strings.Repeat("x", 20_000)
	for _, test := range []struct {
		method, params string
		code           a2a.Code
		field          string
	}{
		{"tasks/list", `{"states":[]}`, a2a.CodeInvalid, "states"},
		{"contexts/create", `{"contextId":"active"}`, a2a.CodeConflict, ""},
		{"contexts/create", `{"contextId":"a\u0000b"}`, a2a.CodeInvalid, "contextId"},
		{"contexts/create", `{"name":"` + long + `"}`, a2a.CodeInvalid, "name"},
		{"contexts/create", `{"description":"` + long + `"}`, a2a.CodeInvalid, "description"},
		{"contexts/create", `{"role":"` + long + `"}`, a2a.CodeInvalid, "role"},
		{"contexts/create", `{"tags":["a"," b"]}`, a2a.CodeInvalid, "tags[1]"},
		{"contexts/create", `{"metadata":{"k":"` + strings.Repeat(long, 4) + `"}}`, a2a.CodeInvalid, "metadata"},
		{"contexts/create", `{"extensions":{"k":"` + strings.Repeat(long, 4) + `"}}`, a2a.CodeInvalid, "extensions"},
		{"contexts/create", `{"status":"archived"}`, a2a.CodeInvalid, "status"},
		{"contexts/create", `{"parentContextId":"none"}`, a2a.CodeContextNotFound, "parentContextId"},
		{"contexts/create", `{"referenceContextIds":["active","none"]}`, a2a.CodeContextNotFound, "referenceContextIds[1]"},
		{"contexts/get", `{"contextId":"none"}`, a2a.CodeContextNotFound, ""},
		{"contexts/update", `{"contextId":"none"}`, a2a.CodeContextNotFound, ""},
		{"contexts/clear", `{"contextId":"none","force":true}`, a2a.CodeContextNotFound, ""},
		{"contexts/update", `{"contextId":"paused","parentContextId":"active"}`, a2a.CodeInvalid, "parentContextId"},
		{"contexts/update", `{"contextId":"active","status":"completed"}`, a2a.CodeContextNotCancelable, ""},
		{"contexts/update", `{"contextId":"active","status":"archived"}`, a2a.CodeContextNotCancelable, ""},
		{"contexts/update", `{"contextId":"completed","status":"active"}`, a2a.CodeContextNotCancelable, ""},
		{"contexts/update", `{"contextId":"completed","status":"paused"}`, a2a.CodeContextNotCancelable, ""},
		{"contexts/update", `{"contextId":"archived","status":"active","force":true}`, a2a.CodeContextNotCancelable, ""},
		{"contexts/update", `{"contextId":"archived","name":"x"}`, a2a.CodeContextNotCancelable, ""},
		{"contexts/clear", `{"contextId":"active"}`, a2a.CodeContextNotCancelable, ""},
		{"contexts/clear", `{"contextId":"archived"}`, a2a.CodeContextNotCancelable, ""},
		{"contexts/clear", `{"contextId":"active","metadata":{"force":"yes"}}`, a2a.CodeInvalid, "metadata.force"},
		{"contexts/clear", `{"contextId":"active","metadata":{"force":1}}`, a2a.CodeInvalid, "metadata.force"},
		{"message/send", params(message("b", `"contextId":"paused"`)), a2a.CodeContextNotCancelable, ""},
		{"message/send", params(message("b", `"contextId":"completed"`)), a2a.CodeContextNotCancelable, ""},
		{"message/stream", params(message("b", `"contextId":"archived"`)), a2a.CodeContextNotCancelable, ""},
		{"tasks/feedback", `{"taskId":"none","feedback":"x"}`, a2a.CodeTaskNotFound, ""},
		{"tasks/feedback", fmt.Sprintf(`{"taskId":%q,"feedback":""}`, busy.ID), a2a.CodeInvalid, "feedback"},
		{"tasks/feedback", fmt.Sprintf(`{"taskId":%q,"feedback":%q}`, busy.ID, long), a2a.CodeInvalid, "feedback"},
		{"tasks/feedback", fmt.Sprintf(`{"taskId":%q,"feedback":"x","rating":6}`, busy.ID), a2a.CodeInvalid, "rating"},
		{"tasks/feedback/list", `{"pageSize":101}`, a2a.CodeInvalid, "pageSize"},
	} {
		got := e.call(test.method, test.params)
		if got.Status != http.StatusOK || got.code() != test.code.JSONRPC() || got.Error.Data["code"] != string(test.code) {
			t.Errorf("%s %.80s = HTTP %d %s, want %s", test.method, test.params, got.Status, got.Body, test.code)
			continue
		}
		if field, _ := got.Error.Data["field"].(string); field != test.field {
			t.Errorf("%s %.80s: field = %q, want %q", test.method, test.params, field, test.field)
		}
	}
	var list a2a.ListContextsResult
	e.ok("contexts/list", `{"metadata":{"sortBy":"name"}}`, &list)
	if list.Total != 4 {
		t.Errorf("found %d contexts, want 4: rejected requests must have no effect", list.Total)
	}
	if got := e.call("tasks/get", fmt.Sprintf(`{"id":%q}`, busy.ID)).task(t); got.Status.State != "working" {
		t.Errorf("task = %+v, want working: rejected requests must have no effect", got)
	}
}

func TestContextsListPages(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for i := range 5 {
		e.ok("contexts/create", fmt.Sprintf(`{"contextId":"c%d","name":"n%d"}`, i, i), nil)
	}
	var got []string
	token := ""
	for page := 1; ; page++ {
		filters := `"limit":2,"sortBy":"name","sortOrder":"desc"`
		if token != "" {
			filters += fmt.Sprintf(`,"page_token":%q`, token)
		}
		var list struct {
			Contexts []struct {
				ContextID, Kind, Role, Status, CreatedAt, UpdatedAt string
				Tasks                                               []string
			}
			Total, Page, PageSize int
			NextPageToken         *string
		}
		e.ok("contexts/list", `{"metadata":{`+filters+`}}`, &list)
		if list.Total != 5 || list.Page != page || list.PageSize != 2 || list.NextPageToken == nil {
			t.Fatalf("page %d = %+v, want its number, total 5 and nextPageToken", page, list)
		}
		for _, c := range list.Contexts {
			got = append(got, c.ContextID)
			if c.Kind != "context" || c.Role != "assistant" || c.Status != "active" || c.CreatedAt == "" || c.UpdatedAt == "" || c.Tasks == nil {
				t.Errorf("context = %+v, want kind, role, status, times and tasks", c)
			}
		}
		if token = *list.NextPageToken; token == "" {
			break
		}
	}
	if want := "c4 c3 c2 c1 c0"; strings.Join(got, " ") != want {
		t.Errorf("pages have %v, want %s", got, want)
	}
}

// A page of tasks has its number, and its total in both members.
func TestTasksListReportsPageAndTotal(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for i := range 3 {
		e.send(fmt.Sprint(i))
	}
	for _, test := range []struct {
		params      string
		page, total int // -1: absent
	}{
		{`{"pageSize":2}`, 1, -1},
		{`{"pageSize":2,"includeTotal":true}`, 1, 3},
		{`{"metadata":{"limit":2,"offset":2}}`, 2, 3},
		{`{"metadata":{"limit":1,"offset":2}}`, 3, 3},
		{`{"includeTotal":true,"contextId":"none"}`, 1, 0},
	} {
		var list map[string]any
		e.ok("tasks/list", test.params, &list)
		if list["page"] != float64(test.page) {
			t.Errorf("tasks/list %s: page = %v, want %d", test.params, list["page"], test.page)
		}
		for _, member := range []string{"total", "totalSize"} {
			if got, ok := list[member]; ok != (test.total >= 0) || ok && got != float64(test.total) {
				t.Errorf("tasks/list %s: %s = %v, want %d", test.params, member, got, test.total)
			}
		}
	}
}
