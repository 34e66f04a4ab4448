package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// away makes a store fail as a database does that is restarted. The causes of its errors have secrets.
type away struct{ left atomic.Int64 }

const secret = "user=postgres host=10.0.0.7 SQLSTATE 57P01"

func (o *away) err() error {
	if o.left.Add(-1) >= 0 {
		return a2a.Wrap(a2a.CodeUnavailable, errors.New(secret), "the database does not respond")
	}
	return nil
}

// awayStore is a store. Its tasks, records and contracts fail during an outage.
type awayStore struct {
	store.Store
	contractParts
	o *away
}

func newAwayStore(s *inmem.Store) *awayStore {
	o := new(away)
	return &awayStore{o: o, contractParts: s, Store: storetest.Intercept(s, func(ctx context.Context, _ storetest.Call, do func(context.Context) error) error {
		err := do(ctx)
		if lost := o.err(); lost != nil {
			return lost
		}
		return err
	})}
}

func (s *awayStore) contracts() engine.Contracts {
	return engine.Contracts{Stores: []contract.Store{blobs.Of(awayBlobs{blobsql.Of(s, blob.Config{}), s.o}), transcripts.Of(awayHistory{historysql.Of(s), s.o})}}
}

type awayHistory struct {
	history.Provider
	o *away
}

func (h awayHistory) Append(ctx context.Context, k history.Key, p history.AppendParams) (history.AppendResult, error) {
	if err := h.o.err(); err != nil {
		return history.AppendResult{}, err
	}
	return h.Provider.Append(ctx, k, p)
}

func (h awayHistory) Count(ctx context.Context, k history.Key) (int64, error) {
	n, err := h.Provider.Count(ctx, k)
	return n, errors.Join(h.o.err(), err)
}

type awayBlobs struct {
	*blobdriver.Blobs
	o *away
}

// Put fails after it has read all of r.
func (b awayBlobs) Put(ctx context.Context, r io.Reader, p blob.PutParams) (blob.Info, error) {
	data, err := io.ReadAll(r)
	if err = errors.Join(err, b.o.err()); err != nil {
		return blob.Info{}, err
	}
	return b.Blobs.Put(ctx, bytes.NewReader(data), p)
}

func (b awayBlobs) Stat(ctx context.Context, owner, ref string) (blob.Info, error) {
	info, err := b.Blobs.Stat(ctx, owner, ref)
	return info, errors.Join(err, b.o.err())
}

func (b awayBlobs) Open(ctx context.Context, owner, ref string) (io.ReadCloser, blob.Info, error) {
	return b.OpenRange(ctx, owner, ref, 0, -1)
}

func (b awayBlobs) OpenRange(ctx context.Context, owner, ref string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	if err := b.o.err(); err != nil {
		return nil, blob.Info{}, err
	}
	r, info, err := b.Blobs.OpenRange(ctx, owner, ref, offset, length)
	return &awayReader{r, b.o}, info, err
}

type awayReader struct {
	io.ReadCloser
	o *away
}

func (r *awayReader) Read(p []byte) (int, error) {
	if err := r.o.err(); err != nil {
		return 0, err
	}
	return r.ReadCloser.Read(p[:min(len(p), 1000)])
}

// storeCalls are calls of a handler that need a store. Each starts while the store is away.
var storeCalls = map[string]func(ctx context.Context, turn *engine.Turn, f *storeCallFixture) error{
	"Blobs.Put": func(ctx context.Context, turn *engine.Turn, _ *storeCallFixture) error {
		r := strings.NewReader("skipped content")
		_, _ = r.Seek(8, io.SeekStart)
		info, err := blobs.For(turn.Contracts()).Put(ctx, r, blobs.Params{Name: "put"})
		if err == nil && info.Digest != blob.Sum([]byte("content")) {
			err = errors.New("it stored other content")
		}
		return err
	},
	"Blobs.Stat": func(ctx context.Context, turn *engine.Turn, f *storeCallFixture) error {
		_, err := blobs.For(turn.Contracts()).Stat(ctx, f.ref)
		return err
	},
	"Blobs.Open": func(ctx context.Context, turn *engine.Turn, f *storeCallFixture) error {
		r, _, err := blobs.For(turn.Contracts()).Open(ctx, f.ref)
		return f.wantContent(r, err)
	},
	"read of an open blob": func(ctx context.Context, turn *engine.Turn, f *storeCallFixture) error {
		left := f.o.left.Swap(0)
		r, _, err := blobs.For(turn.Contracts()).Open(ctx, f.ref)
		if err != nil {
			return err
		}
		head := make([]byte, 1500)
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		f.o.left.Store(left)
		return f.wantContent(struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(head), r), r}, nil)
	},
	"Artifact.WriteFile": func(ctx context.Context, turn *engine.Turn, f *storeCallFixture) error {
		return turn.Artifact("a").WriteFile(ctx, "f", "", bytes.NewReader(f.data))
	},
	"Artifact.WriteParts of a file": func(_ context.Context, turn *engine.Turn, f *storeCallFixture) error {
		return turn.Artifact("a").WriteParts(filePart("f", f.data))
	},
	"ReadFile": func(ctx context.Context, turn *engine.Turn, f *storeCallFixture) error {
		data, err := turn.ReadFile(ctx, f.file)
		return f.wantContent(io.NopCloser(bytes.NewReader(data)), err)
	},
	"OpenFile": func(ctx context.Context, turn *engine.Turn, f *storeCallFixture) error {
		r, err := turn.OpenFile(ctx, f.file)
		return f.wantContent(r, err)
	},
	"Transcript.Append": func(ctx context.Context, turn *engine.Turn, _ *storeCallFixture) error {
		return transcripts.For(turn.Contracts()).Append(ctx, said("x"))
	},
	"Transcript.Count": func(ctx context.Context, turn *engine.Turn, _ *storeCallFixture) error {
		_, err := transcripts.For(turn.Contracts()).Count(ctx)
		return err
	},
	"State.Get": func(ctx context.Context, turn *engine.Turn, _ *storeCallFixture) error {
		_, err := states.For(turn.Contracts()).Get(ctx)
		return err
	},
	"State.Update": func(ctx context.Context, turn *engine.Turn, _ *storeCallFixture) error {
		return states.For(turn.Contracts()).Update(ctx, map[string]any{"a": 1})
	},
	"Board.Create": func(ctx context.Context, turn *engine.Turn, _ *storeCallFixture) error {
		b, err := boards.For(turn.Contracts()).Create(ctx, boards.Params{}, "plan")
		if err != nil {
			return err
		}
		_, err = boards.For(turn.Contracts()).Get(ctx, b.ID)
		return err
	},
	"Board.List": func(ctx context.Context, turn *engine.Turn, _ *storeCallFixture) error {
		_, err := boards.For(turn.Contracts()).List(ctx)
		return err
	},
	"Step": func(ctx context.Context, turn *engine.Turn, _ *storeCallFixture) error {
		_, err := turn.Step(ctx, "s", func(context.Context) ([]byte, error) { return nil, nil })
		return err
	},
	"History": func(ctx context.Context, turn *engine.Turn, _ *storeCallFixture) error {
		messages, err := turn.History(ctx, 0)
		if err == nil && (len(messages) != 1 || messages[0].Text() != "earlier") {
			err = fmt.Errorf("messages = %v, want the earlier one", messages)
		}
		return err
	},
	"Context": func(ctx context.Context, turn *engine.Turn, _ *storeCallFixture) error {
		_, err := turn.Context(ctx)
		return err
	},
	"References": func(ctx context.Context, turn *engine.Turn, f *storeCallFixture) error {
		refs, err := turn.References(ctx)
		if err == nil && (len(refs) != 1 || refs[0].TaskID != f.earlier) {
			err = fmt.Errorf("references = %v, want task %s", refs, f.earlier)
		}
		return err
	},
}

type storeCallFixture struct {
	o       *away
	data    []byte
	ref     string   // of a blob with data
	file    a2a.File // a reference to data
	earlier string   // a task of the same context
}

func (f *storeCallFixture) wantContent(r io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(data, f.data) {
		err = fmt.Errorf("read %d other bytes", len(data))
	}
	return err
}

func TestCallsOfATurnWaitForTheStore(t *testing.T) {
	t.Parallel()
	for name, call := range storeCalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newAwayStore(inmem.New())
				f := &storeCallFixture{o: s.o, data: fileContent(1, 100_000)}
				e := start(t, engine.Config{Store: s, Contracts: s.contracts(), Turns: engine.Turns{FlushInterval: time.Hour}, Handler: func(ctx context.Context, turn *engine.Turn) error {
					if turn.Messages()[0].Text() == "earlier" {
						w := turn.Artifact("a")
						return w.WriteFile(ctx, "f", "", bytes.NewReader(f.data))
					}
					if turn.Attempt() > 1 {
						return errors.New("an attempt was charged")
					}
					s.o.left.Store(5)
					defer s.o.left.Store(0)
					err := call(ctx, turn, f)
					if left := s.o.left.Load(); err == nil && left >= 0 {
						return fmt.Errorf("the call ended after %d of 5 failures", 5-left)
					}
					return err
				}})
				earlier := sendWait(t, e, message("earlier"))
				wantState(t, earlier, a2a.StateCompleted)
				f.earlier, f.file = earlier.Key.ID, earlier.Artifacts[0].Parts[0].(a2a.FilePart).File
				info, err := blobsql.Of(s, blob.Config{}).Put(t.Context(), bytes.NewReader(f.data), blob.PutParams{Owner: alice.ID})
				if err != nil {
					t.Fatal(err)
				}
				f.ref = info.Ref
				p := message("call")
				p.Message.ContextID, p.Message.ReferenceTaskIDs = earlier.ContextID, []string{f.earlier}
				task := sendWait(t, e, p)
				if task.Status.State != a2a.StateCompleted {
					t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
				}
			})
		})
	}
}

// A handler that returns the error of a store that is away is interrupted: the attempt is repeated and not counted.
func TestErrorOfAStoreThatIsAwayChargesNoAttempt(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(error) error{
		"as it is":     func(err error) error { return err },
		"wrapped":      func(err error) error { return fmt.Errorf("saving the report: %w", err) },
		"Retry":        func(err error) error { return engine.Retry(err) },
		"another call": func(error) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, o := inmem.New(), new(away)
				var calls, attempts int
				e := start(t, engine.Config{Store: s, Contracts: engine.Contracts{Stores: []contract.Store{blobs.Of(awayBlobs{blobsql.Of(s, blob.Config{}), o})}}, Turns: engine.Turns{MaxAttempts: 1}, Handler: func(ctx context.Context, turn *engine.Turn) error {
					if calls++; calls <= 3 {
						o.left.Store(1)
					}
					attempts = max(attempts, turn.Attempt())
					_, err := blobs.For(turn.Contracts()).Put(ctx, io.MultiReader(strings.NewReader("content")), blobs.Params{})
					if err != nil {
						if strings.Contains(err.Error(), secret) {
							return errors.New("the error has details of the store")
						}
						if err = wrap(err); err == nil {
							_, err = states.For(turn.Contracts()).Get(ctx) // is refused: the outcome of Put is unknown
						}
					}
					return err
				}})
				task := sendWait(t, e, message("m"))
				for task.Status.State == a2a.StateSubmitted {
					task = waitFinal(t, e, task.Key.ID)
				}
				wantState(t, task, a2a.StateCompleted)
				if calls != 4 || attempts != 1 {
					t.Errorf("%d calls of the handler, in attempt %d at most, want 4 and 1", calls, attempts)
				}
				if n := len(blobsOf(t, e)); n != 1 {
					t.Errorf("%d blobs, want 1", n)
				}
			})
		})
	}
}

// Interrupted attempts that wrote the same file leave one blob, also if the content can be read only once.
func TestInterruptedUploadsLeaveOneBlob(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		data := fileContent(1, 200_000)
		e := start(t, engine.Config{Store: s, Turns: engine.Turns{RetryDelay: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			if err := turn.Artifact("a").WriteFile(ctx, "f", "text/plain", io.MultiReader(bytes.NewReader(data))); err != nil {
				return err
			}
			if turn.Attempt() < 3 {
				return engine.Retry(errors.New("again"))
			}
			return nil
		}})
		task := sendWait(t, e, message("m"))
		for task.Status.State != a2a.StateCompleted {
			task = waitFinal(t, e, task.Key.ID)
		}
		if n := len(blobsOf(t, e)); n != 1 {
			t.Errorf("%d blobs, want 1", n)
		}
	})
}

// Clients see the text of a coded error, not its cause.
func TestStatusOfAFailedTaskHasNoCauses(t *testing.T) {
	t.Parallel()
	damaged := a2a.Wrap(a2a.CodeInternal, errors.New(secret), "the database is damaged")
	plain := a2a.Errorf(a2a.CodeInvalid, "plain")
	for want, err := range map[string]error{
		"the database is damaged":         damaged,
		"saving: the database is damaged": fmt.Errorf("saving: %w", damaged),
		"plain\nthe database is damaged":  errors.Join(plain, damaged),
		"outer: the outer text":           fmt.Errorf("outer: %w", a2a.Wrap(a2a.CodeConflict, damaged, "the outer text")),
	} {
		e := start(t, engine.Config{Store: inmem.New(), Turns: engine.Turns{MaxAttempts: 1}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			if turn.Messages()[0].Text() == "retry" {
				return engine.Retry(err)
			}
			return err
		}})
		for _, text := range []string{"fail", "retry"} {
			task := sendWait(t, e, message(text))
			if got := task.Status.Message.Text(); !strings.HasSuffix(got, want) || strings.Contains(got, secret) {
				t.Errorf("status of %s = %q, want %q", text, got, want)
			}
		}
	}
}

// brokenReads is a store of blobs that can be opened, but not read.
type brokenReads struct {
	*blobdriver.Blobs
	o *away
}

func (b brokenReads) OpenRange(ctx context.Context, owner, ref string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	r, info, err := b.Blobs.OpenRange(ctx, owner, ref, offset, length)
	return &awayReader{r, b.o}, info, err
}

// A reader of content that cannot be read pauses before it opens the content again.
func TestFailedReadsOfABlobPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o, data := inmem.New(), new(away), fileContent(1, 100_000)
		info, err := blobsql.Of(s, blob.Config{}).Put(t.Context(), bytes.NewReader(data), blob.PutParams{Owner: alice.ID})
		if err != nil {
			t.Fatal(err)
		}
		e := start(t, engine.Config{Store: s, Contracts: engine.Contracts{Stores: []contract.Store{blobs.Of(brokenReads{blobsql.Of(s, blob.Config{}), o})}}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			r, _, err := blobs.For(turn.Contracts()).Open(ctx, info.Ref)
			if err != nil {
				return err
			}
			o.left.Store(5)
			began := time.Now()
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, data) {
				return fmt.Errorf("read %d bytes, %w", len(got), err)
			}
			if took := time.Since(began); took < 3*time.Second { // 0.1 + 0.2 + 0.4 + 0.8 + 1.6
				return fmt.Errorf("5 failed reads took %s, want pauses", took)
			}
			return r.Close()
		}})
		task := sendWait(t, e, message("m"))
		if task.Status.State != a2a.StateCompleted {
			t.Errorf("task is %s: %s", task.Status.State, task.Status.Message.Text())
		}
	})
}
