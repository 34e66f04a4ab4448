package storetest

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// timesKept passes times that stores do not keep as they are.
func timesKept(f *fixture) {
	fine := at(0).Add(123_456 * time.Nanosecond).In(time.FixedZone("elsewhere", 2*3600))
	k := key("t1")
	c := idempotent(newTask(k, "c1", fine), "key", fine)
	c.Run = &store.Run{Phase: store.PhaseQueued, DueAt: fine}
	f.commit(c)
	if err := f.s.AddFeedback(f.ctx, store.Feedback{Key: k, ID: "f1", Rating: 3, CreatedAt: fine}); err != nil {
		f.Fatalf("AddFeedback() = %v", err)
	}
	feedback := f.feedbackOn(k)
	if len(feedback) != 1 {
		f.Fatalf("Feedback() = %v, want one", feedback)
	}
	t, ctx := f.task(k), f.context(owner, "c1")
	saved := described(owner, "c2", 0)
	saved.CreatedAt, saved.UpdatedAt = fine, fine
	saved = f.saved(store.ContextChange{Context: saved, Create: true})
	claimed := claimAt(worker, fine, 1)
	claimed.Event = status(fine, a2a.StateWorking)
	leased := f.claim(claimed)
	if len(leased) != 1 {
		f.Fatalf("Claim() = %d tasks, want 1", len(leased))
	}
	for _, got := range []struct {
		what string
		got  time.Time
		want time.Time
	}{
		{"Task().Status.Timestamp", t.Status.Timestamp, fine},
		{"Task().CreatedAt", t.CreatedAt, fine},
		{"Task().Run.DueAt", t.Run.DueAt, fine},
		{"Events()[0].Time", f.events(k)[0].Time, fine},
		{"Context().CreatedAt", ctx.CreatedAt, fine},
		{"Context().UpdatedAt", ctx.UpdatedAt, fine},
		{"SaveContext().CreatedAt", saved.CreatedAt, fine},
		{"SaveContext().UpdatedAt", saved.UpdatedAt, fine},
		{"Context().CreatedAt of a saved context", f.context(owner, "c2").CreatedAt, fine},
		{"Context().UpdatedAt of a saved context", f.context(owner, "c2").UpdatedAt, fine},
		{"Idempotency().CreatedAt", f.record(owner, "key").CreatedAt, fine},
		{"Feedback()[0].CreatedAt", feedback[0].CreatedAt, fine},
		{"Claim()[0].Status.Timestamp", leased[0].Status.Timestamp, fine},
		{"Claim()[0].Run.Lease.Until", leased[0].Run.Lease.Until, claimed.Until},
	} {
		want := store.Time(got.want)
		if !got.got.Equal(want) || got.got.Location() != time.UTC {
			f.Errorf("%s = %v, want %v", got.what, got.got, want)
		}
	}
}
