package webhook

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// discardSender is a Sender that accepts all requests immediately.
type discardSender struct{ got atomic.Int64 }

func (s *discardSender) Check(context.Context, string) error { return nil }

func (s *discardSender) Post(context.Context, safehttp.Request) (safehttp.Response, error) {
	s.got.Add(1)
	return safehttp.Response{Status: 200}, nil
}

// BenchmarkDeliver measures the cost of a delivery without the request: five events per lane,
// many endpoints, an in-memory store.
func BenchmarkDeliver(b *testing.B) {
	const events = 5
	s := inmem.New()
	defer s.Close()
	sender := new(discardSender)
	ids := 0
	svc, err := New(Config{Store: s, Sender: sender, NewID: func() string { ids++; return fmt.Sprint(ids) }})
	if err != nil {
		b.Fatal(err)
	}
	lanes := (b.N + events - 1) / events
	for n := range lanes {
		task := store.Key{Owner: fmt.Sprint("owner-", n%50), ID: fmt.Sprint("task-", n)}
		url := fmt.Sprintf("https://endpoint-%d.example.com", n%100)
		data, err := svc.seal.encode(settings{URL: url + "/hook", Secrets: &secrets{Token: "token"}}, task, "w")
		if err != nil {
			b.Fatal(err)
		}
		log := []store.Event{{Time: time.Now(), State: a2a.StateSubmitted}}
		for i := range events {
			e := chunk(fmt.Sprint(i))
			e.Time = time.Now()
			log = append(log, e)
		}
		if _, err := s.Commit(b.Context(), store.Change{
			Key: task, Create: &store.Create{ContextID: "c"}, Queue: &store.QueueEntry{Phase: store.PhaseIdle}, Events: log,
			Webhooks: []store.NewWebhook{{ID: "w", Endpoint: url + ":443", Data: data}},
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := svc.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	await.True(b, "all events are delivered", func() bool { return sender.got.Load() >= int64(lanes*events) })
	b.StopTimer()
	b.ReportMetric(float64(lanes*events)/b.Elapsed().Seconds(), "deliveries/s")
	svc.Stop(b.Context())
}
