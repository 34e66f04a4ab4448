package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory/states"
)

// lostAnswers is a store outside of the agent's database. It loses the answers to the first writes.
type lostAnswers struct{ left atomic.Int32 }

func (l *lostAnswers) lose(err error) error {
	if err == nil && l.left.Add(-1) >= 0 {
		return a2a.Errorf(a2a.CodeUnavailable, "no answer")
	}
	return err
}

type lossyHistory struct {
	history.Provider
	l *lostAnswers
}

func (h lossyHistory) Append(ctx context.Context, k history.Key, p history.AppendParams) (history.AppendResult, error) {
	r, err := h.Provider.Append(ctx, k, p)
	return r, h.l.lose(err)
}

type lossyBlobs struct {
	*blobdriver.Blobs
	l *lostAnswers
}

func (b lossyBlobs) Put(ctx context.Context, r io.Reader, p blob.PutParams) (blob.Info, error) {
	info, err := b.Blobs.Put(ctx, r, p)
	return info, b.l.lose(err)
}

func newLostAnswers(parts contractParts, losses int32) engine.Contracts {
	l := &lostAnswers{}
	l.left.Store(losses)
	return engine.Contracts{Stores: []contract.Store{transcripts.Of(lossyHistory{historysql.Of(parts), l}), blobs.Of(lossyBlobs{blobsql.Of(parts, blob.Config{}), l})}}
}

func put(ctx context.Context, turn *engine.Turn, content string, digest blob.Digest) error {
	stream := io.MultiReader(strings.NewReader(content)) // no io.Seeker: Put cannot repeat it
	info, err := blobs.For(turn.Contracts()).Put(ctx, stream, blobs.Params{Name: turn.ContextID() + "/" + content, Digest: digest})
	if err == nil && info.Digest != blob.Sum([]byte(content)) {
		return fmt.Errorf("Put(%q) returned the blob of another content", content)
	}
	return err
}

// If the answer to a write is lost, another call does not get its result. The other call is refused
// until the write is repeated, or until the next attempt.
func TestCallAfterALostAnswerDoesNotGetItsResult(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(ctx context.Context, turn *engine.Turn, text string) error{
		"blobs.put": func(ctx context.Context, turn *engine.Turn, text string) error {
			ctx, cancel := impatient(ctx, turn, text)
			defer cancel()
			return put(ctx, turn, text, blob.Sum([]byte(text)))
		},
		"transcript.append": func(ctx context.Context, turn *engine.Turn, text string) error {
			ctx, cancel := impatient(ctx, turn, text)
			defer cancel()
			return transcripts.For(turn.Contracts()).Append(ctx, said(text))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				foreign := inmem.New()
				e := start(t, engine.Config{Store: inmem.New(), Contracts: newLostAnswers(foreign, 2), Turns: engine.Turns{RetryDelay: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
					if turn.Attempt() == 1 {
						if err := write(ctx, turn, "first"); a2a.CodeOf(err) != a2a.CodeUnavailable {
							return fmt.Errorf("write = %w, want the error of the store", err)
						}
						_, state := states.For(turn.Contracts()).Get(ctx)
						for _, err := range []error{write(ctx, turn, "second"), put(ctx, turn, "other", blob.Digest{}), blobs.For(turn.Contracts()).Delete(ctx, "x"), states.For(turn.Contracts()).Update(ctx, map[string]any{"a": 1}), state} {
							if a2a.CodeOf(err) != a2a.CodeUnavailable || !strings.Contains(err.Error(), name) {
								return fmt.Errorf("another call = %w, want one that names %s", err, name)
							}
						}
						if err := write(ctx, turn, "first"); a2a.CodeOf(err) != a2a.CodeUnavailable {
							return fmt.Errorf("repeated write = %w, want the error of the store", err)
						}
						_, err := turn.Step(ctx, "other", func(ctx context.Context) ([]byte, error) { return nil, write(ctx, turn, "in a step") })
						return errors.Join(err, engine.Retry(errAgain))
					}
					_, err := turn.Step(ctx, "other", func(context.Context) ([]byte, error) { return nil, errors.New("the step is repeated") })
					return errors.Join(write(ctx, turn, "first"), write(ctx, turn, "second"), err)
				}})
				task := sendIn(t, e, newID())
				if task.Status.State != a2a.StateCompleted {
					t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
				}
				got := contractData(t, foreign, task.ContextID)
				want := noData()
				want["transcript"] = []string{`user "first"`, `user "in a step"`, `user "second"`}
				if name == "blobs.put" {
					want["transcript"], want["blobs"] = []string{}, []string{task.ContextID + "/first", task.ContextID + "/in a step", task.ContextID + "/second"}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("data of the context (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// impatient returns a context that ends before the first write of the first attempt is repeated.
func impatient(ctx context.Context, turn *engine.Turn, text string) (context.Context, context.CancelFunc) {
	if turn.Attempt() == 1 && text == "first" {
		return context.WithTimeout(ctx, 50*time.Millisecond)
	}
	return context.WithCancel(ctx)
}

// A Put of content without a known digest cannot be compared with the one before.
func TestPutAfterALostAnswerNeedsTheDigest(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Store: inmem.New(), Contracts: newLostAnswers(inmem.New(), 1), Handler: func(ctx context.Context, turn *engine.Turn) error {
		for i := range 3 {
			if err := put(ctx, turn, fmt.Sprint("content ", i), blob.Digest{}); a2a.CodeOf(err) != a2a.CodeUnavailable {
				return fmt.Errorf("Put() = %w, want an error", err)
			}
		}
		return nil
	}})
	if task := sendIn(t, e, newID()); task.Status.State != a2a.StateCompleted {
		t.Errorf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
}

// Of concurrent calls of Put outside of steps, each stores its content or returns an error.
func TestConcurrentPutsDoNotShareABlob(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		contents := []string{"a", "b", "c", "d"}
		e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
			inFlight, done := make(chan struct{}), make(chan error)
			r, w := io.Pipe()
			go func() {
				_, err := blobs.For(turn.Contracts()).Put(ctx, r, blobs.Params{Name: turn.ContextID() + "/first"})
				done <- err
			}()
			go func() {
				_, _ = w.Write([]byte("first")) // returns when Put has read it
				close(inFlight)
			}()
			<-inFlight
			_, state := states.For(turn.Contracts()).Get(ctx)
			for _, err := range []error{put(ctx, turn, "x", blob.Digest{}), states.For(turn.Contracts()).Update(ctx, map[string]any{"a": 1}), state} {
				if a2a.CodeOf(err) != a2a.CodeInvalid {
					return fmt.Errorf("call during Put = %w, want an error", err)
				}
			}
			_, err := turn.Step(ctx, "s", func(ctx context.Context) ([]byte, error) { return nil, put(ctx, turn, "in a step", blob.Digest{}) })
			_ = w.Close()
			if err := errors.Join(err, <-done); err != nil {
				return err
			}
			errs := make([]error, len(contents))
			var wg sync.WaitGroup
			for i, c := range contents {
				wg.Go(func() {
					for errs[i] = errAgain; errs[i] != nil && ctx.Err() == nil; {
						if errs[i] = put(ctx, turn, c, blob.Digest{}); errs[i] != nil && a2a.CodeOf(errs[i]) != a2a.CodeInvalid {
							return
						}
					}
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		}})
		task := sendIn(t, e, newID())
		if task.Status.State != a2a.StateCompleted {
			t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
		}
		var want []string
		for _, c := range append(contents, "first", "in a step") {
			want = append(want, task.ContextID+"/"+c)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, contractData(t, s.(contractParts), task.ContextID)["blobs"]); diff != "" {
			t.Errorf("blobs (-want +got):\n%s", diff)
		}
	})
}

// A write that failed for good is stored before the next one is made, so that a later attempt makes
// the same calls even if the failure would not happen again.
func TestFailedWriteIsStoredBeforeTheNextOne(t *testing.T) {
	t.Parallel()
	foreign := inmem.New()
	full := &fullBlobs{Blobs: blobsql.Of(foreign, blob.Config{})}
	e := start(t, engine.Config{Store: inmem.New(), Contracts: engine.Contracts{Stores: []contract.Store{blobs.Of(full)}}, Turns: engine.Turns{RetryDelay: time.Millisecond, FlushInterval: time.Hour}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		full.full.Store(turn.Attempt() == 1)
		err := put(ctx, turn, "large", blob.Digest{})
		if turn.Attempt() == 1 {
			full.full.Store(false)
		}
		if !errors.Is(err, blob.ErrTooLarge) {
			return fmt.Errorf("Put() = %w in attempt %d, want the error of the first attempt", err, turn.Attempt())
		}
		if turn.Attempt() == 1 {
			full.lost.Store(true)
		}
		if err := put(ctx, turn, "small", blob.Digest{}); err != nil {
			return engine.Retry(err)
		}
		return nil
	}})
	task := sendIn(t, e, newID())
	if task.Status.State != a2a.StateCompleted {
		t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
	if diff := cmp.Diff([]string{task.ContextID + "/small"}, contractData(t, foreign, task.ContextID)["blobs"]); diff != "" {
		t.Errorf("blobs (-want +got):\n%s", diff)
	}
}

// fullBlobs rejects content while it is full, and loses one answer.
type fullBlobs struct {
	*blobdriver.Blobs
	full, lost atomic.Bool
}

func (b *fullBlobs) Put(ctx context.Context, r io.Reader, p blob.PutParams) (blob.Info, error) {
	if b.full.Load() {
		return blob.Info{}, blob.ErrTooLarge
	}
	info, err := b.Blobs.Put(ctx, r, p)
	if err == nil && b.lost.CompareAndSwap(true, false) {
		return blob.Info{}, errors.New("no answer") // an attempt waits for a store that is unavailable
	}
	return info, err
}

// A store that does not respond for a while delays a turn and does not fail it.
func TestCallsWaitForAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	foreign := inmem.New()
	e := start(t, engine.Config{Store: inmem.New(), Contracts: newLostAnswers(foreign, 2), Handler: func(ctx context.Context, turn *engine.Turn) error {
		return transcripts.For(turn.Contracts()).Append(ctx, said("once"))
	}})
	task := sendIn(t, e, newID())
	if task.Status.State != a2a.StateCompleted {
		t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
	want := noData()
	want["transcript"] = []string{`user "once"`}
	if diff := cmp.Diff(want, contractData(t, foreign, task.ContextID)); diff != "" {
		t.Errorf("data of the context (-want +got):\n%s", diff)
	}
}
