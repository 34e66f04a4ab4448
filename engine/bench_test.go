package engine_test

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// BenchmarkSend measures a blocking send of a short task, without a transport.
func BenchmarkSend(b *testing.B) {
	stores := map[string]func() store.Store{
		"memory": func() store.Store { return inmem.New() },
		"sqlite": func() store.Store {
			s, err := sqlite.Open(b.Context(), sqlite.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			return s
		},
	}
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			s := open()
			e, err := engine.New(engine.Config{Store: s, Handler: replyHandler, NewID: newID})
			if err != nil {
				b.Fatal(err)
			}
			if err := e.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := e.Send(context.Background(), alice, message("hello"), engine.SendOptions{Wait: true}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			if err := e.Stop(b.Context()); err != nil {
				b.Error(err)
			}
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
