package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/store"
)

func pushRaceTests() []test {
	return []test{
		{"of many that claim at once none shares a lane", laneRace},
		{"every event is dealt with once and in order, whoever loses leases", deliveryRace},
		{"a webhook is deleted before it is acknowledged, or after", deleteRace},
		{"a webhook that many save is there once", saveRace},
	}
}

// delivery is a race of those who write with those who deliver.
type delivery struct {
	*fixture
	keys    []store.Key
	events  int         // of each task in the end
	writing atomic.Bool // and leases are taken away
	mu      sync.Mutex
	spans   map[string][]span // by lane
}

// span is an acknowledgement that was taken: of the events behind from, up to to.
type span struct{ fence, from, to int64 }

// deliveryRace has some write, some deliver, and some take leases away. What was
// acknowledged under a lane's leases, in the order of their fences, has to be its
// task's log.
func deliveryRace(f *fixture) {
	d := &delivery{fixture: f, events: max(10, f.h.Tasks/25), spans: make(map[string][]span)}
	d.writing.Store(true)
	for i := range 6 {
		k := store.Key{Owner: fmt.Sprint("owner-", i%2), ID: fmt.Sprint("t", i)}
		f.hooked(k, 1, "p", "q")
		d.keys = append(d.keys, k)
	}
	const writers, senders = 3, 4
	var left atomic.Int64
	left.Store(writers)
	together(writers+senders+1, func(i int) {
		r := rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // a race needs no secrecy
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
				if _, err := f.s.SavePush(f.ctx, hook(k, "p"), place(0), at(10)); err != nil {
					f.Errorf("SavePush() = %v", err)
				}
			}
		}
	})
	for _, k := range d.keys {
		for _, id := range []string{"p", "q"} {
			d.check(f.lane(k, id))
		}
	}
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
}

// write appends to tasks that nobody else writes to.
func (d *delivery) write(r *rand.Rand, keys []store.Key) {
	version := make(map[store.Key]int64)
	for version[keys[0]] < int64(d.events) || version[keys[1]] < int64(d.events) {
		k := keys[r.IntN(len(keys))]
		seq := max(1, version[k])
		var events []store.Event
		for range min(1+r.IntN(3), d.events-int(seq)) {
			events = append(events, event(1))
		}
		result := d.try(next(k, seq, events...))
		if result.Err != nil {
			d.Errorf("Commit() = %v, want it applied", result.Err)
			return
		}
		version[k] = result.Seq
	}
}

// deliver claims and acknowledges until all is written and nothing is left.
func (d *delivery) deliver(r *rand.Rand, worker string) {
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
			// What another holds now it will give back, or lose.
			if b, err := d.s.PushBacklog(d.ctx); err != nil || b.Pending == 0 {
				return
			}
			idle++
		}
		for _, l := range lanes {
			d.send(r, l)
		}
	}
}

func (d *delivery) send(r *rand.Rand, l store.ClaimedLane) {
	for i, e := range l.Events {
		if e.Seq != l.Cursor.Seq+int64(i)+1 {
			d.Errorf("ClaimLanes() of a lane behind %d has event %d at %d", l.Cursor.Seq, e.Seq, i)
		}
	}
	for hold := true; hold; {
		n := r.IntN(len(l.Events) + 1)
		a := delivered(l, n, 10)
		hold = n < len(l.Events) && r.IntN(2) == 0
		a.Hold = hold
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
		d.spans[id] = append(d.spans[id], span{l.Fence, l.Cursor.Seq, a.Cursor.Seq})
		d.mu.Unlock()
		l.Cursor, l.Events = a.Cursor, l.Events[n:]
	}
}

func (d *delivery) check(l store.Lane) {
	spans := d.spans[laneName(&l)]
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.fence, b.fence), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	var at, sent int64
	for _, s := range spans {
		if s.from != at {
			d.Errorf("lane %s: under fence %d the events behind %d were acknowledged, want those behind %d", laneName(&l), s.fence, s.from, at)
		}
		at, sent = s.to, sent+s.to-s.from
	}
	if at != int64(d.events) || l.Cursor.Seq != at || l.Delivered != sent || l.Tail != at {
		d.Errorf("lane %s: acknowledged up to %d, cursor %d, %d delivered, tail %d, want %d", laneName(&l), at, l.Cursor.Seq, l.Delivered, l.Tail, d.events)
	}
}

func deleteRace(f *fixture) {
	for round := range rounds {
		k := key(fmt.Sprint("t", round))
		f.hooked(k, 1, "p")
		l := f.claimLane(worker, 10)
		var busy, lost bool
		together(2, func(i int) {
			var err error
			if i == 0 {
				busy, err = f.s.DeletePush(f.ctx, k, "p", at(20))
			} else {
				var leases []store.LaneLease
				leases, err = f.s.AckLanes(f.ctx, noted(l, 1, 20))
				lost = len(leases) > 0
			}
			if err != nil {
				f.Errorf("call %d = %v, want nil", i, err)
			}
		})
		if busy != lost {
			f.Errorf("DeletePush() said busy: %t, AckLanes() said lost: %t, want the same", busy, lost)
		}
		f.undeletable(k, "p", 30)
		f.noLane(k, "p")
	}
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
}

func saveRace(f *fixture) {
	k := key("t1")
	f.hooked(k, 1)
	together(racers/4, func(i int) {
		if i%2 == 0 {
			if _, err := f.s.SavePush(f.ctx, hook(k, "p"), place(0), at(10)); err != nil {
				f.Errorf("SavePush() = %v", err)
			}
			return
		}
		for {
			t, err := f.s.Task(f.ctx, k, store.TaskOptions{})
			if err != nil {
				f.Errorf("Task() = %v", err)
				return
			}
			c := next(k, t.Seq, event(5))
			c.Push = newHooks("p")
			if r := f.try(c); r.Err == nil {
				return
			}
		}
	})
	l := f.lane(k, "p")
	f.equal("Tail and Cursor", []any{l.Tail, l.Cursor}, []any{int64(racers/8 + 1), place(0)})
	f.equal("events", f.claimLane(worker, 20).Events, f.events(k))
}

// laneRace has many claim at once.
func laneRace(f *fixture) {
	n := min(f.h.Tasks, 200)
	for i := range n {
		f.hooked(store.Key{Owner: fmt.Sprint("owner-", i%3), ID: fmt.Sprint("t", i)}, 1, "p")
	}
	var mu sync.Mutex
	claimed := make(map[string]string)
	together(racers/4, func(i int) {
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
		// A claim may pass over what another is about to take, but not for good.
		for _, l := range f.claimLanes(laneClaim("last", 1000, n)) {
			claimed[laneName(&l.Lane)] = "last"
		}
	}
	if len(claimed) != n {
		f.Errorf("%d of %d lanes were claimed", len(claimed), n)
	}
}
