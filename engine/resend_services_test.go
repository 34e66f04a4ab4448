//go:build services

package engine_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

func TestResendThroughOtherReplica(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	schema := pgtest.Schema(t, url)
	handler, runs := countingCommandHandler()
	var engines []*engine.Engine
	for range 2 {
		s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: schema, Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		engines = append(engines, start(t, engine.Config{Handler: handler, Store: s, Turns: engine.Turns{Poll: 50 * time.Millisecond}}))
	}
	id := wantOneTask(t, message("ask"), engines...)
	reply := messageTo(id, "done")
	if got := wantOneTask(t, reply, engines...); got != id {
		t.Errorf("Send(reply) = task %s, want %s", got, id)
	}
	other := messageTo(id, "other")
	other.Message.ID = reply.Message.ID
	for _, e := range engines {
		_, err := e.Send(t.Context(), alice, other, engine.SendOptions{})
		wantError(t, "Send(other content, same message id)", err, a2a.CodeInvalid, "message.messageId")
	}
	if n := runs.Load(); n != 2 {
		t.Errorf("the handlers ran %d times, want twice", n)
	}
}
