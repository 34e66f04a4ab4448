package engine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

type filter = map[string]any

func listContexts(t *testing.T, e *engine.Engine, f filter) *engine.ContextList {
	t.Helper()
	list, err := e.Contexts(t.Context(), alice, a2a.ListContextsParams{Metadata: f})
	if err != nil {
		t.Fatalf("Contexts(%v) = %v", f, err)
	}
	return list
}

// waitNextMillisecond waits until the stored time changes.
func waitNextMillisecond() {
	for now := store.Time(time.Now()); store.Time(time.Now()).Equal(now); {
		runtime.Gosched()
	}
}

func contextNames(list *engine.ContextList) string {
	var all []string
	for _, c := range list.Contexts {
		all = append(all, c.Name)
	}
	return strings.Join(all, " ")
}

// seedContexts creates contexts a to e with creation times one second apart.
func seedContexts(t *testing.T, s store.Store) time.Time {
	t.Helper()
	first := time.Date(2025, 10, 31, 9, 0, 0, 0, time.UTC)
	for i, c := range []store.Context{
		{Name: "a", Role: "analyst", Status: a2a.ContextActive, Tags: []string{"q4", "x"}},
		{Name: "b", Role: "assistant", Status: a2a.ContextPaused, Tags: []string{"q4"}},
		{Name: "c", Role: "analyst", Status: a2a.ContextCompleted},
		{Name: "d", Role: "assistant", Status: a2a.ContextArchived, Tags: []string{"q4", "x", "y"}},
		{Name: "e", Role: "assistant", Status: a2a.ContextActive},
	} {
		c.Key = store.ContextKey{Owner: alice.ID, ID: "id-" + c.Name}
		c.CreatedAt = first.Add(time.Duration(i) * time.Second)
		c.UpdatedAt = first.Add(time.Duration(10-i) * time.Second)
		if _, err := s.SaveContext(t.Context(), store.ContextChange{Context: c, Create: true}); err != nil {
			t.Fatalf("SaveContext() = %v", err)
		}
	}
	return first
}

func TestFiltersSelectAndSortContexts(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		seedContexts(t, s)
		e := start(t, engine.Config{Store: s, Handler: commandHandler, Limits: engine.Limits{PageSize: 4}})
		for _, c := range []struct {
			f     filter
			want  string
			total int
			page  int
			size  int
		}{
			{nil, "a b c d", 5, 1, 4},
			{filter{"status": nil}, "a b c d", 5, 1, 4},
			{filter{"status": "active"}, "a e", 2, 1, 4},
			{filter{"status": []any{"active", "paused"}}, "a b e", 3, 1, 4},
			{filter{"tags": "q4"}, "a b d", 3, 1, 4},
			{filter{"tags": []any{"q4", "x"}}, "a d", 2, 1, 4},
			{filter{"role": "analyst"}, "a c", 2, 1, 4},
			{filter{"createdAfter": "2025-10-31T09:00:01Z", "created_before": "2025-10-31T10:00:03+01:00"}, "b c", 2, 1, 4},
			{filter{"sortBy": "createdAt"}, "e d c b", 5, 1, 4},
			{filter{"sort_by": "createdAt", "sort_order": "asc"}, "a b c d", 5, 1, 4},
			{filter{"sortBy": "updatedAt", "sortOrder": "asc"}, "e d c b", 5, 1, 4},
			{filter{"sortBy": "name"}, "a b c d", 5, 1, 4},
			{filter{"sortBy": "name", "sortOrder": "desc"}, "e d c b", 5, 1, 4},
			{filter{"limit": 2.0}, "a b", 5, 1, 2},
			{filter{"limit": json.Number("2"), "offset": 2}, "c d", 5, 2, 2},
			{filter{"limit": 2, "offset": 3}, "d e", 5, 2, 2},
			{filter{"limit": 1000}, "a b c d", 5, 1, 4},
			{filter{"limit": json.Number("1e18")}, "a b c d", 5, 1, 4},
			{filter{"createdBefore": "0001-01-01T00:00:00Z"}, "", 0, 1, 4},
			{filter{"createdBefore": "1970-01-01T00:00:00Z"}, "", 0, 1, 4},
			{filter{"createdAfter": "0001-01-01T00:00:00Z"}, "a b c d", 5, 1, 4},
			{filter{"offset": 10000}, "", 5, 2501, 4},
		} {
			list := listContexts(t, e, c.f)
			if got := contextNames(list); got != c.want || list.Total != c.total || list.Page != c.page || list.PageSize != c.size {
				t.Errorf("Contexts(%v) = %q, total %d, page %d of size %d; want %+v", c.f, got, list.Total, list.Page, list.PageSize, c)
			}
		}
	})
}

func TestPageTokensWorkInAnyOrder(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		seedContexts(t, s)
		e := start(t, engine.Config{Store: s, Handler: commandHandler})
		for _, sortBy := range []string{"createdAt", "updatedAt", "name"} {
			for _, order := range []string{"asc", "desc"} {
				f := filter{"sortBy": sortBy, "sortOrder": order}
				want := contextNames(listContexts(t, e, f))
				f["limit"] = 2
				got, page := "", 0
				for {
					list := listContexts(t, e, f)
					got += contextNames(list) + " "
					if page++; list.Page != page || list.Total != 5 {
						t.Errorf("page %d reports page %d, total %d", page, list.Page, list.Total)
					}
					if list.NextPageToken == "" {
						break
					}
					f = maps.Clone(f)
					f["pageToken"] = list.NextPageToken
				}
				if strings.TrimSpace(got) != want || page != 3 {
					t.Errorf("by %s %s: %d pages of %q, want 3 of %q", sortBy, order, page, got, want)
				}
				f["role"] = "analyst"
				_, err := e.Contexts(t.Context(), alice, a2a.ListContextsParams{Metadata: f})
				wantError(t, "token of other filters", err, a2a.CodeInvalid, "metadata.pageToken", "other filters")
			}
		}
		after := listContexts(t, e, filter{"limit": 2, "offset": 2})
		next := listContexts(t, e, filter{"limit": 2, "pageToken": after.NextPageToken})
		if after.Page != 2 || next.Page != 3 || contextNames(next) != "e" {
			t.Errorf("page after the offset is %d with %q, want 3 with e", next.Page, contextNames(next))
		}
		two := 2
		byParams, err := e.Contexts(t.Context(), alice, a2a.ListContextsParams{PageSize: &two, PageToken: after.NextPageToken})
		if err != nil || contextNames(byParams) != contextNames(next) || byParams.PageSize != 2 {
			t.Errorf("page by params = %+v, %v, want the same as by filters", byParams, err)
		}
		zero, token := 0, after.NextPageToken
		for field, params := range map[string]a2a.ListContextsParams{
			"pageSize":           {PageSize: &zero},
			"pageToken":          {PageToken: token, Metadata: filter{"role": "analyst"}},
			"metadata.offset":    {PageToken: token, Metadata: filter{"offset": 1}},
			"metadata.limit":     {PageSize: &two, Metadata: filter{"limit": 2}},
			"metadata.pageToken": {PageToken: token, Metadata: filter{"pageToken": token}},
		} {
			_, err := e.Contexts(t.Context(), alice, params)
			wantError(t, field, err, a2a.CodeInvalid, field)
		}
	})
}

func TestInvalidFiltersAreNamed(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	seedContexts(t, s)
	e := start(t, engine.Config{Store: s, Handler: commandHandler})
	tasks, err := e.List(t.Context(), alice, a2a.ListTasksParams{})
	if err != nil {
		t.Fatal(err)
	}
	both := []struct {
		f     filter
		field string
		says  string
	}{
		{filter{"foo": 1}, "metadata.foo", "is not a filter of"},
		{filter{"Status": "active"}, "metadata.Status", "want one of status, "},
		{filter{"status": 1}, "metadata.status", "must be a non-empty string or array"},
		{filter{"status": []any{}}, "metadata.status", "non-empty"},
		{filter{"status": []any{1}}, "metadata.status[0]", "must be a non-empty string"},
		{filter{"status": "done"}, "metadata.status", "want one of"},
		{filter{"status": ""}, "metadata.status", "non-empty"},
		{filter{strings.Repeat("x", 100): 1}, "metadata." + strings.Repeat("x", 64) + "...", "is not a filter of"},
		{filter{"createdAfter": "yesterday"}, "metadata.createdAfter", "RFC 3339"},
		{filter{"createdBefore": "2025-10-31"}, "metadata.createdBefore", "RFC 3339"},
		{filter{"created_before": 5}, "metadata.createdBefore", "must be a non-empty string"},
		{filter{"createdAfter": "2025-10-31T09:00:00Z", "createdBefore": "2025-10-31T09:00:00Z"}, "metadata.createdAfter", "must be before"},
		{filter{"createdAfter": "2025-10-31T09:00:00Z", "created_after": "2025-10-31T09:00:00Z"}, "metadata.createdAfter", "created_after"},
		{filter{"limit": 0}, "metadata.limit", "want 1 or more"},
		{filter{"limit": "5"}, "metadata.limit", "whole number"},
		{filter{"limit": 1.5}, "metadata.limit", "whole number"},
		{filter{"limit": json.Number("1e400")}, "metadata.limit", "whole number"},
		{filter{"offset": -1}, "metadata.offset", "want 0 or more"},
		{filter{"limit": -1e300}, "metadata.limit", "is -1e+300, want 1 or more"},
		{filter{"offset": 10001}, "metadata.offset", "pageToken"},
		{filter{"offset": 1e300}, "metadata.offset", "want 0 to 10000"},
		{filter{"offset": 1, "pageToken": "x"}, "metadata.offset", "not both"},
		{filter{"sortBy": "age"}, "metadata.sortBy", "want one of updatedAt, createdAt"},
		{filter{"sortOrder": "up"}, "metadata.sortOrder", "want one of desc, asc"},
		{filter{"historyLength": -1}, "metadata.historyLength", "0 or more"},
		{filter{"historyLength": true}, "metadata.historyLength", "whole number"},
		{filter{"pageToken": ""}, "metadata.pageToken", "non-empty"},
		{filter{"pageToken": 7}, "metadata.pageToken", "must be a non-empty string"},
		{filter{"page_token": "abc"}, "metadata.pageToken", "not issued by this agent"},
	}
	for i, c := range both {
		_, err := e.Contexts(t.Context(), alice, a2a.ListContextsParams{Metadata: c.f})
		wantField(t, fmt.Sprintf("Contexts(%v)", c.f), err, c.field, c.says)
		if strings.Contains(c.says, "want one of u") {
			both[i].says = "want one of updatedAt, createdAt"
		}
		_, err = e.List(t.Context(), alice, a2a.ListTasksParams{Metadata: c.f})
		wantField(t, fmt.Sprintf("List(%v)", c.f), err, c.field, c.says)
	}
	for _, c := range []struct {
		f     filter
		field string
		says  string
	}{
		{filter{"tags": []any{"a", " b"}}, "metadata.tags[1]", "space"},
		{filter{"tags": 1}, "metadata.tags", "array of strings"},
		{filter{"tags": ""}, "metadata.tags", "non-empty"},
		{filter{"tags": " b"}, "metadata.tags", "space"},
		{filter{"role": []any{"a"}}, "metadata.role", "must be a non-empty string"},
		{filter{"role": strings.Repeat("r", 65)}, "metadata.role", "at most 64"},
		{filter{"role": "a\x00"}, "metadata.role", "control characters"},
		{filter{"contextId": "a"}, "metadata.contextId", "is not a filter of contexts/list, want one of status, tags, role, "},
	} {
		_, err := e.Contexts(t.Context(), alice, a2a.ListContextsParams{Metadata: c.f})
		wantField(t, fmt.Sprintf("Contexts(%v)", c.f), err, c.field, c.says)
	}
	_, err = e.Contexts(t.Context(), alice, a2a.ListContextsParams{HistoryLength: ptr(1), Metadata: filter{"history_length": 1}})
	wantField(t, "Contexts(historyLength twice)", err, "metadata.historyLength", "not both")
	for field, params := range map[string]a2a.ListTasksParams{
		"metadata.status":        {States: []a2a.TaskState{a2a.StateWorking}, Metadata: filter{"status": "working"}},
		"metadata.contextId":     {ContextID: "a", Metadata: filter{"contextId": "a"}},
		"metadata.limit":         {PageSize: ptr(1), Metadata: filter{"limit": 1}},
		"metadata.historyLength": {HistoryLength: ptr(1), Metadata: filter{"historyLength": 1}},
		"metadata.pageToken":     {PageToken: "a", Metadata: filter{"pageToken": "a"}},
	} {
		_, err := e.List(t.Context(), alice, params)
		wantField(t, "List(twice)", err, field, "not both")
	}
	for name, f := range map[string]filter{"metadata.contextId": {"contextId": "a\nb"}, "metadata.tags": {"tags": "x"}} {
		_, err := e.List(t.Context(), alice, a2a.ListTasksParams{Metadata: f})
		wantField(t, fmt.Sprintf("List(%v)", f), err, name, "")
	}
	if got, err := e.List(t.Context(), alice, a2a.ListTasksParams{}); err != nil || cmp.Diff(tasks, got) != "" {
		t.Errorf("rejected lists changed the tasks: %v", err)
	}
}

func wantField(t *testing.T, what string, err error, field, says string) {
	t.Helper()
	wantError(t, what, err, a2a.CodeInvalid, field, says)
	if coded, ok := err.(*a2a.Error); !ok || coded.Data["field"] != field { //nolint:errorlint // the error is returned unwrapped
		t.Errorf("%s = %v, want the field %s", what, err, field)
	}
}

func TestContextsAreListedWithHistory(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Store: s, Handler: commandHandler})
		for range 25 {
			sendWait(t, e, messageIn("c", "x"))
		}
		params := a2a.ListContextsParams{}
		for want, n := range map[int]*int{0: nil, 20: ptr(1), 40: ptr(2)} {
			params.HistoryLength = n
			list, err := e.Contexts(t.Context(), alice, params)
			if err != nil || len(list.Contexts) != 1 || len(list.Contexts[0].History) != want || len(list.Contexts[0].TaskIDs) != 25 {
				t.Fatalf("Contexts(historyLength %v) = %+v, %v; want %d messages", n, list, err, want)
			}
			if h := list.Contexts[0].History; want == 20 && (h[0].TaskID != list.Contexts[0].TaskIDs[5] || h[19].TaskID != list.Contexts[0].TaskIDs[24]) {
				t.Errorf("history goes from task %s to %s, want the newest 20 oldest first", h[0].TaskID, h[19].TaskID)
			}
		}
	})
}

// A page with too much history ends early, and no message is lost.
func TestContextPageIsLimitedBySize(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: commandHandler, Limits: engine.Limits{PageBytes: 10_000}})
	for i := range 9 {
		sendWait(t, e, messageIn(fmt.Sprint("c", i), strings.Repeat("x", 3000)))
	}
	seen, pages := 0, 0
	f := filter{"historyLength": 5, "limit": 9}
	for {
		list := listContexts(t, e, f)
		pages++
		size := 0
		for _, c := range list.Contexts {
			seen++
			if len(c.History) != 2 {
				t.Errorf("context %s has %d messages, want 2", c.Key.ID, len(c.History))
			}
			for _, m := range c.History {
				size += len(m.Text())
			}
		}
		if size > 10_000 || list.Page != pages {
			t.Errorf("page %d reports page %d with %d bytes, want at most 10000", pages, list.Page, size)
		}
		if list.NextPageToken == "" {
			break
		}
		f["pageToken"] = list.NextPageToken
	}
	if seen != 9 || pages != 3 {
		t.Errorf("%d contexts on %d pages, want 9 on 3", seen, pages)
	}
	waitNextMillisecond()
	sendWait(t, e, messageIn("big", strings.Repeat("x", 30_000)))
	list := listContexts(t, e, filter{"historyLength": 5})
	if len(list.Contexts) != 1 || len(list.Contexts[0].History) != 1 || list.NextPageToken == "" {
		t.Errorf("%d contexts on the page with the big one, want it alone", len(list.Contexts))
	}
}

func TestListTasksByMetadataFilters(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Store: s, Handler: commandHandler})
		var ids []string
		for _, said := range []string{"ask", "x", "y", "z"} {
			waitNextMillisecond()
			ids = append(ids, sendWait(t, e, messageIn("c", said)).Key.ID)
		}
		sendWait(t, e, message("elsewhere"))
		waitNextMillisecond()
		sendWait(t, e, messageTo(ids[0], "x")) // its status is the newest now
		for _, c := range []struct {
			f    filter
			want []int
			page int
		}{
			{filter{"contextId": "c"}, []int{0, 3, 2, 1}, 1},
			{filter{"contextId": "c", "sortBy": "createdAt"}, []int{3, 2, 1, 0}, 1},
			{filter{"context_id": "c", "sortBy": "createdAt", "sortOrder": "asc"}, []int{0, 1, 2, 3}, 1},
			{filter{"contextId": "c", "sortBy": "createdAt", "limit": 2, "offset": 2}, []int{1, 0}, 2},
			{filter{"contextId": "c", "status": []any{"failed", "canceled"}}, nil, 1},
		} {
			list, err := e.List(t.Context(), alice, a2a.ListTasksParams{Metadata: c.f})
			if err != nil {
				t.Fatalf("List(%v) = %v", c.f, err)
			}
			var want, got []string
			for _, i := range c.want {
				want = append(want, ids[i])
			}
			for _, task := range list.Tasks {
				got = append(got, task.Key.ID)
			}
			if diff := cmp.Diff(want, got); diff != "" || list.Page != c.page || list.Total < len(want) {
				t.Errorf("List(%v): page %d, total %d (-want +got):\n%s", c.f, list.Page, list.Total, diff)
			}
		}
		f := filter{"sortBy": "createdAt", "sortOrder": "asc", "limit": 2, "historyLength": 0}
		got, pages := 0, 0
		for {
			list, err := e.List(t.Context(), alice, a2a.ListTasksParams{Metadata: f})
			if err != nil {
				t.Fatal(err)
			}
			if pages++; list.Page != pages || list.Total != 5 {
				t.Errorf("page %d reports page %d, total %d", pages, list.Page, list.Total)
			}
			got += len(list.Tasks)
			if f["pageToken"] = list.NextPageToken; list.NextPageToken == "" {
				break
			}
		}
		if got != 5 || pages != 3 {
			t.Errorf("%d tasks on %d pages, want 5 on 3", got, pages)
		}
		if list, err := e.List(t.Context(), alice, a2a.ListTasksParams{}); err != nil || list.Total != -1 || list.Page != 1 {
			t.Errorf("List() = total %d, page %d, %v; want no total, page 1", list.Total, list.Page, err)
		}
	})
}
