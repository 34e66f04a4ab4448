package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

// randomTurn writes artifacts, metadata and a reply that depend on the seed in the message.
func randomTurn(_ context.Context, t *engine.Turn) error {
	var seed uint64
	if _, err := fmt.Sscanf(t.Messages()[0].Text(), "seed %d", &seed); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	part := func() a2a.Part {
		text := pick(r, "x", "é\u2028<>&\"\\", "😀\x7f\ufffd", strings.Repeat("line\n", r.IntN(2000)), "")
		return pick[a2a.Part](r, a2a.TextPart{Text: text}, a2a.TextPart{Text: text, Metadata: map[string]any{"snake_case": text, "camelCase": 1.5}},
			a2a.DataPart{Data: map[string]any{"camelCase": []any{nil, true, json.Number("1e400"), text}, "a": map[string]any{}}},
			a2a.FilePart{File: a2a.FileWithBytes{Name: "a.txt", MimeType: "text/plain", Bytes: []byte(text)}})
	}
	for i := range r.IntN(4) {
		a := a2a.Artifact{ID: fmt.Sprint("a", i), Name: pick(r, "", "out"), Parts: []a2a.Part{part(), part()}}
		if err := t.AddArtifact(a); err != nil {
			return err
		}
	}
	if r.IntN(3) == 0 {
		if err := t.SetMetadata(map[string]any{"camelCase": map[string]any{"b": 1.0}, "k": "v"}); err != nil {
			return err
		}
	}
	switch r.IntN(6) {
	case 0:
		return t.RequireInput(part())
	case 1:
		return t.Reject(part())
	}
	return t.Reply(part())
}

// Responses from the read cache must equal the responses of a server without cache, byte for
// byte: with every codec, for all history lengths, with and without artifacts.
func TestReadCacheReturnsIdenticalResponses(t *testing.T) {
	t.Parallel()
	for name, codec := range map[string]v03.Codec{"a2a": {}, "bindu": {Bindu: true}} {
		for backend, open := range map[string]func(t *testing.T) store.Store{
			"memory": func(*testing.T) store.Store { return inmem.New() },
			"SQLite": func(t *testing.T) store.Store {
				db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				return db
			},
		} {
			t.Run(name+" "+backend, func(t *testing.T) {
				t.Parallel()
				e := startOn(t, open(t), randomTurn, func(c *server.Config) { c.Codecs, c.Requests.ReadCacheBytes = []rpc.Codec{codec}, 1<<20 })
				compareEncodings(t, e, codec)
			})
		}
	}
}

func compareEncodings(t *testing.T, e *env, codec rpc.Codec) {
	without, err := server.New(server.Config{Engine: e.engine, Card: a2a.AgentCard{Name: "tester", Version: "1.2.3"}, Codecs: []rpc.Codec{codec}, Requests: server.Requests{ReadCacheBytes: -1}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(11, 4))
	tasks := []string{"none"}
	for i := range 40 {
		sent := e.call("message/send", params(message(fmt.Sprint("seed ", i)), blocking))
		var v struct{ Result struct{ ID string } }
		if err := json.Unmarshal(sent.Body, &v); err != nil || v.Result.ID == "" {
			t.Fatalf("message/send = %s", sent.Body)
		}
		tasks = append(tasks, v.Result.ID)
		if r.IntN(3) == 0 { // a paused task continues, to make its history longer
			e.call("message/send", params(message(fmt.Sprint("seed ", 100+i), fmt.Sprintf(`"taskId":%q`, v.Result.ID)), blocking))
		}
	}
	requestIDs := regexp.MustCompile(`"request_?[iI]d":"[^"]*"`)
	for i := range 300 {
		method, in := "tasks/get", map[string]any{"id": pick(r, tasks...)}
		if r.IntN(2) == 0 {
			method, in = "tasks/list", map[string]any{"pageSize": pick(r, 1, 3, 20), "includeArtifacts": r.IntN(2) == 0}
			if r.IntN(3) == 0 {
				in["metadata"] = map[string]any{pick(r, "historyLength", "history_length"): r.IntN(3)}
			}
			if r.IntN(3) == 0 {
				in["offset"] = r.IntN(9)
			}
			if r.IntN(3) == 0 {
				in["status"] = pick(r, "completed", "rejected", "input-required")
			}
		}
		if in["metadata"] == nil && r.IntN(2) == 0 {
			in["historyLength"] = r.IntN(4) - r.IntN(10)/9
		}
		if i%50 == 49 {
			e.call("tasks/delete", fmt.Sprintf(`{"id":%q}`, pick(r, tasks...)))
		}
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, raw)
		ask := func(h *server.Server) string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/", strings.NewReader(body)))
			return requestIDs.ReplaceAllString(w.Body.String(), "")
		}
		want := ask(without)
		for range 2 { // the second response comes from the cache
			if got := ask(e.server); got != want || !strings.Contains(got, `"result":`) && !strings.Contains(got, `-32001`) && in["historyLength"] != -1 {
				t.Fatalf("%s\nwith cache:\n%.2000s\nwithout:\n%.2000s", body, got, want)
			}
		}
	}
	if cache := readCache(t, e.server); cache.Hits < 300 || cache.Bytes < 1 || cache.Bytes > 1<<20 {
		t.Errorf("readCache = %+v, want many hits and up to 1 MiB", cache)
	}
	if cache := readCache(t, without); cache.Hits+cache.Bytes != 0 {
		t.Errorf("readCache = %+v of a server without cache", cache)
	}
}

type readCacheView struct{ Tasks, Bytes, Hits int64 }

func readCache(t *testing.T, s *server.Server) readCacheView {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/health", nil))
	var v struct{ ReadCache readCacheView }
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v.ReadCache
}

// pascalCodec gives methods the names of A2A 1.0 and writes results in snake_case.
type pascalCodec struct{ v03.Codec }

func (pascalCodec) MethodName(m *a2a.Method) string { return m.NameV10 }

func TestReadCacheDistinguishesCodecs(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Codecs = []rpc.Codec{v03.Codec{}, pascalCodec{v03.Codec{Bindu: true}}} })
	query := fmt.Sprintf(`{"id":%q}`, e.call("message/send", params(message("a"), blocking)).task(t).ID)
	for range 2 {
		for method, member := range map[string]string{"tasks/get": `"contextId":`, "GetTask": `"context_id":`, "tasks/list": `"contextId":`, "ListTasks": `"context_id":`} {
			params := query
			if strings.HasSuffix(strings.ToLower(method), "tasks") || strings.HasSuffix(method, "list") {
				params = `{"historyLength":9}`
			}
			if got := string(e.call(method, params).Body); strings.Count(got, "context") == 0 || strings.Count(got, `"context`) != strings.Count(got, member) {
				t.Errorf("%s = %s, want members such as %s only", method, got, member)
			}
		}
	}
	if cache := readCache(t, e.server); cache.Hits < 4 {
		t.Errorf("readCache = %+v, want a hit for each method", cache)
	}
}

func TestReadCacheIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 256 << 10
	for name, change := range map[string]func(*server.Config){
		"by the setting":                   func(c *server.Config) { c.Requests.ReadCacheBytes = limit },
		"by default, to 1/8 of the memory": func(c *server.Config) { c.Memory = memory.New(8 * limit) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, echo, change)
			get := func(id, text string) {
				sent := fmt.Sprintf(`{"kind":"message","messageId":%q,"role":"user","parts":[{"kind":"text","text":%q}]}`, id, text)
				e.call("tasks/get", fmt.Sprintf(`{"id":%q}`, e.call("message/send", params(sent, blocking)).task(t).ID))
			}
			for i := range 200 {
				get(fmt.Sprint(i), "small")
				if cache := readCache(t, e.server); cache.Bytes > limit || cache.Tasks == 0 {
					t.Fatalf("readCache = %+v, want up to %d bytes", cache, limit)
				}
			}
			before := readCache(t, e.server)
			get("large", strings.Repeat("x", limit/4))
			if cache := readCache(t, e.server); cache != before {
				t.Errorf("readCache = %+v after reading a large task, want it unchanged: %+v", cache, before)
			}
		})
	}
}

// A task that a client creates again after deleting it has the same key, and may have the same number of events.
func TestReadCacheDistinguishesTasksWithTheSameID(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(e *env, id string) string{
		"tasks/get":  func(e *env, id string) string { return string(e.call("tasks/get", `{"id":"`+id+`"}`).Body) },
		"tasks/list": func(e *env, _ string) string { return string(e.call("tasks/list", `{"historyLength":9}`).Body) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, echo, nil)
			id := freshUUID()
			for _, text := range []string{"first", "second"} {
				if sent := e.call("message/send", params(message(text, fmt.Sprintf(`"taskId":%q,"contextId":%q`, id, id)), blocking)); sent.Error != nil {
					t.Fatalf("message/send = %s", sent.Body)
				}
				for range 2 {
					if got := read(e, id); !strings.Contains(got, `"text":"`+text+`"`) {
						t.Errorf("%s = %s, want the %s task", name, got, text)
					}
				}
				if deleted := e.call("tasks/delete", `{"id":"`+id+`"}`); deleted.Error != nil {
					t.Fatalf("tasks/delete = %s", deleted.Body)
				}
			}
			if cache := readCache(t, e.server); cache.Hits < 2 {
				t.Errorf("readCache = %+v, want a hit for each task", cache)
			}
		})
	}
}
