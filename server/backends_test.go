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
	"github.com/holdfast-dev/holdfast/store"
)

// clocked is a store whose time the test sets, so that many times are equal and
// servers over different stores tell the same ones.
type clocked struct {
	store.Store
	millis *atomic.Int64
}

func (c clocked) Now() time.Time { return time.UnixMilli(c.millis.Load()).UTC() }

// asTold does what the text of a message says.
func asTold(ctx context.Context, t *engine.Turn) error {
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
		return fmt.Errorf("as told")
	}
	for range 3 {
		if err := t.AddArtifact(a2a.Artifact{Name: "out", Parts: []a2a.Part{word}}); err != nil {
			return err
		}
	}
	return t.Reply(word)
}

// twins are servers over different stores that are asked the same and have to
// answer the same, byte for byte but for the ids that they make.
type twins struct {
	t     *testing.T
	r     *rand.Rand
	envs  []*env
	names []string
	ids   []map[string]string // what each server's own ids are called
	own   []map[string]string // and the other way round
	clock atomic.Int64

	tasks, contexts map[string][]string // by token; own ids by what they are called
	tokens          []string            // the page tokens of the last answer
}

func newTwins(t *testing.T, seed uint64) *twins {
	w := &twins{
		t: t, r: rand.New(rand.NewPCG(seed, 0)), names: []string{"memory", "SQLite"},
		tasks: map[string][]string{}, contexts: map[string][]string{},
	}
	w.clock.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, kept := range []store.Store{inmem.New(), db} {
		var last atomic.Int64
		e := startConfig(t, engine.Config{
			Store: clocked{kept, &w.clock}, Handler: asTold,
			NewID: func() string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", last.Add(1)) },
		}, twoTokens)
		ts := httptest.NewServer(e.server)
		t.Cleanup(ts.Close)
		e.url, e.client = ts.URL, ts.Client()
		w.envs = append(w.envs, e)
		w.ids, w.own = append(w.ids, map[string]string{}), append(w.own, map[string]string{})
	}
	return w
}

var (
	madeID    = regexp.MustCompile(`00000000-0000-7000-8000-[0-9a-f]{12}|[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	calledID  = regexp.MustCompile(`ID\d+#`)
	requestID = regexp.MustCompile(`,?"requestId":"[^"]*"`)
	pageToken = regexp.MustCompile(`"nextPageToken":"([^"]+)"`)
)

// call asks all servers and returns their answer. Ids in params and in the answer
// are what the servers' own are called.
func (w *twins) call(who, method, params string, h ...string) (answer reply) {
	w.t.Helper()
	var first string
	tokens := make([]string, len(w.envs))
	for i, e := range w.envs {
		asked := calledID.ReplaceAllStringFunc(params, func(id string) string { return w.own[i][id] })
		asked = strings.ReplaceAll(asked, "PAGE-TOKEN", at(w.tokens, i))
		got := e.call(method, asked, append(as(who), h...)...)
		if got.Status != 200 || got.code() == a2a.CodeInternal.JSONRPC() {
			w.t.Errorf("%s: %s %s = HTTP %d %s", w.names[i], method, asked, got.Status, got.Body)
		}
		if got.code() == a2a.CodeInvalid.JSONRPC() && got.Error.Data["field"] == nil {
			w.t.Errorf("%s: %s %s names no field: %s", w.names[i], method, asked, got.Body)
		}
		if m := pageToken.FindSubmatch(got.Body); m != nil {
			tokens[i] = string(m[1])
		}
		told := madeID.ReplaceAllStringFunc(string(got.Body), func(id string) string { return w.called(i, id) })
		told = pageToken.ReplaceAllString(requestID.ReplaceAllString(told, ""), `"nextPageToken":"token"`)
		if i == 0 {
			first = told
		} else if told != first {
			w.t.Fatalf("%s %s as %s is answered differently\n%s: %s\n%s: %s", method, params, who, w.names[0], first, w.names[i], told)
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

// called names an id of a server by the order in which its ids are met.
func (w *twins) called(server int, id string) string {
	name, known := w.ids[server][id]
	if !known {
		name = fmt.Sprintf("ID%d#", len(w.ids[server]))
		w.ids[server][id], w.own[server][name] = name, id
	}
	return name
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// one is an id of the caller's, seldom another's, or one that is not there.
func (w *twins) one(of map[string][]string, who string) string {
	if w.r.IntN(12) == 0 {
		who = pick(w.r, "alice", "bob")
	}
	if len(of[who]) == 0 || w.r.IntN(20) == 0 {
		return pick(w.r, "none", "é ", "a'b", strings.Repeat("x", 129))
	}
	return pick(w.r, of[who]...)
}

// object writes what is always there and some of the members as a JSON object.
func (w *twins) object(always map[string]any, percent int, members map[string]func() any) string {
	some := always
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if w.r.IntN(100) < percent {
			some[name] = members[name]()
		}
	}
	raw, err := json.Marshal(some)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

// text is one whose order, case or spelling stores could differ in, seldom a value of
// the wrong kind.
func (w *twins) text() any {
	if w.r.IntN(25) == 0 {
		return pick[any](w.r, "", "a\x00b", "\u2028", 1.5, -1, true, nil, []any{"a"}, map[string]any{"a": 1}, strings.Repeat("x", 300))
	}
	return pick[any](w.r, "a", "A", "b", "é", "e\u0301", "É", "ß", "ss", "א", "名", "\uffff", "\U00010000", "😀", "%", "_", `\`, "'", `"`, " a", "10", "9")
}

func (w *twins) list(of func() any) func() any {
	return func() any {
		items := []any{}
		for range w.r.IntN(4) {
			items = append(items, of())
		}
		return items
	}
}

func (w *twins) number() any {
	if w.r.IntN(10) == 0 {
		return pick[any](w.r, -1, 1.5, 1e30, "1")
	}
	return w.r.IntN(4)
}

func (w *twins) when() any {
	if w.r.IntN(10) == 0 {
		return pick[any](w.r, "2026-01-02", 1)
	}
	at := time.UnixMilli(w.clock.Load() - int64(w.r.IntN(40))).UTC()
	return at.Add(time.Duration(w.r.IntN(2)) * time.Microsecond).Format(time.RFC3339Nano)
}

func (w *twins) context(who string, update bool) string {
	id := func() any { return w.one(w.contexts, who) }
	tag := func() any { return pick[any](w.r, "q", "Q", "é", "%", "a,b", w.text()) }
	members := map[string]func() any{
		"description": w.text, "role": w.text, "tags": w.list(tag), "parentContextId": id, "referenceContextIds": w.list(id),
		"metadata": func() any { return map[string]any{"k": w.text(), "n": w.number()} },
		"status":   func() any { return pick(w.r, "active", "paused") },
	}
	always := map[string]any{"contextId": pick(w.r, fmt.Sprint("c", w.r.IntN(40)), fmt.Sprint("名", w.r.IntN(9))), "name": w.text()}
	if update {
		always = map[string]any{"contextId": w.one(w.contexts, who)}
		members["name"] = w.text
		members["status"] = func() any { return pick(w.r, "active", "active", "paused", "completed", "archived", "no") }
		members["force"] = func() any { return w.r.IntN(2) == 0 }
	}
	return w.object(always, 30, members)
}

func (w *twins) send(who string) {
	word := pick(w.r, "done", "done", "ask", "ask", "reject", "fail", "hold")
	more := []string{}
	switch w.r.IntN(4) {
	case 0:
		more = append(more, fmt.Sprintf(`"taskId":%q`, w.one(w.tasks, who)))
		word = "done"
	case 1, 2:
		more = append(more, fmt.Sprintf(`"contextId":%q`, w.one(w.contexts, who)))
	}
	if word == "hold" || w.r.IntN(4) == 0 && len(more) == 0 {
		word = "hold"
	}
	wait := blocking
	if word == "hold" || len(more) > 0 && strings.Contains(more[0], "taskId") {
		wait = `"configuration":{"historyLength":0}`
	}
	w.settle(who, params(message(word, more...), wait), wait != blocking)
}

// settle sends a message. Unless it waits for the task, how far that has come when the
// answer is given is chance: it is looked at once it rests.
func (w *twins) settle(who, params string, chance bool) {
	if !chance {
		w.meet(who, w.call(who, "message/send", params))
		return
	}
	var task string
	for i, e := range w.envs {
		asked := calledID.ReplaceAllStringFunc(params, func(id string) string { return w.own[i][id] })
		got := e.call("message/send", asked, as(who)...)
		if got.Error != nil {
			w.call(who, "message/send", params) // all refuse alike, and nothing is changed
			return
		}
		v := got.task(w.t)
		task = w.called(i, v.ID)
		if context := v.ContextID; madeID.MatchString(context) {
			w.called(i, context)
		}
		e.rest(who, v.ID)
	}
	w.meet(who, w.call(who, "tasks/get", fmt.Sprintf(`{"id":%q}`, task)))
}

// rest returns when a task is at rest, or held by its handler.
func (e *env) rest(who, id string) {
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

// meet remembers the task or the context that an answer tells.
func (w *twins) meet(who string, answer reply) {
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

var listings = []struct{ method, items, id string }{
	{"contexts/list", "contexts", "contextId"}, {"tasks/list", "tasks", "id"}, {"tasks/feedback/list", "feedback", "feedbackId"},
}

// filters is the metadata of a list, with an offset unless it is to be walked.
func (w *twins) filters(who, method string, walked bool) string {
	always, percent := map[string]any{}, 35
	members := map[string]func() any{
		"sortOrder": func() any { return pick(w.r, "asc", "desc") }, "createdAfter": w.when, "created_before": w.when,
		"historyLength": w.number, "offset": w.number,
	}
	if walked {
		percent = 15
		delete(members, "offset")
	}
	switch {
	case method == "contexts/list" && w.r.IntN(2) == 0:
		always["sortBy"] = "name"
		delete(members, "createdAfter")
		delete(members, "created_before")
	case method == "contexts/list":
		members["sortBy"] = func() any { return pick(w.r, "createdAt", "updatedAt") }
		members["status"] = func() any { return pick[any](w.r, "active", []string{"paused", "archived"}, "no") }
		members["tags"], members["role"] = w.list(w.text), w.text
	case method == "tasks/list":
		members["sort_by"] = func() any { return pick(w.r, "createdAt", "updatedAt", "name") }
		members["status"] = func() any { return pick[any](w.r, "completed", []string{"working", "input-required"}) }
		members["contextId"] = func() any { return w.one(w.contexts, who) }
	default:
		return `{}`
	}
	return w.object(always, percent, members)
}

// walk reads a list by token in small pages, and compares it with the one big page.
func (w *twins) walk(who string) {
	of := pick(w.r, listings...)
	filters := w.filters(who, of.method, true)
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
		w.t.Fatalf("%s %s page by page = %v, want what one page has: %v", of.method, page, got, want)
	}
}

// step asks one thing.
func (w *twins) step() {
	who := pick(w.r, "alice", "alice", "bob")
	id := func(of map[string][]string) string { return w.one(of, who) }
	switch n := w.r.IntN(100); {
	case n < 25:
		w.meet(who, w.call(who, "contexts/create", w.context(who, false)))
	case n < 35:
		w.call(who, "contexts/update", w.context(who, true))
	case n < 55:
		w.send(who)
	case n < 60:
		w.call(who, "contexts/get", fmt.Sprintf(`{"contextId":%q,"historyLength":%d}`, id(w.contexts), w.r.IntN(4)-1))
	case n < 64:
		w.call(who, "tasks/get", fmt.Sprintf(`{"id":%q,"historyLength":%d}`, id(w.tasks), w.r.IntN(4)-1))
	case n < 68:
		w.call(who, "tasks/cancel", fmt.Sprintf(`{"id":%q}`, id(w.tasks)))
	case n < 71:
		w.call(who, "contexts/clear", fmt.Sprintf(`{"contextId":%q,"force":%t}`, id(w.contexts), w.r.IntN(2) == 0))
	case n < 80:
		given := w.object(map[string]any{"taskId": id(w.tasks)}, 70, map[string]func() any{
			"feedback": w.text, "rating": func() any { return w.r.IntN(7) }, "metadata": func() any { return map[string]any{"k": w.text()} },
		})
		var key []string
		if w.r.IntN(3) == 0 {
			w.clock.Add(1) // its id is a hash, of which the order is chance
			key = []string{"Idempotency-Key", fmt.Sprint("k", w.r.IntN(3))}
		}
		w.call(who, "tasks/feedback", given, key...)
		w.clock.Add(int64(len(key)))
	case n < 90:
		of := pick(w.r, listings...)
		w.call(who, of.method, fmt.Sprintf(`{"metadata":%s}`, w.filters(who, of.method, false)))
	default:
		w.walk(who)
	}
}

// What a client is told must not depend on where its tasks are kept.
func TestBackendsAnswerAlike(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newTwins(t, seed)
	for i := range 400 {
		if w.step(); t.Failed() {
			t.Fatalf("at step %d", i)
		}
		if i%5 == 0 {
			w.clock.Add(1)
		}
	}
}
