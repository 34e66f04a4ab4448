package server_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// The params and the result have the names of the official Go client (a2a-go 0.3.15).
func TestTasksListInTheNamesOfTheOfficialGoClient(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for range 3 {
		e.send("hello")
	}
	after := time.Now().Add(-time.Minute).Format(time.RFC3339Nano)
	params := func(more string) string {
		return fmt.Sprintf(`{"status":"completed","page_size":2,"history_length":1,"last_updated_after":%q,"include_artifacts":true%s}`, after, more)
	}
	type page struct {
		Tasks []struct {
			ID                 string
			History, Artifacts []json.RawMessage
		} `json:"tasks"`
		TotalSize     int    `json:"total_size"`
		PageSize      int    `json:"page_size"`
		NextPageToken string `json:"next_page_token"`
	}
	list := func(params string) (p page) {
		got := e.call(a2a.MethodList, params)
		if err := json.Unmarshal(got.Result, &p); err != nil {
			t.Fatalf("%s: %v", got.Body, err)
		}
		return p
	}
	first := list(params(""))
	if len(first.Tasks) != 2 || first.PageSize != 2 || first.TotalSize != 3 || first.NextPageToken == "" {
		t.Fatalf("first page = %+v, want 2 of 3 tasks and a token", first)
	}
	if task := first.Tasks[0]; len(task.History) != 1 || len(task.Artifacts) == 0 {
		t.Errorf("task = %+v, want one message and artifacts", task)
	}
	last := list(params(fmt.Sprintf(`,"page_token":%q`, first.NextPageToken)))
	if len(last.Tasks) != 1 || last.NextPageToken != "" || last.Tasks[0].ID == first.Tasks[1].ID {
		t.Errorf("last page = %+v, want the third task and no token", last)
	}
	future := time.Now().Add(time.Hour).Format(time.RFC3339)
	if none := list(fmt.Sprintf(`{"last_updated_after":%q}`, future)); len(none.Tasks) != 0 {
		t.Errorf("tasks after %s = %+v, want none", future, none.Tasks)
	}
}
