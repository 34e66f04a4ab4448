package loadgen

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/await"
)

// agent is a small A2A server for these tests. Its fields make it misbehave.
type agent struct {
	polls int // number of calls for which tasks/get returns working

	mu       sync.Mutex
	messages map[string]bool // message ids received
	repeated int             // number of ids received twice
	tasks    map[string]int  // number of reads of each
	contexts int             // number of contexts created
	lists    map[string]int  // lists of contexts by their filters
}

type rpcRequest struct {
	ID     string
	Method string
	Params struct {
		ID       string
		PageSize int
		Name     string
		Tags     []string
		Metadata struct {
			Limit          int
			Status, SortBy string
			Tags           []string
		}
		Message struct {
			MessageID string
			Parts     []struct{ Text string }
		}
		Configuration struct{ Blocking bool }
	}
}

func (a *agent) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var req rpcRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch req.Method {
	case "message/send":
		task := a.newTask(req)
		state := "completed"
		if !req.Params.Configuration.Blocking {
			state = "submitted"
		}
		result(rw, req, taskJSON(task, state))
	case "message/stream":
		a.stream(rw, req)
	case "tasks/get":
		n, ok := a.tasks[req.Params.ID]
		if !ok {
			fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%q,"error":{"code":-32001,"message":"task not found"}}`, req.ID)
			return
		}
		a.tasks[req.Params.ID]++
		state := "working"
		if n >= a.polls {
			state = "completed"
		}
		result(rw, req, taskJSON(req.Params.ID, state))
	case "tasks/list":
		var all []string
		for id := range a.tasks {
			if len(all) < req.Params.PageSize {
				all = append(all, taskJSON(id, "completed"))
			}
		}
		result(rw, req, "["+strings.Join(all, ", ")+"]")
	case "contexts/create":
		if req.Params.Name == req.ID && len(req.Params.Tags) == 2 {
			a.contexts++
		}
		result(rw, req, `{"kind":"context","contextId":"c","tasks":[]}`)
	case "contexts/list":
		if a.lists == nil {
			a.lists = map[string]int{}
		}
		m := req.Params.Metadata
		a.lists[fmt.Sprintf("%s%s%s", m.Status, m.SortBy, m.Tags)]++
		all := strings.Repeat(`,{"kind":"context","tasks":["t"]}`, min(m.Limit, a.contexts))
		result(rw, req, `{"contexts":[`+strings.TrimPrefix(all, ",")+`],"total":99}`)
	}
}

func (a *agent) newTask(req rpcRequest) string {
	if a.messages == nil {
		a.messages, a.tasks = map[string]bool{}, map[string]int{}
	}
	id := req.Params.Message.MessageID
	if a.messages[id] {
		a.repeated++
	}
	a.messages[id] = true
	task := "task-" + id
	a.tasks[task] = 0
	return task
}

func (a *agent) stream(rw http.ResponseWriter, req rpcRequest) {
	task := a.newTask(req)
	rw.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []string{
		taskJSON(task, "submitted"),
		fmt.Sprintf(`{"kind":"artifact-update","taskId":%q,"artifact":{"artifactId":"a","parts":[]}}`, task),
		fmt.Sprintf(`{"kind":"status-update","taskId":%q,"status":{"state":"completed"},"final":true}`, task),
	} {
		fmt.Fprintf(rw, ": a comment\nid: 7\ndata: {\"jsonrpc\":\"2.0\",\"id\":%q,\ndata: \"result\":%s}\r\n\r\n", req.ID, event)
		rw.(http.Flusher).Flush()
	}
}

func taskJSON(id, state string) string {
	return fmt.Sprintf(`{ "history" : [{"kind":"message","state":"failed"}], "kind":"task", "id":%q, "status": {"message":{"kind":"x"}, "state" : %q}, "metadata":{"a\\":"}\"]"} }`, id, state)
}

func result(rw http.ResponseWriter, req rpcRequest, result string) {
	fmt.Fprintf(rw, "{\"jsonrpc\":\"2.0\", \"result\": %s ,\n \"id\":%q}\n", result, req.ID)
}

func echo(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(rw, r.Body)
}

// answering serves each JSON-RPC request with the text that format returns for its id.
func answering(format string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		var req rpcRequest
		_ = json.NewDecoder(r.Body).Decode(&req)
		_, _ = io.WriteString(rw, strings.ReplaceAll(format, "ID", req.ID))
	}
}

// serve starts a server. At the end it checks that no goroutine is left.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	before := runtime.NumGoroutine()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		await.Success(t, func() error {
			after := runtime.NumGoroutine()
			if after <= before {
				return nil
			}
			stacks := make([]byte, 1<<16)
			return fmt.Errorf("goroutines: %d before, %d after\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
		})
	})
	return s.URL
}
