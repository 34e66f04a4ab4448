package storetest

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// timePrecision passes times with nanoseconds and a time zone.
func timePrecision(f *fixture) {
	precise := at(0).Add(123_456 * time.Nanosecond).In(time.FixedZone("elsewhere", 2*3600))
	k := key("t1")
	c := withKey(newTask(k, "c1", precise), "key", precise)
	c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, DueAt: precise}
	f.commit(c)
	suite.Do(f.s.AddFeedback(f.ctx, store.Feedback{Key: k, ID: "f1", Rating: 3, CreatedAt: precise})).Must(f, "AddFeedback()")
	feedback := suite.Len(f, f.feedbackOf(k), 1, "Feedback()")
	t, ctx := f.task(k), f.context(owner, "c1")
	saved := fullContext(owner, "c2", 0)
	saved.CreatedAt, saved.UpdatedAt = precise, precise
	saved = f.saveContext(store.ContextChange{Context: saved, Create: true})
	claimed := claimAt(worker, precise, 1)
	claimed.Event = statusEvent(precise, a2a.StateWorking)
	leased := suite.Len(f, f.claim(claimed), 1, "Claim()")
	for _, got := range []struct {
		label string
		got   time.Time
		want  time.Time
	}{
		{"Task().Status.Timestamp", t.Status.Timestamp, precise},
		{"Task().CreatedAt", t.CreatedAt, precise},
		{"Task().Queue.DueAt", t.Queue.DueAt, precise},
		{"Events()[0].Time", f.events(k)[0].Time, precise},
		{"Context().CreatedAt", ctx.CreatedAt, precise},
		{"Context().UpdatedAt", ctx.UpdatedAt, precise},
		{"SaveContext().CreatedAt", saved.CreatedAt, precise},
		{"SaveContext().UpdatedAt", saved.UpdatedAt, precise},
		{"Context().CreatedAt of a saved context", f.context(owner, "c2").CreatedAt, precise},
		{"Context().UpdatedAt of a saved context", f.context(owner, "c2").UpdatedAt, precise},
		{"Idempotency().CreatedAt", f.record(owner, "key").CreatedAt, precise},
		{"Feedback()[0].CreatedAt", feedback[0].CreatedAt, precise},
		{"Claim()[0].Status.Timestamp", leased[0].Status.Timestamp, precise},
		{"Claim()[0].Queue.Lease.Until", leased[0].Queue.Lease.Until, claimed.Until},
	} {
		want := store.Time(got.want)
		if !got.got.Equal(want) || got.got.Location() != time.UTC {
			f.Errorf("%s = %v, want %v", got.label, got.got, want)
		}
	}
}
