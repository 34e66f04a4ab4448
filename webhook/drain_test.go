package webhook

import (
	"context"
	"testing"
	"time"
)

// A server that stops while its store fails must not claim lanes, and log the error, hundreds
// of times a second until its grace period ends.
func TestDrainEndsWhenTheStoreFails(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		r.store.failMethod("ClaimLanes")
		before := r.store.count("ClaimLanes")
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		r.s.Drain(ctx)
		if claims := r.store.count("ClaimLanes") - before; ctx.Err() != nil || claims > 3 {
			w.t.Errorf("Drain() made %d claims, %v; want it to return after one that failed", claims, ctx.Err())
		}
	})
}
