package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/states"
)

func said(text string) history.Message {
	return history.Message{Role: "user", Body: fmt.Appendf(nil, "%q", text)}
}

func TestTranscriptFactsAndBlobsOfATurn(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, _ string, s store.Store) {
		e := start(t, engine.Config{Store: s, Handler: keepAll})
		contextID := newID()
		for range 2 {
			if task := sendIn(t, e, contextID); task.Status.State != a2a.StateCompleted {
				t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
			}
		}
	})
}

// keepAll writes to each contract, and checks that it reads what it has written.
func keepAll(ctx context.Context, turn *engine.Turn) error {
	s := transcripts.For(turn.Contracts())
	before, err := s.Count(ctx)
	if err != nil {
		return err
	}
	tail, err := s.Tail(ctx, 2)
	if want := min(before, 2); err != nil || int64(len(tail)) != want {
		return fmt.Errorf("Tail() at the start = %d messages, %w, want %d", len(tail), err, want)
	}
	if err := s.Append(ctx, said("a"), said("b")); err != nil {
		return err
	}
	tail, err = s.Tail(ctx, 2)
	if err != nil || len(tail) != 2 || string(tail[1].Body) != `"b"` || tail[1].Run != turn.TaskID() || tail[1].Seq != before+2 || tail[1].CreatedAt.IsZero() {
		return fmt.Errorf("Tail() = %+v, %w", tail, err)
	}
	if page, err := s.Page(ctx, history.After(0, 1)); err != nil || len(page.Messages) != 1 || !page.More {
		return fmt.Errorf("Page() = %+v, %w, want the first message", page, err)
	}
	if before > 0 { // the second task
		if err := s.ClearTask(ctx); err != nil {
			return err
		}
		if n, err := s.Count(ctx); err != nil || n != before {
			return fmt.Errorf("Count() after ClearTask = %d, %w, want %d", n, err, before)
		}
	}
	if err := facts.For(turn.Contracts()).Remember(ctx, "The backup runs at noon.", facts.RememberParams{Key: "backup", Metadata: map[string]any{"n": before}}); err != nil {
		return err
	}
	found, err := facts.For(turn.Contracts()).Recall(ctx, "backup", facts.RecallParams{})
	if err != nil || len(found) != 1 || found[0].Metadata["n"] != float64(before) || found[0].Version != before/2+1 || found[0].Score == 0 {
		return fmt.Errorf("Recall() = %+v, %w", found, err)
	}
	if err := facts.For(turn.Contracts()).Forget(ctx, "", "none"); err != nil {
		return err
	}
	return keepBlobs(ctx, blobs.For(turn.Contracts()), turn.TaskID())
}

func keepBlobs(ctx context.Context, b *blobs.Blobs, holder string) error {
	info, err := b.Put(ctx, strings.NewReader("content"), blobs.Params{Name: "file", ContentType: "text/plain"})
	if err != nil || len(info.Holders) != 1 || info.Holders[0] != "task/"+holder {
		return fmt.Errorf("Put() = %+v, %w", info, err)
	}
	again, err := b.Put(ctx, strings.NewReader("content"), blobs.Params{})
	if err != nil || again.Ref == info.Ref {
		return fmt.Errorf("second Put() = %+v, %w, want another blob", again, err)
	}
	r, _, err := b.OpenRange(ctx, info.Ref, 3, 2)
	if err != nil {
		return err
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "te" {
		return fmt.Errorf("content is %q, %w", text, err)
	}
	if err := errors.Join(b.Delete(ctx, again.Ref), b.Delete(ctx, again.Ref), b.Unpin(ctx, info.Ref)); err != nil {
		return err
	}
	if _, _, err := b.Open(ctx, again.Ref); !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("Open() of a deleted blob = %w", err)
	}
	if err := b.Pin(ctx, again.Ref); !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("Pin() of a deleted blob = %w", err)
	}
	if err := b.Pin(ctx, info.Ref); err != nil {
		return err
	}
	page, err := b.List(ctx, blob.ListParams{Limit: 1000})
	if err != nil || !slices.ContainsFunc(page.Blobs, func(b blob.Info) bool { return b.Ref == info.Ref && len(b.Holders) == 1 }) {
		return fmt.Errorf("List() = %+v, %w", page, err)
	}
	return nil
}

// A write that the store refuses returns its error at once, and the turn can continue.
func TestInvalidCallsOnContractsAreRejected(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Turns: engine.Turns{RetryDelay: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		_, recall := facts.For(turn.Contracts()).Recall(ctx, "", facts.RecallParams{MinScore: 2})
		_, semantic := facts.For(turn.Contracts()).Recall(ctx, "x", facts.RecallParams{Mode: memory.ModeSemantic})
		_, put := blobs.For(turn.Contracts()).Put(ctx, strings.NewReader("x"), blobs.Params{ContentType: "?"})
		_, size := blobs.For(turn.Contracts()).Put(ctx, strings.NewReader("x"), blobs.Params{Size: 2})
		for what, err := range map[string]error{
			"Append": transcripts.For(turn.Contracts()).Append(ctx), "Page": second(transcripts.For(turn.Contracts()).Page(ctx, history.Query{Limit: -1})),
			"Remember": facts.For(turn.Contracts()).Remember(ctx, " ", facts.RememberParams{}), "Recall": recall, "Put": put,
		} {
			if a2a.CodeOf(err) != a2a.CodeInvalid {
				return fmt.Errorf("%s = %w, want an error of invalid arguments", what, err)
			}
		}
		if !errors.Is(semantic, memory.ErrNoEmbedder) || !errors.Is(size, blob.ErrSize) {
			return fmt.Errorf("Recall() = %w, Put() = %w", semantic, size)
		}
		if err := errors.Join(transcripts.For(turn.Contracts()).Append(ctx, said("a")), turn.Flush()); err != nil {
			return err
		}
		if turn.Attempt() == 1 {
			return engine.Retry(errAgain)
		}
		return nil
	}})
	task := sendIn(t, e, newID())
	if task.Status.State != a2a.StateCompleted {
		t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
	if n, err := historysql.Of(s).Count(t.Context(), history.Key{Owner: alice.ID, Agent: "agent", Session: task.ContextID}); n != 1 || err != nil {
		t.Errorf("transcript has %d messages, %v, want 1", n, err)
	}
}

func second[A any](_ A, err error) error { return err }

// An effect that the store refuses at the commit fails the turn, and nothing of it is stored.
func TestRefusedEffectFailsTheTurn(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		var logged await.Buffer
		logger := slog.New(slog.NewTextHandler(&logged, nil))
		e := start(t, engine.Config{Store: s, Logger: logger, Turns: engine.Turns{FlushInterval: time.Hour}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
			err := facts.For(turn.Contracts()).Remember(ctx, "later", facts.RememberParams{Key: "k", ValidFrom: at})
			return errors.Join(err, transcripts.For(turn.Contracts()).Append(ctx, said("lost")), facts.For(turn.Contracts()).Remember(ctx, "earlier", facts.RememberParams{Key: "k", ValidFrom: at.Add(-1)}))
		}})
		task := sendIn(t, e, newID())
		if want := "the output of the task could not be stored"; task.Status.State != a2a.StateFailed || task.Status.Message.Text() != want {
			t.Errorf("task is %s %q, want failed: %s", task.Status.State, task.Status.Message.Text(), want)
		}
		if strings.Contains(logged.String(), "retrying") {
			t.Errorf("the commit was retried, want the turn to fail at once: %s", &logged)
		}
		data := contractData(t, s.(contractParts), task.ContextID)
		if diff := cmp.Diff(noData(), data); diff != "" {
			t.Errorf("data of the context (-want +got):\n%s", diff)
		}
	})
}

// withoutContracts is a store without contracts.
type withoutContracts struct{ store.Store }

func TestContractsThatTheStoreLacksAreUnsupported(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Store: withoutContracts{inmem.New()}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		_, recall := facts.For(turn.Contracts()).Recall(ctx, "", facts.RecallParams{})
		_, put := blobs.For(turn.Contracts()).Put(ctx, strings.NewReader(""), blobs.Params{})
		for name, err := range map[string]error{
			"transcripts": transcripts.For(turn.Contracts()).Append(ctx, said("a")), "facts": facts.For(turn.Contracts()).Remember(ctx, "a", facts.RememberParams{}), "blobs": put,
		} {
			if a2a.CodeOf(err) != a2a.CodeUnsupported || !strings.Contains(err.Error(), name) {
				return fmt.Errorf("%s: %w, want an unsupported error", name, err)
			}
		}
		for _, err := range []error{recall, second(transcripts.For(turn.Contracts()).Count(ctx)), second(transcripts.For(turn.Contracts()).Tail(ctx, 1)), facts.For(turn.Contracts()).Forget(ctx, "", "a"), blobs.For(turn.Contracts()).Delete(ctx, "a")} {
			if a2a.CodeOf(err) != a2a.CodeUnsupported {
				return fmt.Errorf("%w, want an unsupported error", err)
			}
		}
		return nil
	}})
	if task := sendIn(t, e, newID()); task.Status.State != a2a.StateCompleted {
		t.Errorf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
}

// After a cancel, the transcript and the facts have the data of the first calls of the turn.
func TestCanceledTurnLeavesTheFirstWrites(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, _ string, s store.Store) {
		const writes = 40
		started := make(chan struct{}, writes)
		e := start(t, engine.Config{Store: s, Turns: engine.Turns{FlushInterval: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			for i := range writes {
				text := fmt.Sprintf("%02d", i)
				if err := errors.Join(transcripts.For(turn.Contracts()).Append(ctx, said(text)), facts.For(turn.Contracts()).Remember(ctx, text, facts.RememberParams{Namespace: turn.ContextID()})); err != nil {
					return err
				}
				started <- struct{}{}
				if i%3 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		for n := 1; n < writes; n += 9 {
			task := send(t, e, message("go"))
			for range n {
				<-started
			}
			if _, err := e.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); err != nil {
				t.Fatalf("Cancel() = %v", err)
			}
			await.True(t, "the handler ends", func() bool { return e.Health(t.Context()).Running == 0 })
			for len(started) > 0 {
				<-started
			}
			data := contractData(t, s.(contractParts), task.ContextID)
			messages, facts := data["transcript"].([]string), data["facts"].([]string)
			if len(messages) != len(facts) && len(messages) != len(facts)+1 {
				t.Errorf("after a cancel %d messages and %d facts, want the writes of the first calls", len(messages), len(facts))
			}
			for i, text := range messages {
				if want := fmt.Sprintf(`user "%02d"`, i); text != want {
					t.Errorf("message %d = %s, want %s", i, text, want)
				}
			}
		}
	})
}

// keyedStates is a store of states outside of the agent's database that applies a change with a key
// once. It loses the answer to each change.
type keyedStates struct {
	memory.ShortTerm
	mu   sync.Mutex
	done map[string]bool
}

func (k *keyedStates) UpdateOnce(ctx context.Context, key memory.Key, patch map[string]any, version int64, once string) (memory.State, error) {
	return k.once(ctx, key, once, func() (memory.State, error) { return k.Update(ctx, key, patch, version) })
}

func (k *keyedStates) SetOnce(ctx context.Context, key memory.Key, values map[string]any, version int64, once string) (memory.State, error) {
	return k.once(ctx, key, once, func() (memory.State, error) { return k.Set(ctx, key, values, version) })
}

func (k *keyedStates) ClearOnce(ctx context.Context, key memory.Key, once string) error {
	_, err := k.once(ctx, key, once, func() (memory.State, error) { return memory.State{}, k.Clear(ctx, key) })
	return err
}

func (k *keyedStates) once(ctx context.Context, key memory.Key, once string, change func() (memory.State, error)) (memory.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done[once] {
		return k.Get(ctx, key)
	}
	if _, err := change(); err != nil {
		return memory.State{}, err
	}
	k.done[once] = true
	return memory.State{}, a2a.Errorf(a2a.CodeUnavailable, "no answer")
}

func TestStateInAnotherStoreIsUpdatedOnce(t *testing.T) {
	t.Parallel()
	other, err := memory.NewShortTerm(memory.ShortTermConfig{Records: store.NewUpdater(inmem.New())})
	if err != nil {
		t.Fatal(err)
	}
	keyed := &keyedStates{ShortTerm: other, done: make(map[string]bool)}
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Contracts: engine.Contracts{Stores: []contract.Store{states.Of(keyed)}}, Turns: engine.Turns{RetryDelay: time.Millisecond, RetryDelayMax: time.Millisecond, MaxAttempts: 20}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		st := states.For(turn.Contracts())
		for i := range 3 {
			if err := st.Update(ctx, map[string]any{fmt.Sprint("m", i): turn.Attempt(), "big": 1 << 60}); err != nil {
				return engine.Retry(err)
			}
		}
		got, err := st.Get(ctx)
		if err != nil || got.Version != 3 {
			return fmt.Errorf("Get() = %+v, %w, want version 3", got, err)
		}
		if _, err := st.Replace(ctx, nil, 1); !errors.Is(err, memory.ErrStateConflict) {
			return fmt.Errorf("Replace() = %w, want a conflict", err)
		}
		if turn.Attempt() < 6 {
			return errors.Join(turn.Flush(), engine.Retry(errAgain))
		}
		if err := st.Clear(ctx); err != nil {
			return engine.Retry(err)
		}
		if err := st.Set(ctx, map[string]any{"set": jsonText(got.Values)}); err != nil {
			return engine.Retry(err)
		}
		return nil
	}})
	task := sendIn(t, e, newID())
	if task.Status.State != a2a.StateCompleted {
		t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
	got, err := other.Get(t.Context(), memory.Key{Owner: alice.ID, Agent: "agent", Session: task.ContextID})
	if want := `{"set":"{\"big\":1152921504606846976,\"m0\":1,\"m1\":1,\"m2\":1}"}`; err != nil || jsonText(got.Values) != want {
		t.Errorf("state = %s, %v, want %s", jsonText(got.Values), err, want)
	}
	if own := sessionState(t, s, task.ContextID); own != "null" {
		t.Errorf("state in the agent's store = %s, want none", own)
	}
}

func TestTranscriptTTLIsTheAgeOfTranscripts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		retention engine.Retention
		want      time.Duration // 0: without limit
	}{
		"default":         {nil, 30 * day},
		"age of states":   {engine.Retention{states.Retention: time.Hour}, 30 * day},
		"age":             {engine.Retention{transcripts.Retention: time.Hour}, time.Hour},
		"without a limit": {engine.Retention{transcripts.Retention: 0}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inmem.New()
			e := start(t, engine.Config{Store: s, Retention: test.retention, Handler: func(ctx context.Context, turn *engine.Turn) error {
				return transcripts.For(turn.Contracts()).AppendText(ctx, "user", "x")
			}})
			key := history.Key{Owner: alice.ID, Agent: "agent", Session: newID()}
			before := history.AppendParams{Messages: []history.Message{{Body: []byte(`1`)}}, TTL: 2 * time.Hour}
			if _, err := historysql.Of(s).Append(t.Context(), key, before); err != nil {
				t.Fatal(err)
			}
			sendIn(t, e, key.Session)
			session, err := historysql.Of(s).(history.SessionLister).Session(t.Context(), key)
			if err != nil || session.TTL() != test.want {
				t.Errorf("the transcript has the TTL %s, %v, want %s", session.TTL(), err, test.want)
			}
		})
	}
}
