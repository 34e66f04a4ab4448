package loadgen

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"
)

func TestAnswerReadsMembersAtTheirLevelOnly(t *testing.T) {
	t.Parallel()
	var a answer
	err := a.scan([]byte(` {"jsonrpc":"2.0","x":[{"id":"no"},"]}\\"],"result" : {"artifacts":[{"id":"no","status":{"state":"no"},"kind":"no"}],
		"metadata":{"final":true,"a\"}":1.5e3}, "id":"t\"1","kind":"task","final" :false,"status":{"message":{"state":"no"},"state":"working"}},"id":7}`), JSONRPC03)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{string(a.id), string(a.task), string(a.kind), string(a.state)}
	if want := []string{"7", `t\"1`, "task", "working"}; !slices.Equal(got, want) || a.final || a.hasError || !a.hasResult || a.list != "" {
		t.Errorf("scan = %q %+v, want %q", got, a, want)
	}
}

func TestScanReadsResponsesOfOtherBindings(t *testing.T) {
	t.Parallel()
	const task = `{"id":"t","status":{"state":"TASK_STATE_COMPLETED","message":{"taskId":"no"}},"history":[{"messageId":"m"}]}`
	for _, c := range []struct {
		binding Binding
		text    string
		want    string // kind, task and state, or the error
	}{
		{JSONRPC10, `{"id":"x","result":{"task":` + task + `}}`, "task t completed"},
		{JSONRPC10, `{"id":"x","result":` + task + `}`, "task t completed"},
		{JSONRPC10, `{"id":"x","result":{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING"}}}}`, "status-update  TASK_STATE_WORKING"},
		{JSONRPC10, `{"id":"x","error":{"code":-32001,"message":"gone"}}`, "error -32001: gone"},
		{JSONRPC10, `{"id":"y","result":{"task":` + task + `}}`, "answer has another request's id"},
		{REST10, `{"task":` + task + `}`, "task t completed"},
		{REST10, task, "task t completed"},
		{REST10, `{"message":{"messageId":"m"}}`, "message  "},
		{REST10, `{"artifactUpdate":{"artifact":{}}}`, "artifact-update  "},
		{REST10, `{"error":{"code":404,"message":"gone"}}`, "error 404: gone"},
	} {
		var a answer
		err := a.scan([]byte(c.text), c.binding)
		if err == nil {
			err = a.result([]byte("x"))
		}
		got := fmt.Sprintf("%s %s %s", a.kind, a.task, a.state)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %s = %q, want %q", c.binding, c.text, got, c.want)
		}
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	text := []byte(`{"id":"x","result":` + taskJSON("t", "completed") + `}`)
	var a answer
	if n := testing.AllocsPerRun(100, func() { _ = a.scan(text, JSONRPC03) }); n != 0 {
		t.Errorf("allocations per scan = %v, want 0", n)
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"id":"x","result":` + taskJSON("t", "completed") + `}`, `{"result":[{},[1]],"id":null}`, `{"error":{"code":1,"message":"m"},"id":1}`,
		`{"result":{"tasks":[],"status":3}}`, `{"result":{"contexts":[{}],"total":3}}`, `{`, `{"a`, `{"a":}`, `[]`, "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var a answer
		err := a.scan(text, JSONRPC03)
		var want map[string]json.RawMessage
		if json.Unmarshal(text, &want) != nil || want == nil {
			return // the only requirement is that it neither panics nor hangs
		}
		if err != nil {
			t.Errorf("scan(%q) = %v", text, err)
		}
	})
}

// Two streams with the same events, split at different positions, give the same result.
func TestEventsMayBeCutAnywhere(t *testing.T) {
	t.Parallel()
	stream := []byte(": hello\n\n" +
		"id: 1\ndata: {\"id\":\"x\",\"result\":{\"kind\":\"task\",\"id\":\"t\",\ndata: \"status\":{\"state\":\"working\"}}}\n\n" +
		"data:{\"id\":\"x\",\"result\":{\"kind\":\"status-update\",\"status\":{\"state\":\"completed\"},\"final\":true}}\r\n\r\n")
	var e events
	for range 1000 {
		e.reset([]byte("x"))
		for rest := stream; len(rest) > 0; {
			n := min(1+rand.IntN(40), len(rest))
			piece := slices.Clone(rest[:n])
			if err := e.feed(piece); err != nil {
				t.Fatal(err)
			}
			clear(piece) // the reader reuses its buffer
			rest = rest[n:]
		}
		if err := e.end(); err != nil || e.n != 2 {
			t.Fatalf("end = %v after %d events, want nil after 2", err, e.n)
		}
	}
}

func TestIDsAreDistinctUUIDs(t *testing.T) {
	t.Parallel()
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 3 {
		series := newSeries()
		for worker := range 20 {
			id := newIDs(series, worker)
			for range 300 {
				next := string(id.next())
				if !uuid.MatchString(next) || seen[next] {
					t.Fatalf("id %q is no UUID or came before", next)
				}
				seen[next] = true
			}
		}
	}
}

// Both sides are in this process, so the result is mainly the cost of the server.
func BenchmarkSend(b *testing.B) {
	s := httptest.NewServer(answering(`{"id":"ID","result":{"kind":"task","id":"t","status":{"state":"completed"}}}`))
	b.Cleanup(s.Close)
	b.ReportAllocs()
	b.ResetTimer()
	r, err := Run(b.Context(), Config{URL: s.URL, Concurrency: 8, Requests: b.N})
	if err != nil || r.Errors > 0 {
		b.Fatal(r, err)
	}
}

func BenchmarkScan(b *testing.B) {
	text := []byte(`{"id":"x","result":` + taskJSON("t", "completed") + `}`)
	b.SetBytes(int64(len(text)))
	var a answer
	for b.Loop() {
		_ = a.scan(text, JSONRPC03)
	}
}
