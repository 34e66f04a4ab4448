//go:build services

package auth_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// A signature counts once on three replicas that get it at the same time.
func TestAttack16ReplaysOnReplicas(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	schema := pgtest.Schema(t, url)
	alice, c := newSigner(t, 1), newClock()
	var replicas []*agent
	for range 3 {
		s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: schema, Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		replicas = append(replicas, start(t, auth.Config{DIDs: dids(t, s, s.Info().Exclusive, c.now(), alice.did), Now: c.now}, s))
	}
	for range 5 {
		c.at.Add(1)
		body := sendBody()
		h := alice.sign(t, body, c.now())
		answers := make(chan string, 30)
		var all sync.WaitGroup
		for i := range cap(answers) {
			all.Go(func() {
				got := replicas[i%len(replicas)].do(http.MethodPost, "/", body, h)
				answers <- got.reason()
			})
		}
		all.Wait()
		close(answers)
		accepted := 0
		for reason := range answers {
			switch reason {
			case "none":
				accepted++
			case "403 -32012 replayed":
			default:
				t.Errorf("a replay = %s, want 403 replayed", reason)
			}
		}
		if accepted != 1 {
			t.Errorf("%d of %d requests with one signature were accepted, want 1", accepted, cap(answers))
		}
	}
}
