package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/push"
	"github.com/holdfast-dev/holdfast/store"
)

// script is what a handler does in each turn.
type script struct {
	turns   [][]op
	retries []int // how many attempts of each turn ask for another
	fails   bool  // the last turn does
}

func (s *script) end(turn *engine.Turn) error {
	if s.fails {
		return turn.Fail()
	}
	return turn.Reply(a2a.TextPart{Text: "done"})
}

func (s *script) String() string {
	var b strings.Builder
	for i, ops := range s.turns {
		fmt.Fprintf(&b, "turn %d, %d retries\n", i+1, s.retries[i])
		show(&b, ops, "  ")
	}
	return b.String()
}

func show(b *strings.Builder, ops []op, indent string) {
	for _, o := range ops {
		fmt.Fprintf(b, "%s%s name=%q id=%q slot=%d parity=%d fails=%v %v\n", indent, o.kind, o.name, o.id, o.slot, o.parity, o.fails, o.parts)
		show(b, o.ops, indent+"  ")
	}
}

// op is one operation of a handler.
type op struct {
	kind     string // open, write, close, describe, add, flush, step
	name, id string
	slot     int      // which of the open artifacts
	parts    []string // text, or data:..., or meta:...
	ops      []op
	fails    bool // a step that is not recorded
	parity   int  // of the attempts that do it, -1 for all
	varies   bool // the text has the attempt in it
}

// made returns the operation's parts.
func (o *op) made(attempt int) (parts []a2a.Part) {
	for _, text := range o.parts {
		if data, ok := strings.CutPrefix(text, "data:"); ok {
			parts = append(parts, a2a.DataPart{Data: map[string]any{"n": data, "list": []any{1, 2.5, nil}}})
			continue
		}
		meta, isMeta := strings.CutPrefix(text, "meta:")
		if o.varies {
			meta += fmt.Sprint("@", attempt)
		}
		part := a2a.TextPart{Text: meta}
		if isMeta {
			part.Metadata = map[string]any{"m": true}
		}
		parts = append(parts, part)
	}
	return parts
}

// writer makes scripts.
type scriptWriter struct {
	r      *rand.Rand
	made   int
	varied bool // what is done depends on the attempt
}

func newScript(r *rand.Rand) *script {
	w := &scriptWriter{r: r, varied: r.IntN(2) == 0}
	s := &script{fails: r.IntN(6) == 0}
	for range 1 + r.IntN(3) {
		s.turns = append(s.turns, w.ops(3, 2+r.IntN(10)))
		s.retries = append(s.retries, max(0, r.IntN(4)-1))
	}
	return s
}

func (w *scriptWriter) ops(depth, n int) (ops []op) {
	for range n {
		ops = append(ops, w.op(depth))
	}
	return ops
}

func (w *scriptWriter) op(depth int) op {
	w.made++
	o := op{parity: -1, slot: w.r.IntN(4)}
	if w.r.IntN(2) == 0 {
		o.name = fmt.Sprint("shared", w.r.IntN(2))
	}
	switch k := w.r.IntN(20); {
	case k < 2:
		o.kind, o.name = "open", fmt.Sprint("stream", w.r.IntN(2))
	case k < 3:
		o.kind, o.id = "describe", fmt.Sprint("what", w.made)
	case k < 4:
		o.kind = "close"
	case k < 6:
		o.kind, o.parts, o.name = "add", w.parts(), fmt.Sprint("added", w.r.IntN(2))
		if w.r.IntN(2) == 0 {
			o.id = fmt.Sprint("explicit", w.r.IntN(2))
		}
	case k < 8:
		o.kind = "flush"
	case k < 12 && depth > 0:
		o.kind, o.id, o.fails = "step", fmt.Sprint("step", w.made), w.r.IntN(6) == 0
		o.name, o.ops = o.id, w.ops(depth-1, w.r.IntN(5))
		if !w.varied {
			o.name = fmt.Sprint("step", w.r.IntN(3))
		}
	default:
		o.kind, o.parts = "write", w.parts()
	}
	o.varies = w.varied && w.r.IntN(3) == 0
	if w.varied && o.kind == "add" && w.r.IntN(3) == 0 {
		o.name, o.parity = fmt.Sprint("some", w.made), w.r.IntN(2)
	}
	return o
}

func (w *scriptWriter) parts() []string {
	text := func() string { return fmt.Sprint("t", w.made, string(rune('a'+w.r.IntN(26)))) }
	switch w.r.IntN(12) {
	case 0:
		return []string{"data:" + text()}
	case 1:
		return []string{text(), text()}
	case 2:
		return []string{text(), "data:" + text(), text()}
	case 3:
		return []string{"meta:" + text()}
	case 4:
		if !w.varied {
			return []string{"", text()}
		}
	case 5:
		if !w.varied {
			return []string{""}
		}
	case 6:
		if !w.varied {
			return nil
		}
	}
	return []string{text()}
}

// onAllStores runs a test on every backend.
func onAllStores(t *testing.T, test func(t *testing.T, name string, s store.Store)) {
	t.Helper()
	onStores(t, func(t *testing.T, s store.Store) { test(t, s.Info().Name, s) })
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: pgtest.Schema(t, url), Migrate: true})
		if err != nil {
			t.Fatalf("Open() = %v", err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(t, "postgres", s)
	})
}

// hooks is a webhook service whose receiver applies what it gets.
type hooks struct {
	service *push.Service

	mu    sync.Mutex
	tasks map[string]*hookReader
}

// hookReader is what a receiver has of a task.
type hookReader struct {
	reader
	final bool // the last event ended a turn
}

func newHooks(t *testing.T, s store.Store) *hooks {
	t.Helper()
	h := &hooks{tasks: make(map[string]*hookReader)}
	var err error
	if h.service, err = push.New(push.Config{Store: s, NewID: newID, Sender: h, Global: push.Global{URL: "https://example.com/hook"}}); err != nil {
		t.Fatal(err)
	}
	if err := h.service.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.service.Stop(context.Background()) })
	return h
}

// inline returns the webhooks of a message.
func (h *hooks) inline(t *testing.T) func(context.Context, store.Key, int64) ([]store.NewPush, error) {
	t.Helper()
	if h == nil {
		return nil
	}
	in, err := h.service.Prepare(t.Context(), alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in.Push
}

func (h *hooks) Check(context.Context, string) error { return nil }

func (h *hooks) Post(_ context.Context, r safehttp.Request) (safehttp.Response, error) {
	var event struct {
		TaskID   string `json:"task_id"`
		Kind     string `json:"kind"`
		Append   bool   `json:"append"`
		Final    bool   `json:"final"`
		Artifact *struct {
			ID string `json:"artifact_id"`
			seen
		} `json:"artifact"`
	}
	if err := json.Unmarshal(r.Body, &event); err != nil {
		return safehttp.Response{Status: 400}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	to := h.tasks[event.TaskID]
	if to == nil {
		to = new(hookReader)
		h.tasks[event.TaskID] = to
	}
	to.final = event.Final
	if event.Artifact != nil {
		event.Artifact.seen.ID = event.Artifact.ID
		to.add(event.Artifact.seen, event.Append)
	}
	return safehttp.Response{Status: 200}, nil
}

// check waits until the receiver has been sent everything, and checks what it has.
func (h *hooks) check(t *testing.T, task *store.Task) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	h.service.Drain(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	got := h.tasks[task.Key.ID]
	if got == nil || !got.final {
		t.Fatal("the webhook did not get the end of the task")
	}
	wantReader(t, &reader{artifacts: slices.Clone(got.artifacts)}, task)
}
