package engine_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// process is the store as seen by a process: after the process is killed, none of its calls
// reach the store. The leases of a killed process are void for the next one.
type process struct {
	store.Store
	documents vector.Store // the documents of Store, if a test uses them

	mu      sync.Mutex
	commits int  // number of commits under a lease
	killAt  int  // the commit at which the process is killed, 0 for none
	applied bool // that commit is still applied
	claimed bool // a claim has returned a task
	killed  chan struct{}
}

func newProcess(s store.Store, killAt int, applied bool) *process {
	return &process{Store: s, killAt: killAt, applied: applied, killed: make(chan struct{})}
}

func (p *process) Info() store.Info {
	info := p.Store.Info()
	info.Exclusive = true
	return info
}

func (p *process) isKilled() bool {
	select {
	case <-p.killed:
		return true
	default:
		return false
	}
}

// kill kills the process.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isKilled() {
		close(p.killed)
	}
}

func (p *process) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dies := false
	if len(changes) == 1 && changes[0].Lease != nil && !p.isKilled() {
		p.commits++
		dies = p.commits == p.killAt
	}
	if !p.isKilled() && (!dies || p.applied) {
		results, err := p.Store.Commit(ctx, changes...)
		if !dies {
			return results, err
		}
	}
	if dies {
		close(p.killed)
	}
	return slices.Repeat([]store.Result{{Err: store.ErrLeaseLost}}, len(changes)), nil
}

func (p *process) Claim(ctx context.Context, params store.ClaimParams) ([]*store.Task, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isKilled() {
		return nil, nil
	}
	// Leases of the previous process are void until a claim returned a task. The first claim
	// may return none: PostgreSQL skips tasks with locked webhooks.
	params.Takeover = params.Takeover || !p.claimed
	tasks, err := p.Store.Claim(ctx, params)
	p.claimed = p.claimed || len(tasks) > 0
	return tasks, err
}

func (p *process) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	if !p.isKilled() {
		return p.Store.Renew(ctx, until, leases)
	}
	var lost []store.Key
	for _, l := range leases {
		lost = append(lost, l.Key)
	}
	return lost, nil
}

// runInterrupted runs a handler for a task of alice until its process is killed, by kill or at
// a commit. Then it runs the task in another process and returns the finished task.
func runInterrupted(t *testing.T, s store.Store, killAt int, handler func(ctx context.Context, turn *engine.Turn, kill func()) error) *store.Task {
	t.Helper()
	first := newProcess(s, killAt, false)
	config := func(p *process) engine.Config {
		return engine.Config{
			Store: p, Turns: engine.Turns{FlushInterval: time.Hour, HandlerGrace: time.Minute, RetryDelay: time.Millisecond, Poll: 5 * time.Millisecond},
			Handler: func(ctx context.Context, turn *engine.Turn) error {
				return handler(ctx, turn, func() { p.kill() })
			},
		}
	}
	task := send(t, start(t, config(first)), message("go"))
	select {
	case <-first.killed:
	case <-time.After(await.Limit):
		t.Fatal("the first process was not killed")
	}
	got := waitFinal(t, start(t, config(newProcess(s, 0, false))), task.Key.ID)
	checkLog(t, s, got.Key)
	checkReader(t, s, got)
	return got
}

// clientArtifact is an artifact as reconstructed by a client that follows only the rules of A2A
// 0.3, and treats a replacement without parts as a withdrawal.
type clientArtifact struct {
	ID          string         `json:"artifactId"`
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	Parts       []any          `json:"parts"`
}

// eventReader is such a client.
type eventReader struct{ artifacts []clientArtifact }

func (r *eventReader) apply(t *testing.T, e *store.Event) {
	t.Helper()
	if e.Artifact == nil {
		return
	}
	r.add(toClientArtifact(t, e.Artifact), e.Append)
}

func (r *eventReader) add(a clientArtifact, more bool) {
	i := slices.IndexFunc(r.artifacts, func(o clientArtifact) bool { return o.ID == a.ID })
	switch {
	case !more && len(a.Parts) == 0:
		if i >= 0 {
			r.artifacts = slices.Delete(r.artifacts, i, i+1)
		}
	case i < 0:
		r.artifacts = append(r.artifacts, a)
	case more:
		r.artifacts[i].Parts = append(r.artifacts[i].Parts, a.Parts...)
	default:
		r.artifacts[i] = a
	}
}

func toClientArtifact(t *testing.T, a *a2a.Artifact) (out clientArtifact) {
	t.Helper()
	raw, err := wire.Marshal(a)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mergeTexts returns artifacts with adjacent texts merged.
func mergeTexts(artifacts []clientArtifact) (out []clientArtifact) {
	for _, a := range artifacts {
		var parts []any
		for _, p := range a.Parts {
			text, ok := p.(map[string]any)["text"].(string)
			if ok && len(parts) > 0 {
				if last, ok := parts[len(parts)-1].(string); ok {
					parts[len(parts)-1] = last + text
					continue
				}
			}
			if ok && text == "" {
				continue
			}
			if ok {
				p = text
			}
			parts = append(parts, p)
		}
		a.Parts = parts
		out = append(out, a)
	}
	return out
}

// checkReader checks that a reader that applies all events of a task has its artifacts.
func checkReader(t *testing.T, s store.Store, task *store.Task) {
	t.Helper()
	events, err := s.Events(t.Context(), task.Key, 0, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	var r eventReader
	for i := range events {
		r.apply(t, &events[i])
	}
	wantReader(t, &r, task)
}

func wantReader(t *testing.T, r *eventReader, task *store.Task) {
	t.Helper()
	var want []clientArtifact
	for i := range task.Artifacts {
		want = append(want, toClientArtifact(t, &task.Artifacts[i]))
	}
	if diff := cmp.Diff(mergeTexts(want), mergeTexts(r.artifacts)); diff != "" {
		t.Errorf("artifacts of a reader of the events (-task +reader):\n%s", diff)
	}
}

// artifactTexts returns the text of each artifact of a task, with parts separated by |.
func artifactTexts(task *store.Task) (all []string) {
	for _, a := range task.Artifacts {
		var parts []string
		for _, p := range a.Parts {
			if text, ok := p.(a2a.TextPart); ok {
				parts = append(parts, text.Text)
			} else {
				parts = append(parts, "data")
			}
		}
		all = append(all, a.Name+"="+strings.Join(parts, "|"))
	}
	return all
}

func wantTexts(t *testing.T, task *store.Task, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, artifactTexts(task)); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
}

func writeText(w *engine.ArtifactWriter, text string) error {
	_, err := w.WriteString(text)
	return err
}

// writeStep runs a step that writes texts to w.
func writeStep(ctx context.Context, turn *engine.Turn, name string, w *engine.ArtifactWriter, texts ...string) error {
	_, err := turn.Step(ctx, name, func(context.Context) ([]byte, error) {
		for _, text := range texts {
			if err := writeText(w, text); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	return err
}

func TestChunksOfCompletedStepsSurviveKill(t *testing.T) {
	t.Parallel()
	task := runInterrupted(t, inmem.New(), 0, func(ctx context.Context, turn *engine.Turn, kill func()) error {
		w := turn.Artifact("out")
		for i, name := range []string{"0", "1", "2", "3"} {
			if i == 2 && turn.Attempt() == 1 {
				kill()
			}
			if err := writeStep(ctx, turn, name, w, name); err != nil {
				return err
			}
		}
		return nil
	})
	wantState(t, task, a2a.StateCompleted)
	wantTexts(t, task, "out=0123")
}

func TestChunksWrittenOutsideStepsAreStoredOnce(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	task := runInterrupted(t, s, 0, func(_ context.Context, turn *engine.Turn, kill func()) error {
		w := turn.Artifact("out")
		for i, text := range []string{"0", "1", "2", "3"} {
			if i == 2 && turn.Attempt() == 1 {
				if err := turn.Flush(); err != nil {
					return err
				}
				kill()
			}
			if err := writeText(w, text); err != nil {
				return err
			}
		}
		return nil
	})
	wantTexts(t, task, "out=0123")
	replaced := 0
	for _, e := range checkLog(t, s, task.Key) {
		if e.Artifact != nil && !e.Append {
			replaced++
		}
	}
	if replaced != 1 {
		t.Errorf("the artifact was replaced %d times, want once, because only new content is committed", replaced)
	}
}

func TestUnwrittenArtifactsAreWithdrawn(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"retry", "kill"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := inmem.New()
			handler := func(_ context.Context, turn *engine.Turn, kill func()) error {
				if len(turn.Artifacts()) != 0 {
					t.Errorf("Artifacts() = %v in attempt %d, want those before the turn", turn.Artifacts(), turn.Attempt())
				}
				count := 1
				if turn.Attempt() == 1 {
					count = 3
				}
				for range count {
					if err := turn.AddArtifact(a2a.Artifact{Name: "a", Parts: []a2a.Part{a2a.TextPart{Text: string(rune('0' + turn.Attempt()))}}}); err != nil {
						return err
					}
				}
				if turn.Attempt() > 1 {
					return nil
				}
				if err := turn.Flush(); err != nil {
					return err
				}
				if how == "retry" {
					return engine.Retry(errors.New("not yet"))
				}
				kill()
				return turn.Flush()
			}
			var task *store.Task
			if how == "kill" {
				task = runInterrupted(t, s, 0, handler)
			} else {
				e := start(t, engine.Config{Store: s, Turns: engine.Turns{RetryDelay: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
					return handler(ctx, turn, nil)
				}})
				task = waitFinal(t, e, send(t, e, message("go")).Key.ID)
				checkReader(t, s, task)
			}
			wantState(t, task, a2a.StateCompleted)
			wantTexts(t, task, "a=2")
		})
	}
}

func TestUnwrittenArtifactIsRestored(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	add := func(turn *engine.Turn, text string) error {
		return turn.AddArtifact(a2a.Artifact{ID: "report", Name: "r", Parts: []a2a.Part{a2a.TextPart{Text: text}}})
	}
	e := start(t, engine.Config{Store: s, Turns: engine.Turns{RetryDelay: time.Millisecond}, Handler: func(_ context.Context, turn *engine.Turn) error {
		if turn.Number() == 1 {
			return errors.Join(add(turn, "first turn"), turn.RequireInput())
		}
		if got := turn.Artifacts(); len(got) != 1 || got[0].Text() != "first turn" {
			t.Errorf("Artifacts() = %v in attempt %d, want the artifact of the first turn", got, turn.Attempt())
		}
		if turn.Attempt() == 1 {
			return errors.Join(add(turn, "interrupted"), engine.Retry(errors.New("again")))
		}
		return nil
	}})
	task := waitFinal(t, e, send(t, e, message("a")).Key.ID)
	send(t, e, messageTo(task.Key.ID, "b"))
	task = waitFinal(t, e, task.Key.ID)
	wantState(t, task, a2a.StateCompleted)
	wantTexts(t, task, "r=first turn")
	checkReader(t, s, task)
}

func TestLaterAttemptsContinueArtifactStartedInStep(t *testing.T) {
	t.Parallel()
	task := runInterrupted(t, inmem.New(), 0, func(ctx context.Context, turn *engine.Turn, kill func()) error {
		for i, name := range []string{"0", "1", "2"} {
			if i == 2 && turn.Attempt() == 1 {
				kill()
			}
			_, err := turn.Step(ctx, name, func(context.Context) ([]byte, error) {
				w := turn.OpenArtifact("out")
				w.Describe("described in a step", map[string]any{"n": 1})
				return nil, writeText(w, name)
			})
			if err != nil {
				return err
			}
		}
		return writeText(turn.OpenArtifact("out"), "!")
	})
	wantTexts(t, task, "out=012!")
	if got := task.Artifacts[0].Description; got != "described in a step" {
		t.Errorf("description = %q", got)
	}
}

func TestDifferentContentReplacesEarlierAttempt(t *testing.T) {
	t.Parallel()
	task := runInterrupted(t, inmem.New(), 0, func(ctx context.Context, turn *engine.Turn, kill func()) error {
		w := turn.Artifact("out")
		if err := writeText(w, map[int]string{1: "first ", 2: "second "}[turn.Attempt()]); err != nil {
			return err
		}
		if err := writeStep(ctx, turn, "s", w, "of the step "); err != nil {
			return err
		}
		if turn.Attempt() == 1 {
			kill()
		}
		return writeText(w, "end")
	})
	wantTexts(t, task, "out=second of the step end")
}

func TestDifferentMediaTypeReplacesEarlierAttempt(t *testing.T) {
	t.Parallel()
	parts := func(mediaType string) []a2a.Part {
		return []a2a.Part{a2a.TextPart{Text: "x", MediaType: mediaType}, a2a.DataPart{Data: 1.0, MediaType: mediaType}}
	}
	task := runInterrupted(t, inmem.New(), 0, func(ctx context.Context, turn *engine.Turn, kill func()) error {
		if err := turn.Artifact("out").WriteParts(parts(map[int]string{1: "text/plain", 2: "text/markdown"}[turn.Attempt()])...); err != nil {
			return err
		}
		if err := writeStep(ctx, turn, "s", turn.Artifact("other"), "x"); err != nil {
			return err
		}
		if turn.Attempt() == 1 {
			kill()
		}
		return nil
	})
	if diff := cmp.Diff(parts("text/markdown"), task.Artifacts[0].Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestContentIsComparedAcrossChunkBorders(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	task := runInterrupted(t, s, 0, func(_ context.Context, turn *engine.Turn, kill func()) error {
		w := turn.Artifact("out")
		chunks := []string{"ab", "cde"}
		if turn.Attempt() == 2 {
			chunks = []string{"a", "bcdef", "g"}
		}
		for _, chunk := range chunks {
			if err := writeText(w, chunk); err != nil {
				return err
			}
		}
		if turn.Attempt() == 1 {
			if err := turn.Flush(); err != nil {
				return err
			}
			kill()
			return turn.Flush()
		}
		return nil
	})
	wantTexts(t, task, "out=abcdefg")
	text := ""
	for _, e := range checkLog(t, s, task.Key) {
		if e.Artifact != nil {
			text += e.Artifact.Text()
		}
	}
	if text != "abcdefg" {
		t.Errorf("the log has the text %q, want each byte once", text)
	}
}

func TestWritesDuringConcurrentStepsAreRejected(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: func(ctx context.Context, turn *engine.Turn) error {
		w := turn.Artifact("out")
		inside, done := make(chan struct{}), make(chan struct{})
		var both sync.WaitGroup
		both.Go(func() {
			_, _ = turn.Step(ctx, "a", func(context.Context) ([]byte, error) {
				close(inside)
				<-done
				return nil, nil
			})
		})
		<-inside
		_, err := turn.Step(ctx, "b", func(context.Context) ([]byte, error) { return nil, writeText(w, "ambiguous") })
		if a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(err.Error(), "steps") {
			t.Errorf("WriteString() within two steps = %v, want invalid", err)
		}
		close(done)
		both.Wait()
		_, err = turn.Step(ctx, "c", func(ctx context.Context) ([]byte, error) {
			return nil, writeStep(ctx, turn, "d", w, "nested")
		})
		return err
	}})
	wantTexts(t, sendWait(t, e, message("go")), "out=nested")
}

func TestArtifactsHaveParts(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: func(_ context.Context, turn *engine.Turn) error {
		if err := turn.AddArtifact(a2a.Artifact{Name: "added"}); a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Errorf("AddArtifact() without parts = %v, want invalid_params", err)
		}
		return errors.Join(turn.Artifact("written").WriteParts(), turn.Artifact("closed").Close())
	}})
	wantTexts(t, sendWait(t, e, message("go")))
}

// An artifact that is closed after its chunks were sent gets no further chunk: clients fail on a last chunk
// that is an empty text.
func TestClosedArtifactsGetNoEmptyChunk(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*engine.ArtifactWriter) error{
		"by the handler":         (*engine.ArtifactWriter).Close,
		"by the end of the turn": func(*engine.ArtifactWriter) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inmem.New()
			e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
				w := turn.Artifact("a")
				return errors.Join(writeText(w, "x"), turn.Flush(), writeText(w, "y"), turn.Flush(), end(w))
			}})
			task := sendWait(t, e, message("go"))
			wantTexts(t, task, "a=xy")
			if wantChunks(t, checkLog(t, s, task.Key)) {
				t.Error("a chunk that was sent before the end of the artifact is its last one")
			}
		})
	}
}

func TestNestedStepsOfRecordedStepsKeepNames(t *testing.T) {
	t.Parallel()
	task := runInterrupted(t, inmem.New(), 0, func(ctx context.Context, turn *engine.Turn, kill func()) error {
		said := func(ctx context.Context, text string) ([]byte, error) {
			return turn.Step(ctx, "say", func(context.Context) ([]byte, error) { return []byte(text), nil })
		}
		if _, err := turn.Step(ctx, "outer", func(ctx context.Context) ([]byte, error) { return said(ctx, "inner") }); err != nil {
			return err
		}
		if turn.Attempt() == 1 {
			kill()
		}
		got, err := said(ctx, "outside")
		if err != nil {
			return err
		}
		return turn.Reply(a2a.TextPart{Text: string(got)})
	})
	if got := task.Status.Message.Text(); got != "outside" {
		t.Errorf("step after a recorded step with a nested step of the same name = %q, want outside", got)
	}
}

func TestRecordedOuterStepRepeatsNestedDescription(t *testing.T) {
	t.Parallel()
	// The first attempt records the inner step. The second attempt records the outer step,
	// which repeats the inner one. The third attempt repeats the outer step.
	e := start(t, engine.Config{Turns: engine.Turns{RetryDelay: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		again := engine.Retry(errors.New("again"))
		w := turn.Artifact("out")
		_, err := turn.Step(ctx, "outer", func(ctx context.Context) ([]byte, error) {
			_, err := turn.Step(ctx, "inner", func(context.Context) ([]byte, error) {
				w.Describe("described in a step", nil)
				return nil, nil
			})
			if err == nil && turn.Attempt() == 1 {
				err = again
			}
			return nil, errors.Join(err, writeText(w, "text"))
		})
		if err == nil && turn.Attempt() == 2 {
			err = again
		}
		return err
	}})
	task := sendWait(t, e, message("go"))
	wantTexts(t, task, "out=text")
	if got := task.Artifacts[0].Description; got != "described in a step" {
		t.Errorf("description = %q", got)
	}
}
