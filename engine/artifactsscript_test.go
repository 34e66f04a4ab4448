package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// script defines the operations of a handler in each turn.
type script struct {
	turns   [][]op
	retries []int // number of attempts of each turn that ask for a retry
	fails   bool  // the last turn fails
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
		writeOps(&b, ops, "  ")
	}
	return b.String()
}

func writeOps(b *strings.Builder, ops []op, indent string) {
	for _, o := range ops {
		fmt.Fprintf(b, "%s%s name=%q id=%q slot=%d parity=%d fails=%v %v\n", indent, o.kind, o.name, o.id, o.slot, o.parity, o.fails, o.parts)
		writeOps(b, o.ops, indent+"  ")
	}
}

// op is one operation of a handler.
type op struct {
	kind     string // open, write, close, describe, add, flush or step
	name, id string
	slot     int      // index of the open artifact
	parts    []string // text, data:... or meta:...
	ops      []op
	fails    bool // the step fails and is not recorded
	parity   int  // run only in attempts of this parity, -1 for all
	varies   bool // the text contains the attempt
}

// partsFor returns the operation's parts.
func (o *op) partsFor(attempt int) (parts []a2a.Part) {
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

// scriptGenerator generates random scripts.
type scriptGenerator struct {
	r      *rand.Rand
	count  int
	varied bool // operations depend on the attempt
}

func newScript(r *rand.Rand) *script {
	w := &scriptGenerator{r: r, varied: r.IntN(2) == 0}
	s := &script{fails: r.IntN(6) == 0}
	for range 1 + r.IntN(3) {
		s.turns = append(s.turns, w.ops(3, 2+r.IntN(10)))
		s.retries = append(s.retries, max(0, r.IntN(4)-1))
	}
	return s
}

func (w *scriptGenerator) ops(depth, n int) (ops []op) {
	for range n {
		ops = append(ops, w.op(depth))
	}
	return ops
}

func (w *scriptGenerator) op(depth int) op {
	w.count++
	o := op{parity: -1, slot: w.r.IntN(4)}
	if w.r.IntN(2) == 0 {
		o.name = fmt.Sprint("shared", w.r.IntN(2))
	}
	switch k := w.r.IntN(20); {
	case k < 2:
		o.kind, o.name = "open", fmt.Sprint("stream", w.r.IntN(2))
	case k < 3:
		o.kind, o.id = "describe", fmt.Sprint("what", w.count)
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
		o.kind, o.id, o.fails = "step", fmt.Sprint("step", w.count), w.r.IntN(6) == 0
		o.name, o.ops = o.id, w.ops(depth-1, w.r.IntN(5))
		if !w.varied {
			o.name = fmt.Sprint("step", w.r.IntN(3))
		}
	default:
		o.kind, o.parts = "write", w.parts()
	}
	o.varies = w.varied && w.r.IntN(3) == 0
	if w.varied && o.kind == "add" && w.r.IntN(3) == 0 {
		o.name, o.parity = fmt.Sprint("some", w.count), w.r.IntN(2)
	}
	return o
}

func (w *scriptGenerator) parts() []string {
	text := func() string { return fmt.Sprint("t", w.count, string(rune('a'+w.r.IntN(26)))) }
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

// onAllStores runs a test on every backend: with the tag services, also on PostgreSQL.
func onAllStores(t *testing.T, test func(t *testing.T, name string, s store.Store)) {
	t.Helper()
	onStores(t, func(t *testing.T, s store.Store) { test(t, s.Info().Name, s) })
	if !pgtest.Enabled {
		return
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: pgtest.Schema(t, url), Migrate: true, Vectors: true})
		if err != nil {
			t.Fatalf("Open() = %v", err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(t, "postgres", s)
	})
}

// webhookReceiver is a webhook service with a receiver that applies the events.
type webhookReceiver struct {
	store   store.Store
	service *webhook.Service

	mu    sync.Mutex
	tasks map[string]*webhookReader
}

// overloadedStore is a store where every second claim of webhooks fails.
type overloadedStore struct {
	store.Store
	claims atomic.Int64
}

func (s *overloadedStore) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	if s.claims.Add(1)%2 == 0 {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "the store is overloaded")
	}
	return s.Store.ClaimLanes(ctx, p)
}

// webhookReader is the state of a task at the receiver.
type webhookReader struct {
	eventReader
	sequence int64 // of the last event
	final    bool  // the last event ended a turn
}

func newWebhookReceiver(t *testing.T, s store.Store) *webhookReceiver {
	t.Helper()
	h := &webhookReceiver{store: s, tasks: make(map[string]*webhookReader)}
	var err error
	if h.service, err = webhook.New(webhook.Config{
		Store: &overloadedStore{Store: s}, NewID: newID, Sender: h, Settings: webhook.Settings{Global: webhook.Global{URL: "https://example.com/hook"}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := h.service.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.service.Stop(context.Background()) })
	return h
}

// webhooksFor returns the webhooks of a message.
func (h *webhookReceiver) webhooksFor(t *testing.T) func(context.Context, store.Key, int64) ([]store.NewWebhook, error) {
	t.Helper()
	if h == nil {
		return nil
	}
	in, err := h.service.Prepare(t.Context(), alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in.Webhooks
}

func (h *webhookReceiver) Check(context.Context, string) error { return nil }

func (h *webhookReceiver) Post(_ context.Context, r safehttp.Request) (safehttp.Response, error) {
	var event struct {
		TaskID   string `json:"task_id"`
		Sequence int64  `json:"sequence"`
		Kind     string `json:"kind"`
		Append   bool   `json:"append"`
		Final    bool   `json:"final"`
		Artifact *struct {
			ID string `json:"artifact_id"`
			clientArtifact
		} `json:"artifact"`
	}
	if err := json.Unmarshal(r.Body, &event); err != nil {
		return safehttp.Response{Status: 400}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	to := h.tasks[event.TaskID]
	if to == nil {
		to = new(webhookReader)
		h.tasks[event.TaskID] = to
	}
	if event.Sequence <= to.sequence {
		return safehttp.Response{Status: 200}, nil // the result of its first delivery was lost
	}
	to.sequence, to.final = event.Sequence, event.Final
	if event.Artifact != nil {
		event.Artifact.clientArtifact.ID = event.Artifact.ID
		to.add(event.Artifact.clientArtifact, event.Append)
	}
	return safehttp.Response{Status: 200}, nil
}

// check waits until all events have been delivered, and checks the received artifacts.
func (h *webhookReceiver) check(t *testing.T, task *store.Task) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	await.Success(t, func() error {
		h.service.Drain(ctx) // returns early if the store is overloaded and a claim fails
		page, err := h.store.Lanes(ctx, store.LaneQuery{Owner: task.Key.Owner, TaskID: task.Key.ID, Limit: 10})
		if err != nil {
			return err
		}
		for i := range page.Lanes {
			if l := &page.Lanes[i]; l.Pending() {
				return fmt.Errorf("webhook %s has pending events", l.Webhook.ID)
			}
		}
		return nil
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	got := h.tasks[task.Key.ID]
	if got == nil || !got.final {
		t.Fatal("the webhook did not receive the final event")
	}
	wantReader(t, &eventReader{artifacts: slices.Clone(got.artifacts)}, task)
}
