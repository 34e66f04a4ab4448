package historytest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var raceTests = []test{
	{"concurrent appends leave no gap and no duplicate", raceAppends},
	{"one of many appends with the same expected sequence succeeds", raceExpected},
	{"one of many appends with the same idempotency key is stored", raceKeys},
	{"after an append of a newer attempt no older one succeeds", raceFences},
	{"appends while the session is cleared are whole", raceClear},
	{"totals are exact after concurrent changes", raceTotals},
	{"one of many forks to the same session succeeds", raceForks},
}

var durableTests = []test{{"everything is found after reopening the store", durable}}

// racers is the number of goroutines in a race.
const racers = 64

func raceAppends(f *fixture) {
	const each = 4
	var mu sync.Mutex
	owners := make(map[int64]string)
	suite.Concurrently(racers, func(i int) {
		for n := range each {
			size := 1 + (i+n)%4
			text := fmt.Sprint(i, "-", n)
			all := make([]history.Message, size)
			for j := range all {
				all[j] = message(text)
			}
			r, err := f.p.Append(f.ctx, f.k, history.AppendParams{Messages: all, Run: fmt.Sprint(i % 3)})
			if err != nil || r.Last-r.First != int64(size-1) {
				f.Errorf("Append() = %+v, %v, want %d sequences", r, err, size)
				return
			}
			mu.Lock()
			for seq := r.First; seq <= r.Last; seq++ {
				if other := owners[seq]; other != "" {
					f.Errorf("sequence %d was assigned to %s and %s", seq, other, text)
				}
				owners[seq] = text
			}
			mu.Unlock()
		}
	})
	got := f.all(f.k)
	f.wantSeqs("Messages()", got, seqs(1, int64(len(owners)))...)
	for _, m := range got {
		if want := string(message(owners[m.Seq]).Body); string(m.Body) != want {
			f.Errorf("message %d = %s, want %s", m.Seq, m.Body, want)
		}
	}
}

func raceExpected(f *fixture) {
	for turn := range int64(3) {
		won := suite.Winners(f, racers, history.ErrConflict, func(int) error {
			return suite.Err(f.p.Append(f.ctx, f.k, history.AppendParams{Messages: number(2), Expected: new(2 * turn)}))
		})
		if won != 1 {
			f.Errorf("%d appends with expected sequence %d succeeded, want 1", won, 2*turn)
		}
	}
	f.wantSeqs("Messages()", f.all(f.k), seqs(1, 6)...)
}

func raceKeys(f *fixture) {
	var stored atomic.Int64
	results := make([]history.AppendResult, racers)
	suite.Concurrently(racers, func(i int) {
		r := suite.Call(f.p.Append(f.ctx, f.k, history.AppendParams{Messages: number(3), IdempotencyKey: fmt.Sprint("key", i%2)})).Check(f, "Append()")
		if !r.Repeated {
			stored.Add(1)
		}
		r.Repeated = false
		results[i] = r
	})
	for i, r := range results {
		f.equal("Append()", r, results[i%2])
	}
	if stored.Load() != 2 {
		f.Errorf("%d appends were stored, want 2", stored.Load())
	}
	f.wantSeqs("Messages()", f.all(f.k), seqs(1, 6)...)
}

func raceFences(f *fixture) {
	suite.Concurrently(racers, func(i int) {
		p := history.AppendParams{Messages: messages(fmt.Sprintf("%02d", i+1)), Run: "r", Fence: int64(i + 1)}
		suite.Do(suite.Err(f.p.Append(f.ctx, f.k, p))).MayFail(f, history.ErrFenced, "Append()")
	})
	var bodies []string
	for _, m := range f.all(f.k) {
		bodies = append(bodies, string(m.Body))
	}
	if !slices.IsSorted(bodies) || len(bodies) == 0 || bodies[len(bodies)-1] != `{"text":"64"}` {
		f.Errorf("messages = %v, want growing fences up to 64", bodies)
	}
}

// Each append has messages with its own text, so that a partial one is visible.
func raceClear(f *fixture) {
	const size = 20
	suite.Concurrently(16, func(i int) {
		for n := range 10 {
			if i == 0 {
				suite.Do(f.p.Clear(f.ctx, f.k)).Check(f, "Clear()")
				continue
			}
			all := make([]history.Message, size)
			for j := range all {
				all[j] = message(fmt.Sprint(i, "-", n))
			}
			suite.Call(f.p.Append(f.ctx, f.k, history.AppendParams{Messages: all})).Check(f, "Append()")
			if page, err := f.p.Page(f.ctx, f.k, history.Tail(3*size)); err != nil || len(page.Messages)%size != 0 {
				f.Errorf("Page() = %d messages, %v, want whole appends of %d", len(page.Messages), err, size)
			}
		}
	})
	got := f.all(f.k)
	f.wantSeqs("Messages()", got, seqs(1, int64(len(got)))...)
	for i, m := range got {
		if first := got[i-i%size]; string(m.Body) != string(first.Body) {
			f.Fatalf("message %d = %s, want %s like the first of its append", m.Seq, m.Body, first.Body)
		}
	}
}

func raceTotals(f *fixture) {
	suite.Concurrently(16, func(i int) {
		for n := range 6 {
			var err error
			switch e, editor := f.p.(history.Editor); {
			case i%4 == 3:
				_, err = f.p.ClearRun(f.ctx, f.k, fmt.Sprint(n), 0)
			case i == 0 && editor:
				_, err = e.Rewind(f.ctx, f.k, int64(30+n))
			case i == 1 && editor:
				if p, ok := f.p.(history.Pruner); ok {
					_, err = p.Prune(f.ctx, f.k, history.Policy{MaxMessages: 100})
				}
			default:
				_, err = f.p.Append(f.ctx, f.k, history.AppendParams{Messages: number(1 + i), Run: fmt.Sprint(n)})
			}
			suite.Do(err).Check(f, "call %d of goroutine %d", n, i)
		}
	})
	all := f.all(f.k) // also checks Count
	for i := 1; i < len(all); i++ {
		if all[i].Seq <= all[i-1].Seq {
			f.Errorf("sequence %d follows %d", all[i].Seq, all[i-1].Seq)
		}
	}
	l, ok := f.p.(history.SessionLister)
	if !ok {
		return
	}
	var bytes, newest int64
	for _, m := range all {
		bytes += int64(len(m.Body))
		newest = m.Seq
	}
	if s, err := l.Session(f.ctx, f.k); err != nil || s.Messages != int64(len(all)) || s.Bytes != bytes || s.Newest != newest {
		f.Errorf("Session() = %+v, %v, want %d messages, %d bytes, newest %d", s, err, len(all), bytes, newest)
	}
}

func raceForks(f *fixture) {
	e := optional[history.Editor](f)
	f.append(f.k, history.AppendParams{Messages: number(20)})
	to := f.k
	to.Session = "to"
	var won atomic.Int64
	suite.Concurrently(racers, func(int) {
		switch n, err := e.Fork(f.ctx, history.ForkParams{From: f.k, To: to}); {
		case err == nil && n == 20:
			won.Add(1)
		case !errors.Is(err, history.ErrExists):
			f.Errorf("Fork() = %d, %v, want 20 or ErrExists", n, err)
		}
	})
	if won.Load() != 1 {
		f.Errorf("%d forks succeeded, want 1", won.Load())
	}
	f.equal("Messages()", f.all(to), f.all(f.k))
}

func durable(f *fixture) {
	if f.h.Reopen == nil {
		f.Skipf("the store is not durable")
	}
	f.addTools("", "a", "=a", "")
	p := history.AppendParams{Messages: number(70), Run: "r", Fence: 3, IdempotencyKey: "k", TTL: time.Hour}
	f.append(f.k, p)
	want := f.all(f.k)
	f.p = f.h.Reopen(f.T, f.p, f.clock)
	f.equal("Messages() after reopening", f.all(f.k), want)
	f.wantPage(whole(history.Before(4, 2)), true, 2, 3)
	f.equal("Append() repeated", f.append(f.k, p), history.AppendResult{First: 5, Last: 74, Repeated: true})
	f.wantFenced(history.AppendParams{Run: "r", Fence: 2})
	f.wantConflict(4, 74)
	if !f.h.OwnClock {
		f.advance(time.Hour)
		f.equal("Messages() after expiry", f.all(f.k), []history.Message{})
		f.expire(9, 1)
	}
}
