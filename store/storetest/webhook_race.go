package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var webhookRaceTests = []test{
	{"concurrent claims return each lane once", raceClaimLanes},
	{"every event is acknowledged once and in order while leases are revoked", raceDelivery},
	{"a webhook is deleted before its acknowledgement or after it", raceDeleteWebhook},
	{"concurrent saves create a webhook once", raceSaveWebhook},
}

// deliveryTest is a race between goroutines that append events and goroutines that deliver
// them.
type deliveryTest struct {
	*fixture
	keys    []store.Key
	events  int         // final number of each task
	writing atomic.Bool // while true, leases are revoked
	mu      sync.Mutex
	acked   map[string][]ackedRange // by lane
}

// ackedRange is an accepted acknowledgement of the events after from, up to to.
type ackedRange struct{ fence, from, to int64 }

// raceDelivery appends events, delivers them and revokes leases at the same time. The ranges
// acknowledged under the leases of a lane, in the order of their fences, must cover the log of
// its task without gaps or overlaps.
func raceDelivery(f *fixture) {
	d := &deliveryTest{fixture: f, events: max(10, f.h.Tasks/25), acked: make(map[string][]ackedRange)}
	d.writing.Store(true)
	for i := range 6 {
		k := store.Key{Owner: fmt.Sprint("owner-", i%2), ID: fmt.Sprint("t", i)}
		f.createTaskWithWebhooks(k, 1, "p", "q")
		d.keys = append(d.keys, k)
	}
	const writers, senders = 3, 4
	var left atomic.Int64
	left.Store(writers)
	suite.Concurrently(writers+senders+1, func(i int) {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		switch {
		case i < writers:
			d.write(r, d.keys[2*i:2*i+2])
			if left.Add(-1) == 0 {
				d.writing.Store(false)
			}
		case i < writers+senders:
			d.deliver(r, fmt.Sprint("worker-", i))
		default:
			for d.writing.Load() {
				k := d.keys[r.IntN(len(d.keys))]
				suite.Call(f.s.SaveWebhook(f.ctx, testWebhook(k, "p"), cursorAt(0), at(10))).Check(f, "SaveWebhook()")
			}
		}
	})
	for _, k := range d.keys {
		for _, id := range []string{"p", "q"} {
			d.check(f.lane(k, id))
		}
	}
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
}

// write appends to tasks to which no other goroutine appends.
func (d *deliveryTest) write(r *rand.Rand, keys []store.Key) {
	version := make(map[store.Key]int64)
	for version[keys[0]] < int64(d.events) || version[keys[1]] < int64(d.events) {
		k := keys[r.IntN(len(keys))]
		seq := max(1, version[k])
		var events []store.Event
		for range min(1+r.IntN(3), d.events-int(seq)) {
			events = append(events, deliverableEvent(1))
		}
		result := d.tryCommit(changeAt(k, seq, events...))
		if result.Err != nil {
			d.Errorf("Commit() = %v, want nil", result.Err)
			return
		}
		version[k] = result.Seq
	}
}

// deliver claims and acknowledges until everything is written and delivered.
func (d *deliveryTest) deliver(r *rand.Rand, worker string) {
	for idle := 0; ; {
		written := !d.writing.Load()
		p := store.LaneClaim{
			Worker: worker, Now: at(10), Until: at(1000), Limit: 1 + r.IntN(4), Events: 1 + r.IntN(5),
			Takeover: written && idle > 0 || r.IntN(8) == 0,
		}
		lanes, err := d.s.ClaimLanes(d.ctx, p)
		if err != nil {
			d.Errorf("ClaimLanes() = %v", err)
			return
		}
		if len(lanes) == 0 && written {
			// Lanes that other workers hold will be released or lost.
			if b, err := d.s.WebhookBacklog(d.ctx); err != nil || b.Pending == 0 {
				return
			}
			idle++
		}
		for _, l := range lanes {
			d.send(r, l)
		}
	}
}

func (d *deliveryTest) send(r *rand.Rand, l store.ClaimedLane) {
	for i, e := range l.Events {
		if e.Seq != l.Cursor.Seq+int64(i)+1 {
			d.Errorf("ClaimLanes() of a lane behind %d has event %d at %d", l.Cursor.Seq, e.Seq, i)
		}
	}
	for hold := true; hold; {
		n := r.IntN(len(l.Events) + 1)
		a := ackDelivered(l, n, 10)
		hold = n < len(l.Events) && r.IntN(2) == 0
		a.KeepLease = hold
		lost, err := d.s.AckLanes(d.ctx, a)
		if err != nil {
			d.Errorf("AckLanes() = %v", err)
			return
		}
		if len(lost) > 0 {
			return
		}
		d.mu.Lock()
		id := laneName(&l.Lane)
		d.acked[id] = append(d.acked[id], ackedRange{l.Fence, l.Cursor.Seq, a.Cursor.Seq})
		d.mu.Unlock()
		l.Cursor, l.Events = a.Cursor, l.Events[n:]
	}
}

func (d *deliveryTest) check(l store.Lane) {
	acked := d.acked[laneName(&l)]
	slices.SortFunc(acked, func(a, b ackedRange) int {
		return cmp.Or(cmp.Compare(a.fence, b.fence), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	var at, sent int64
	for _, s := range acked {
		if s.from != at {
			d.Errorf("lane %s: fence %d acknowledged the events after %d, want those after %d", laneName(&l), s.fence, s.from, at)
		}
		at, sent = s.to, sent+s.to-s.from
	}
	if at != int64(d.events) || l.Cursor.Seq != at || l.Delivered != sent || l.Tail != at {
		d.Errorf("lane %s: acknowledged up to %d, cursor %d, %d delivered, tail %d, want %d", laneName(&l), at, l.Cursor.Seq, l.Delivered, l.Tail, d.events)
	}
}

func raceDeleteWebhook(f *fixture) {
	for round := range raceRounds {
		k := key(fmt.Sprint("t", round))
		f.createTaskWithWebhooks(k, 1, "p")
		l := f.claimLane(worker, 10)
		var busy, lost bool
		suite.Concurrently(2, func(i int) {
			var err error
			if i == 0 {
				busy, err = f.s.DeleteWebhook(f.ctx, k, "p", at(20))
			} else {
				var leases []store.LaneLease
				leases, err = f.s.AckLanes(f.ctx, ackDeadLetters(l, 1, 20))
				lost = len(leases) > 0
			}
			suite.Equal(f, err, nil, "call %d", i)
		})
		if busy != lost {
			f.Errorf("DeleteWebhook() = busy %t, AckLanes() lost: %t, want equal values", busy, lost)
		}
		f.wantNoWebhook(k, "p", 30)
		f.wantNoLane(k, "p")
	}
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
}

func raceSaveWebhook(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 1)
	suite.Concurrently(raceGoroutines/4, func(i int) {
		if i%2 == 0 {
			suite.Call(f.s.SaveWebhook(f.ctx, testWebhook(k, "p"), cursorAt(0), at(10))).Check(f, "SaveWebhook()")
			return
		}
		for {
			t, err := f.s.Task(f.ctx, k, store.TaskOptions{})
			if err != nil {
				f.Errorf("Task() = %v", err)
				return
			}
			c := changeAt(k, t.Seq, deliverableEvent(5))
			c.Webhooks = testWebhooks("p")
			if r := f.tryCommit(c); r.Err == nil {
				return
			}
		}
	})
	l := f.lane(k, "p")
	f.equal("Lanes() tail and cursor", []any{l.Tail, l.Cursor}, []any{int64(raceGoroutines/8 + 1), cursorAt(0)})
	f.equal("ClaimLanes() events", f.claimLane(worker, 20).Events, f.events(k))
}

// raceClaimLanes claims lanes in many goroutines at the same time.
func raceClaimLanes(f *fixture) {
	n := min(f.h.Tasks, 200)
	for i := range n {
		f.createTaskWithWebhooks(store.Key{Owner: fmt.Sprint("owner-", i%3), ID: fmt.Sprint("t", i)}, 1, "p")
	}
	var mu sync.Mutex
	claimed := make(map[string]string)
	suite.Concurrently(raceGoroutines/4, func(i int) {
		w := fmt.Sprint("worker-", i)
		for {
			lanes, err := f.s.ClaimLanes(f.ctx, laneClaim(w, 1000, 1+i%4))
			if err != nil {
				f.Errorf("ClaimLanes() = %v", err)
				return
			}
			mu.Lock()
			for _, l := range lanes {
				if by := claimed[laneName(&l.Lane)]; by != "" {
					f.Errorf("lane %s was claimed by %s and %s", laneName(&l.Lane), by, w)
				}
				claimed[laneName(&l.Lane)] = w
			}
			mu.Unlock()
			if len(lanes) == 0 {
				return
			}
		}
	})
	if len(claimed) != n {
		// A claim may skip lanes that another transaction has locked.
		for _, l := range f.claimLanes(laneClaim("last", 1000, n)) {
			claimed[laneName(&l.Lane)] = "last"
		}
	}
	if len(claimed) != n {
		f.Errorf("%d of %d lanes were claimed", len(claimed), n)
	}
}
