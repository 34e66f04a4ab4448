package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// BenchmarkTurnSpeed compares short turns that read or change the state of their session, append to
// its transcript or remember a fact with turns that do not.
func BenchmarkTurnSpeed(b *testing.B) {
	for _, bench := range []struct {
		name  string
		store func(b *testing.B) (store.Store, error)
	}{
		{"memory", func(*testing.B) (store.Store, error) { return inmem.New(), nil }},
		{"sqlite", func(b *testing.B) (store.Store, error) {
			return sqlite.Open(b.Context(), sqlite.Config{Dir: b.TempDir()})
		}},
		{"postgres", func(b *testing.B) (store.Store, error) {
			server, err := pgtest.Start(pgtest.Config{Fsync: true, Settings: map[string]string{"shared_buffers": "512MB"}})
			if err != nil {
				return nil, err
			}
			b.Cleanup(func() { _ = server.Close() })
			return postgres.Open(b.Context(), postgres.Config{URL: server.URL(), Migrate: true})
		}},
	} {
		for _, kind := range []string{"read", "write", "append", "remember", "append and remember"} {
			for _, callers := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/%s/callers=%d", bench.name, kind, callers), func(b *testing.B) {
					s, err := bench.store(b)
					if err != nil {
						b.Fatal(err)
					}
					e, err := engine.New(engine.Config{Store: s, NewID: newID, Handler: benchState})
					if err != nil {
						b.Fatal(err)
					}
					if err := e.Start(b.Context()); err != nil {
						b.Fatal(err)
					}
					send := func(kind string) func(caller, n int) error {
						return func(int, int) error {
							_, err := e.Send(b.Context(), alice, message(kind), engine.SendOptions{Wait: true})
							return err
						}
					}
					suite.Compare(b, suite.Comparison{Callers: callers, Calls: 64 + 7*callers, Reference: send("plain"), Measured: send(kind)})
					if err := e.Stop(b.Context()); err != nil {
						b.Error(err)
					}
					if err := s.Close(); err != nil {
						b.Error(err)
					}
				})
			}
		}
	}
}

func benchState(ctx context.Context, turn *engine.Turn) error {
	kind := turn.Messages()[0].Text()
	switch kind {
	case "append", "append and remember":
		if err := transcripts.For(turn.Contracts()).AppendText(ctx, "user", "The backup runs at noon, except on Sundays."); err != nil {
			return err
		}
	case "read", "write":
		if _, err := states.For(turn.Contracts()).Get(ctx); err != nil {
			return err
		}
	}
	if strings.HasSuffix(kind, "remember") {
		if err := facts.For(turn.Contracts()).Remember(ctx, "The backup runs at noon, except on Sundays.", facts.RememberParams{Namespace: turn.ContextID()}); err != nil {
			return err
		}
	}
	if kind == "write" {
		if err := states.For(turn.Contracts()).Update(ctx, map[string]any{"step": "answered", "user": map[string]any{"language": "en", "id": 4711}}); err != nil {
			return err
		}
	}
	return turn.Reply(a2a.TextPart{Text: fmt.Sprint("echo: ", kind)})
}
