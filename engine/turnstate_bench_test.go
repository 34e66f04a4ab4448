package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
)

// BenchmarkState compares short turns that change the state of their session, append to its
// transcript or remember a fact with turns that do not. Batches of them alternate, so that all have
// the same load of the machine.
func BenchmarkState(b *testing.B) {
	for _, bench := range []struct {
		name  string
		store func(b *testing.B) store.Store
	}{
		{"memory", func(*testing.B) store.Store { return inmem.New() }},
		{"sqlite", func(b *testing.B) store.Store {
			s, err := sqlite.Open(b.Context(), sqlite.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			return s
		}},
		{"postgres", func(b *testing.B) store.Store {
			url := pgtest.URL(b)
			s, err := postgres.Open(b.Context(), postgres.Config{URL: url, Schema: pgtest.Schema(b, url), Migrate: true})
			if err != nil {
				b.Fatal(err)
			}
			return s
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := bench.store(b)
			e, err := engine.New(engine.Config{Store: s, NewID: newID, Handler: benchState})
			if err != nil {
				b.Fatal(err)
			}
			if err := e.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			took := make(map[string]time.Duration)
			turns := 0
			for b.Loop() {
				for _, kind := range []string{"plain", "read", "write", "append", "remember"} {
					started := time.Now()
					sendBatch(b, e, kind)
					took[kind] += time.Since(started)
				}
				turns += benchBatch
			}
			for kind, d := range took {
				b.ReportMetric(float64(d.Microseconds())/float64(turns), kind+"-us/turn")
			}
			for _, kind := range []string{"write", "append", "remember"} {
				b.ReportMetric(float64(took[kind])/float64(took["plain"]), kind+"/plain")
			}
			if err := e.Stop(b.Context()); err != nil {
				b.Error(err)
			}
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

const benchBatch = 256

func sendBatch(b *testing.B, e *engine.Engine, kind string) {
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for range benchBatch / 64 {
				if _, err := e.Send(b.Context(), alice, message(kind), engine.SendOptions{Wait: true}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

func benchState(ctx context.Context, turn *engine.Turn) error {
	kind := turn.Messages()[0].Text()
	switch kind {
	case "append":
		if err := turn.Transcript().AppendText(ctx, "user", "The backup runs at noon, except on Sundays."); err != nil {
			return err
		}
	case "remember":
		if err := turn.Remember(ctx, "The backup runs at noon, except on Sundays.", engine.RememberParams{Namespace: turn.ContextID()}); err != nil {
			return err
		}
	case "read", "write":
		if _, err := turn.State().Get(ctx); err != nil {
			return err
		}
	}
	if kind == "write" {
		if err := turn.State().Update(ctx, map[string]any{"step": "answered", "user": map[string]any{"language": "en", "id": 4711}}); err != nil {
			return err
		}
	}
	return turn.Reply(a2a.TextPart{Text: fmt.Sprint("echo: ", kind)})
}
