package historytest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/history"
)

var randomTests = []test{{"random calls have the same results as on the model", randomCalls}}

// randomRun makes the same random calls on a store and on the model.
type randomRun struct {
	*fixture
	rand *rand.Rand
	want *model
	seed uint64
	call string
}

func randomCalls(f *fixture) {
	f.setsClock()
	r := &randomRun{fixture: f, seed: testseed.Of(f), want: newModel(f.clock)}
	r.rand = rand.New(rand.NewPCG(r.seed, 0))
	calls := []func(*randomRun){
		(*randomRun).callAppend, (*randomRun).callAppend, (*randomRun).callAppend, (*randomRun).callPage, (*randomRun).callPage, (*randomRun).callMessages,
		(*randomRun).callEdit, (*randomRun).callRemove, (*randomRun).callList, (*randomRun).callSearch,
	}
	for n := 0; n < f.h.Calls && !f.Failed(); n++ {
		if r.oneIn(10) {
			f.advance(time.Duration(r.rand.IntN(15)) * time.Second)
		}
		r.call = fmt.Sprintf("seed %d, call %d: ", r.seed, n)
		calls[r.rand.IntN(len(calls))](r)
	}
}

func (r *randomRun) oneIn(n int) bool { return r.rand.IntN(n) == 0 }

// upTo returns a number from 0 to n.
func (r *randomRun) upTo(n int) int { return r.rand.IntN(n + 1) }

func (r *randomRun) pick(names ...string) string { return names[r.rand.IntN(len(names))] }

func (r *randomRun) key() history.Key {
	return history.Key{Owner: r.pick("o", "p"), Agent: r.pick("a", "b"), Session: r.pick("s", "t", "u")}
}

// compare makes a call on both and compares the results.
func compare[R any](r *randomRun, call string, f func(history.Provider) (R, error)) {
	r.Helper()
	got, err := f(r.p)
	want, wantErr := f(r.want)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		r.Errorf("%s%s = %v, want %v", r.call, call, err, wantErr)
	}
	r.equal(r.call+call, got, want)
}

func (r *randomRun) callAppend() {
	k := r.key()
	p := history.AppendParams{Run: r.pick("", "x", "y"), Messages: make([]history.Message, 1+r.upTo(4))}
	for i := range p.Messages {
		m := message(r.pick("alpha", "beta beta", "Gamma") + strings.Repeat(" z", r.upTo(3)))
		if r.oneIn(3) {
			m.ToolCalls = []string{r.pick("1", "2")}
		}
		if r.oneIn(3) {
			m.ToolResults = []string{r.pick("1", "2"), r.pick("1", "3")}
		}
		if r.oneIn(3) {
			m.CreatedAt = r.clock().Add(-time.Duration(r.upTo(60)) * time.Second)
		}
		p.Messages[i] = m
	}
	if p.Run != "" && r.oneIn(2) {
		p.Fence = int64(r.upTo(4))
	}
	if r.oneIn(3) {
		p.IdempotencyKey = r.pick("k", "l", "m")
	}
	if r.oneIn(3) {
		p.Expected = new(r.want.newest(k) + int64(r.upTo(1)))
	}
	if r.oneIn(3) {
		p.TTL = []time.Duration{time.Minute, 10 * time.Second, history.NoTTL}[r.upTo(2)]
	}
	compare(r, fmt.Sprintf("Append(%v, %+v)", k, p), func(s history.Provider) (history.AppendResult, error) { return s.Append(r.ctx, k, p) })
}

func (r *randomRun) callPage() {
	k := r.key()
	q := history.Query{Limit: 1 + r.upTo(8), Newest: r.oneIn(2), KeepToolPairs: r.oneIn(2)}
	if r.oneIn(2) {
		q.After = int64(r.upTo(int(r.want.newest(k))))
	}
	if r.oneIn(2) {
		q.Before = int64(r.upTo(int(r.want.newest(k)) + 1))
	}
	compare(r, fmt.Sprintf("Page(%v, %+v)", k, q), func(s history.Provider) (history.Page, error) { return s.Page(r.ctx, k, q) })
}

func (r *randomRun) callMessages() {
	k, limit, offset := r.key(), r.upTo(9), r.upTo(20)
	compare(r, "Count()", func(s history.Provider) (int64, error) { return s.Count(r.ctx, k) })
	compare(r, fmt.Sprintf("Messages(%v, %d, %d)", k, limit, offset), func(s history.Provider) ([]history.Message, error) {
		return s.Messages(r.ctx, k, limit, offset)
	})
}

func (r *randomRun) callEdit() {
	k := r.key()
	if _, ok := r.p.(history.Editor); ok && r.oneIn(4) {
		p := history.ForkParams{From: k, To: r.key(), Through: int64(r.upTo(10)), TTL: time.Duration(r.upTo(2)) * 20 * time.Second}
		p.To.Owner = k.Owner
		compare(r, fmt.Sprintf("Fork(%+v)", p), func(s history.Provider) (int64, error) { return s.(history.Editor).Fork(r.ctx, p) })
		return
	}
	if _, ok := r.p.(history.Editor); ok && r.oneIn(3) {
		seq := max(0, r.want.newest(k)-int64(r.upTo(4)))
		compare(r, fmt.Sprintf("Rewind(%v, %d)", k, seq), func(s history.Provider) (int64, error) { return s.(history.Editor).Rewind(r.ctx, k, seq) })
		return
	}
	if _, ok := r.p.(history.Pruner); ok {
		p := history.Policy{MaxMessages: int64(1 + r.upTo(15)), MaxBytes: int64(r.upTo(4) * 100)}
		if r.oneIn(3) {
			p.CreatedBefore = r.clock().Add(-time.Minute)
		}
		compare(r, fmt.Sprintf("Prune(%v, %+v)", k, p), func(s history.Provider) (history.Pruned, error) { return s.(history.Pruner).Prune(r.ctx, k, p) })
	}
}

func (r *randomRun) callRemove() {
	k := r.key()
	switch r.upTo(5) {
	case 0:
		compare(r, fmt.Sprintf("Clear(%v)", k), func(s history.Provider) (struct{}, error) { return struct{}{}, s.Clear(r.ctx, k) })
	case 1:
		// The number is not compared: other calls may remove expired sessions too.
		compare(r, "Expire()", func(s history.Provider) (struct{}, error) {
			_, err := s.Expire(r.ctx, r.clock(), 100)
			return struct{}{}, err
		})
	default:
		run, fence := r.pick("x", "y"), int64(r.upTo(2)*r.upTo(3))
		compare(r, fmt.Sprintf("ClearRun(%v, %s, %d)", k, run, fence), func(s history.Provider) (int64, error) { return s.ClearRun(r.ctx, k, run, fence) })
	}
}

func (r *randomRun) callList() {
	if _, ok := r.p.(history.SessionLister); !ok {
		return
	}
	k := r.key()
	compare(r, fmt.Sprintf("Session(%v)", k), func(s history.Provider) (history.Session, error) { return s.(history.SessionLister).Session(r.ctx, k) })
	q := history.SessionQuery{Owner: k.Owner, Agent: r.pick("", "a", "b"), Limit: 1 + r.upTo(4)}
	if r.oneIn(2) {
		q.Next = &history.SessionCursor{UpdatedAt: r.clock().Add(-time.Duration(r.upTo(9)) * time.Second), Agent: cmp.Or(q.Agent, k.Agent), Session: k.Session}
	}
	compare(r, fmt.Sprintf("Sessions(%+v)", q), func(s history.Provider) (history.SessionPage, error) {
		return s.(history.SessionLister).Sessions(r.ctx, q)
	})
}

func (r *randomRun) callSearch() {
	if _, ok := r.p.(history.Searcher); !ok {
		return
	}
	k := r.key()
	q := history.SearchQuery{Owner: k.Owner, Text: r.pick("ALPHA", "beta z", "z gamma", "a"), Words: r.oneIn(2), Limit: 1 + r.upTo(6)}
	if r.oneIn(2) {
		q.Agent = k.Agent
	}
	if q.Agent != "" && r.oneIn(2) {
		q.Session = k.Session
	}
	// The cursor of an empty page may differ, so all pages are compared.
	compare(r, fmt.Sprintf("Search(%+v)", q), func(s history.Provider) (hits []history.Hit, err error) {
		for q := q; ; {
			page, err := s.(history.Searcher).Search(r.ctx, q)
			hits = append(hits, page.Hits...)
			if q.Next = page.Next; err != nil || q.Next == nil {
				return hits, err
			}
		}
	})
}
