package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store"
)

// manualClock is a store with a clock that the test sets, so that servers over different stores
// return the same times and many times are equal.
type manualClock struct {
	store.Store
	millis *atomic.Int64
}

func (c manualClock) Now() time.Time { return time.UnixMilli(c.millis.Load()).UTC() }

// scripted is a handler that does what the text of the message names.
func scripted(ctx context.Context, t *engine.Turn) error {
	word := a2a.TextPart{Text: t.Messages()[0].Text()}
	switch word.Text {
	case "hold":
		<-ctx.Done()
		return ctx.Err()
	case "ask":
		return t.RequireInput(word)
	case "reject":
		return t.Reject(word)
	case "fail":
		return fmt.Errorf("failed on request")
	}
	for range 3 {
		if err := t.AddArtifact(a2a.Artifact{Name: "out", Parts: []a2a.Part{word}}); err != nil {
			return err
		}
	}
	return t.Reply(word)
}

// backendSet has servers over different stores that receive the same requests. Their
// responses must be identical except for generated IDs.
type backendSet struct {
	t       *testing.T
	r       *rand.Rand
	envs    []*env
	names   []string
	aliases []map[string]string // by server: alias of each ID
	ids     []map[string]string // by server: ID of each alias
	clock   atomic.Int64

	tasks, contexts map[string][]string // aliases by token
	tokens          []string            // by server: page token of the last response
}

func newBackendSet(t *testing.T, seed uint64) *backendSet {
	w := &backendSet{
		t: t, r: rand.New(rand.NewPCG(seed, 0)), names: []string{"memory", "SQLite"},
		tasks: map[string][]string{}, contexts: map[string][]string{},
	}
	w.clock.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, st := range []store.Store{inmem.New(), db} {
		var last atomic.Int64
		e := startConfig(t, engine.Config{
			Store: manualClock{st, &w.clock}, Handler: scripted,
			NewID: func() string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", last.Add(1)) },
		}, twoTokens)
		ts := httptest.NewServer(e.server)
		t.Cleanup(ts.Close)
		e.url, e.client = ts.URL, ts.Client()
		w.envs = append(w.envs, e)
		w.aliases, w.ids = append(w.aliases, map[string]string{}), append(w.ids, map[string]string{})
	}
	return w
}

var (
	generatedID = regexp.MustCompile(`00000000-0000-7000-8000-[0-9a-f]{12}|[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	aliasForm   = regexp.MustCompile(`ID\d+#`)
	requestID   = regexp.MustCompile(`,?"requestId":"[^"]*"`)
	pageToken   = regexp.MustCompile(`"(nextPageToken|next_page_token)":"([^"]+)"`)
)

// call sends a request to all servers and returns their common response. Params and response
// contain aliases instead of IDs.
func (w *backendSet) call(who, method, params string, h ...string) (answer reply) {
	w.t.Helper()
	var first string
	tokens := make([]string, len(w.envs))
	for i, e := range w.envs {
		translated := aliasForm.ReplaceAllStringFunc(params, func(id string) string { return w.ids[i][id] })
		translated = strings.ReplaceAll(translated, "PAGE-TOKEN", at(w.tokens, i))
		got := e.call(method, translated, append(as(who), h...)...)
		if got.Status != 200 || got.code() == a2a.CodeInternal.JSONRPC() {
			w.t.Errorf("%s: %s %s = HTTP %d %s", w.names[i], method, translated, got.Status, got.Body)
		}
		if got.code() == a2a.CodeInvalid.JSONRPC() && got.Error.Data["field"] == nil {
			w.t.Errorf("%s: %s %s = %s, want a field in the error", w.names[i], method, translated, got.Body)
		}
		if m := pageToken.FindSubmatch(got.Body); m != nil {
			tokens[i] = string(m[2])
		}
		body := generatedID.ReplaceAllStringFunc(string(got.Body), func(id string) string { return w.alias(i, id) })
		body = pageToken.ReplaceAllString(requestID.ReplaceAllString(body, ""), `"$1":"token"`)
		if i == 0 {
			first = body
		} else if body != first {
			w.t.Fatalf("%s %s as %s: responses differ\n%s: %s\n%s: %s", method, params, who, w.names[0], first, w.names[i], body)
		}
	}
	w.tokens = tokens
	if err := json.Unmarshal([]byte(first), &answer); err != nil {
		w.t.Fatal(err)
	}
	answer.Body = []byte(first)
	return answer
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// alias returns the alias of an ID, which numbers the server's IDs in the order in which
// they appear.
func (w *backendSet) alias(server int, id string) string {
	alias, found := w.aliases[server][id]
	if !found {
		alias = fmt.Sprintf("ID%d#", len(w.aliases[server]))
		w.aliases[server][id], w.ids[server][alias] = alias, id
	}
	return alias
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// pickID returns an ID of the caller, sometimes one of another owner or one that does not exist.
func (w *backendSet) pickID(of map[string][]string, who string) string {
	if w.r.IntN(12) == 0 {
		who = pick(w.r, "alice", "bob")
	}
	if len(of[who]) == 0 || w.r.IntN(20) == 0 {
		return pick(w.r, "none", "é ", "a'b", strings.Repeat("x", 129))
	}
	return pick(w.r, of[who]...)
}

// randomObject returns a JSON object with the given members and a random selection of others.
func (w *backendSet) randomObject(fixed map[string]any, percent int, members map[string]func() any) string {
	object := fixed
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if w.r.IntN(100) < percent {
			object[name] = members[name]()
		}
	}
	raw, err := json.Marshal(object)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

// randomText returns a text that stores may order, compare or encode differently, sometimes a value
// of another type.
func (w *backendSet) randomText() any {
	if w.r.IntN(25) == 0 {
		return pick[any](w.r, "", "a\x00b", "\u2028", 1.5, -1, true, nil, []any{"a"}, map[string]any{"a": 1}, strings.Repeat("x", 300))
	}
	return pick[any](w.r, "a", "A", "b", "é", "e\u0301", "É", "ß", "ss", "א", "名", "\uffff", "\U00010000", "😀", "%", "_", `\`, "'", `"`, " a", "10", "9")
}

func (w *backendSet) randomList(of func() any) func() any {
	return func() any {
		items := []any{}
		for range w.r.IntN(4) {
			items = append(items, of())
		}
		return items
	}
}

func (w *backendSet) randomNumber() any {
	if w.r.IntN(10) == 0 {
		return pick[any](w.r, -1, 1.5, 1e30, "1")
	}
	return w.r.IntN(4)
}

func (w *backendSet) randomTime() any {
	if w.r.IntN(10) == 0 {
		return pick[any](w.r, "2026-01-02", 1)
	}
	at := time.UnixMilli(w.clock.Load() - int64(w.r.IntN(40))).UTC()
	return at.Add(time.Duration(w.r.IntN(2)) * time.Microsecond).Format(time.RFC3339Nano)
}

func (w *backendSet) randomContext(who string, update bool) string {
	id := func() any { return w.pickID(w.contexts, who) }
	tag := func() any { return pick[any](w.r, "q", "Q", "é", "%", "a,b", w.randomText()) }
	members := map[string]func() any{
		"description": w.randomText, "role": w.randomText, "tags": w.randomList(tag), "parentContextId": id, "referenceContextIds": w.randomList(id),
		"metadata": func() any { return map[string]any{"k": w.randomText(), "n": w.randomNumber()} },
		"status":   func() any { return pick(w.r, "active", "paused") },
	}
	fixed := map[string]any{"contextId": pick(w.r, fmt.Sprint("c", w.r.IntN(40)), fmt.Sprint("名", w.r.IntN(9))), "name": w.randomText()}
	if update {
		fixed = map[string]any{"contextId": w.pickID(w.contexts, who)}
		members["name"] = w.randomText
		members["status"] = func() any { return pick(w.r, "active", "active", "paused", "completed", "archived", "no") }
		members["force"] = func() any { return w.r.IntN(2) == 0 }
	}
	return w.randomObject(fixed, 30, members)
}

func (w *backendSet) sendRandom(who string) {
	word := pick(w.r, "done", "done", "ask", "ask", "reject", "fail", "hold")
	more := []string{}
	switch w.r.IntN(4) {
	case 0:
		more = append(more, fmt.Sprintf(`"taskId":%q`, w.pickID(w.tasks, who)))
		word = "done"
	case 1, 2:
		more = append(more, fmt.Sprintf(`"contextId":%q`, w.pickID(w.contexts, who)))
	}
	if word == "hold" || w.r.IntN(4) == 0 && len(more) == 0 {
		word = "hold"
	}
	wait := blocking
	if word == "hold" || len(more) > 0 && strings.Contains(more[0], "taskId") {
		wait = `"configuration":{"historyLength":0}`
	}
	w.sendSettled(who, params(message(word, more...), wait), wait != blocking)
}

// sendSettled sends a message. If it does not wait for the task, the progress of the task at the
// time of the response depends on timing, so settle waits until the task is idle and
// compares its state.
func (w *backendSet) sendSettled(who, params string, waitIdle bool) {
	if !waitIdle {
		w.remember(who, w.call(who, "message/send", params))
		return
	}
	var task string
	for i, e := range w.envs {
		translated := aliasForm.ReplaceAllStringFunc(params, func(id string) string { return w.ids[i][id] })
		got := e.call("message/send", translated, as(who)...)
		if got.Error != nil {
			w.call(who, "message/send", params) // all servers reject it without effect
			return
		}
		v := got.task(w.t)
		task = w.alias(i, v.ID)
		if context := v.ContextID; generatedID.MatchString(context) {
			w.alias(i, context)
		}
		e.waitIdle(who, v.ID)
	}
	w.remember(who, w.call(who, "tasks/get", fmt.Sprintf(`{"id":%q}`, task)))
}

// waitIdle waits until a task is idle or its handler blocks.
func (e *env) waitIdle(who, id string) {
	for {
		t, err := e.engine.Task(e.t.Context(), a2a.Principal{ID: who}, id, nil)
		if err != nil {
			e.t.Fatal(err)
		}
		state := t.Status.State
		if state.Final() || state == a2a.StateWorking && t.History[0].Message.Text() == "hold" {
			return
		}
		select {
		case <-e.t.Context().Done():
			e.t.Fatal(context.Cause(e.t.Context()))
		case <-time.After(time.Millisecond):
		}
	}
}

// remember records the task and the context of a response.
func (w *backendSet) remember(who string, answer reply) {
	var v taskView
	if answer.Error != nil || json.Unmarshal(answer.Result, &v) != nil {
		return
	}
	for of, id := range map[*map[string][]string]string{&w.tasks: v.ID, &w.contexts: v.ContextID} {
		if id != "" && !slices.Contains((*of)[who], id) {
			(*of)[who] = append((*of)[who], id)
		}
	}
}

var listMethods = []struct{ method, items, id string }{
	{"contexts/list", "contexts", "contextId"}, {"tasks/list", "tasks", "id"}, {"tasks/feedback/list", "feedback", "feedbackId"},
}

// randomFilters returns random metadata of a list request, without an offset if pages are compared.
func (w *backendSet) randomFilters(who, method string, paged bool) string {
	fixed, percent := map[string]any{}, 35
	members := map[string]func() any{
		"sortOrder": func() any { return pick(w.r, "asc", "desc") }, "createdAfter": w.randomTime, "created_before": w.randomTime,
		"historyLength": w.randomNumber, "offset": w.randomNumber,
	}
	if paged {
		percent = 15
		delete(members, "offset")
	}
	switch {
	case method == "contexts/list" && w.r.IntN(2) == 0:
		fixed["sortBy"] = "name"
		delete(members, "createdAfter")
		delete(members, "created_before")
	case method == "contexts/list":
		members["sortBy"] = func() any { return pick(w.r, "createdAt", "updatedAt") }
		members["status"] = func() any { return pick[any](w.r, "active", []string{"paused", "archived"}, "no") }
		members["tags"], members["role"] = w.randomList(w.randomText), w.randomText
	case method == "tasks/list":
		members["sort_by"] = func() any { return pick(w.r, "createdAt", "updatedAt", "name") }
		members["status"] = func() any { return pick[any](w.r, "completed", []string{"working", "input-required"}) }
		members["contextId"] = func() any { return w.pickID(w.contexts, who) }
	default:
		return `{}`
	}
	return w.randomObject(fixed, percent, members)
}

// comparePages reads a list in small pages by page token and compares it with one large page.
func (w *backendSet) comparePages(who string) {
	of := pick(w.r, listMethods...)
	filters := w.randomFilters(who, of.method, true)
	ids := func(got reply) (ids []string) {
		var result map[string]json.RawMessage
		var items []map[string]any
		if json.Unmarshal(got.Result, &result) != nil || json.Unmarshal(result[of.items], &items) != nil {
			w.t.Fatalf("%s = %s", of.method, got.Body)
		}
		for _, item := range items {
			ids = append(ids, item[of.id].(string))
		}
		return ids
	}
	whole := w.call(who, of.method, fmt.Sprintf(`{"pageSize":100,"metadata":%s}`, filters))
	if whole.Error != nil || bytes.Contains(whole.Body, []byte(`"nextPageToken":"token"`)) {
		return
	}
	var got []string
	size := 1 + w.r.IntN(5)
	page := fmt.Sprintf(`{"pageSize":%d,"metadata":%s}`, size, filters)
	for params := page; ; params = strings.Replace(page, "{", `{"pageToken":"PAGE-TOKEN",`, 1) {
		answer := w.call(who, of.method, params)
		if answer.Error != nil {
			w.t.Fatalf("%s %s = %s", of.method, params, answer.Body)
		}
		got = append(got, ids(answer)...)
		if at(w.tokens, 0) == "" {
			break
		}
	}
	if want := ids(whole); !slices.Equal(got, want) {
		w.t.Fatalf("%s %s in pages = %v, want %v", of.method, page, got, want)
	}
}

// step sends one random request.
func (w *backendSet) step() {
	who := pick(w.r, "alice", "alice", "bob")
	id := func(of map[string][]string) string { return w.pickID(of, who) }
	switch n := w.r.IntN(100); {
	case n < 25:
		w.remember(who, w.call(who, "contexts/create", w.randomContext(who, false)))
	case n < 35:
		w.call(who, "contexts/update", w.randomContext(who, true))
	case n < 55:
		w.sendRandom(who)
	case n < 60:
		w.call(who, "contexts/get", fmt.Sprintf(`{"contextId":%q,"historyLength":%d}`, id(w.contexts), w.r.IntN(4)-1))
	case n < 64:
		w.call(who, "tasks/get", fmt.Sprintf(`{"id":%q,"historyLength":%d}`, id(w.tasks), w.r.IntN(4)-1))
	case n < 68:
		w.call(who, "tasks/cancel", fmt.Sprintf(`{"id":%q}`, id(w.tasks)))
	case n < 71:
		w.call(who, "contexts/clear", fmt.Sprintf(`{"contextId":%q,"force":%t}`, id(w.contexts), w.r.IntN(2) == 0))
	case n < 80:
		body := w.randomObject(map[string]any{"taskId": id(w.tasks)}, 70, map[string]func() any{
			"feedback": w.randomText, "rating": func() any { return w.r.IntN(7) }, "metadata": func() any { return map[string]any{"k": w.randomText()} },
		})
		var key []string
		if w.r.IntN(3) == 0 {
			w.clock.Add(1) // its ID is a hash, so its order is random
			key = []string{"Idempotency-Key", fmt.Sprint("k", w.r.IntN(3))}
		}
		w.call(who, "tasks/feedback", body, key...)
		w.clock.Add(int64(len(key)))
	case n < 90:
		of := pick(w.r, listMethods...)
		w.call(who, of.method, fmt.Sprintf(`{"metadata":%s}`, w.randomFilters(who, of.method, false)))
	default:
		w.comparePages(who)
	}
}

// Responses must not depend on the backend.
func TestBackendsReturnIdenticalResponses(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	w := newBackendSet(t, seed)
	for i := range 400 {
		if w.step(); t.Failed() {
			t.Fatalf("failed at step %d", i)
		}
		if i%5 == 0 {
			w.clock.Add(1)
		}
	}
}
