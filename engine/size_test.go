package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
)

// onDisk runs a test on each database. size returns the database size on disk in bytes; the
// store must not be used after that.
func onDisk(t *testing.T, test func(t *testing.T, s store.Store, size func() int64)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		test(t, s, func() (size int64) {
			if err := s.Close(); err != nil {
				t.Errorf("Close() = %v", err)
			}
			_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
				if info, ierr := e.Info(); err == nil && ierr == nil && info.Mode().IsRegular() {
					size += info.Size()
				}
				return nil
			})
			return size
		})
	})
	if !pgtest.Enabled {
		return
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		schema := pgtest.Schema(t, url)
		s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: schema, Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(t, s, func() (size int64) {
			c, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close(context.Background()) }()
			err = c.QueryRow(t.Context(), `SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
				JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`, schema).Scan(&size)
			if err != nil {
				t.Fatal(err)
			}
			return size
		})
	})
}

// randomText returns text that compresses poorly.
func randomText(random *rand.Rand, n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var b strings.Builder
	for range n {
		b.WriteByte(letters[random.IntN(len(letters))])
	}
	return b.String()
}

func TestStoredSizeIsProportionalToContent(t *testing.T) {
	t.Parallel()
	const turns, each = 100, 10_000 // bytes per message, and per answer
	onDisk(t, func(t *testing.T, s store.Store, size func() int64) {
		random := rand.New(rand.NewPCG(1, 2))
		e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
			return turn.RequireInput(a2a.TextPart{Text: strings.ToLower(turn.Messages()[0].Text())})
		}})
		task := sendWait(t, e, message(randomText(random, each)))
		for range turns - 1 {
			task = sendWait(t, e, messageTo(task.Key.ID, randomText(random, each)))
		}
		got, err := s.Task(t.Context(), task.Key, store.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		content := int64(got.Size())
		if len(got.History) != 2*turns {
			t.Errorf("history has %d messages, want %d", len(got.History), 2*turns)
		}
		if got.LogSize > 4*content {
			t.Errorf("a read of %d bytes reads %d", content, got.LogSize)
		}
		if stored := size(); stored > 3*content {
			t.Errorf("%d bytes in %d turns take %d on disk, a factor of %.1f", content, turns, stored, float64(stored)/float64(content))
		} else {
			t.Logf("%d bytes in %d turns take %.2f times that on disk", content, turns, float64(stored)/float64(content))
		}
	})
}

func TestLargeContentIsStoredOnce(t *testing.T) {
	t.Parallel()
	onDisk(t, func(t *testing.T, s store.Store, size func() int64) {
		large := randomText(rand.New(rand.NewPCG(3, 4)), 5_400_000)
		e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
			err := turn.AddArtifact(a2a.Artifact{ID: "a", Parts: []a2a.Part{a2a.TextPart{Text: large}}})
			return errors.Join(err, turn.RequireInput(a2a.TextPart{Text: large}))
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var task *store.Task
		for params, turn := message(large), 1; turn <= 4; turn++ {
			sent, err := e.Send(ctx, alice, params, engine.SendOptions{Wait: true})
			if err != nil {
				t.Fatalf("Send() in turn %d = %v", turn, err)
			}
			task, params = sent.Task, messageTo(sent.Task.Key.ID, large)
		}
		got, err := s.Task(t.Context(), task.Key, store.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.History) != 8 || len(got.Artifacts) != 1 || got.Artifacts[0].Text() != large || got.Status.Message.Text() != large {
			t.Errorf("Task() = %d messages and %d artifacts, want 8 and 1 with their content", len(got.History), len(got.Artifacts))
		}
		for i := range got.History {
			if got.History[i].Message.Text() != large {
				t.Errorf("message %d has lost its content", i)
			}
		}
		page, err := s.Tasks(t.Context(), store.Query{Owner: task.Key.Owner, Limit: 1, Options: store.TaskOptions{OmitArtifacts: true, History: new(int)}})
		if err != nil || len(page.Tasks) != 1 || page.Tasks[0].Artifacts != nil || page.Tasks[0].Status.Message.Text() != large {
			t.Errorf("Tasks() = %d tasks, %v, want one without artifacts", len(page.Tasks), err)
		}
		stored := float64(size()) / float64(len(large))
		t.Logf("content that is used twelve times takes %.2f times its size on disk", stored)
		if stored > 1.3 {
			t.Errorf("content takes %.2f times its size on disk, want at most 1.3", stored)
		}
	})
}
