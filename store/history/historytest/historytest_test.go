package historytest

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

func openModel(_ storetest.T, now func() time.Time) history.Provider { return newModel(now) }

func TestModelPassesTheSuite(t *testing.T) {
	t.Parallel()
	Run(t, Harness{Open: openModel, Calls: 500})
}

// A store may implement only Provider and have its own clock.
func TestOptionalPartsAreSkipped(t *testing.T) {
	t.Parallel()
	Run(t, Harness{OwnClock: true, Open: func(storetest.T, func() time.Time) history.Provider {
		return struct{ history.Provider }{newModel(time.Now)}
	}})
}

// TestSuiteCatchesBrokenStores breaks the model in one way at a time and checks that a test of the
// suite fails, other than the random one and the longest one.
func TestSuiteCatchesBrokenStores(t *testing.T) {
	t.Parallel()
	named := slices.DeleteFunc(tests(), func(test test) bool {
		return strings.HasPrefix(test.name, "random") || strings.HasSuffix(test.name, "one call examines")
	})
	suite.Mutants(t, mutants, func(t suite.T, mutate func(m *mutant)) {
		h := Harness{Open: func(_ storetest.T, now func() time.Time) history.Provider {
			m := &mutant{model: newModel(now)}
			mutate(m)
			return m
		}}
		for _, test := range named {
			if !t.Run(test.name, func(t storetest.T) { test.run(newFixture(t, h)) }) {
				return
			}
		}
	})
}

// mutants are the ways to break a store.
var mutants = map[string]func(m *mutant){
	"ignores the expected sequence": func(m *mutant) { m.append = func(p *history.AppendParams) { p.Expected = nil } },
	"ignores fences":                func(m *mutant) { m.append = func(p *history.AppendParams) { p.Fence = 0 } },
	"ignores idempotency keys":      func(m *mutant) { m.append = func(p *history.AppendParams) { p.IdempotencyKey = "" } },
	"ignores TTLs":                  func(m *mutant) { m.append = func(p *history.AppendParams) { p.TTL = 0 } },
	"ignores NoTTL":                 func(m *mutant) { m.append = func(p *history.AppendParams) { p.TTL = max(0, p.TTL) } },
	"loses runs":                    func(m *mutant) { m.append = func(p *history.AppendParams) { p.Run, p.Fence = "", 0 } },
	"loses the last message": func(m *mutant) {
		m.append = func(p *history.AppendParams) { p.Messages = p.Messages[:max(1, len(p.Messages)-1)] }
	},
	"loses tool calls": func(m *mutant) {
		m.append = func(p *history.AppendParams) {
			p.Messages = slices.Clone(p.Messages)
			for i := range p.Messages {
				p.Messages[i].ToolCalls = nil
			}
		}
	},
	"mixes up agents":                    func(m *mutant) { m.key = func(k *history.Key) { k.Agent = "a" } },
	"mixes up owners":                    func(m *mutant) { m.key = func(k *history.Key) { k.Owner = "o" } },
	"ignores case of names":              func(m *mutant) { m.key = func(k *history.Key) { k.Session = strings.ToLower(k.Session) } },
	"splits tool pairs":                  func(m *mutant) { m.query = func(q *history.Query) { q.KeepToolPairs = false } },
	"ignores After":                      func(m *mutant) { m.query = func(q *history.Query) { q.After = 0 } },
	"ignores Before":                     func(m *mutant) { m.query = func(q *history.Query) { q.Before = 0 } },
	"ignores Newest":                     func(m *mutant) { m.query = func(q *history.Query) { q.Newest = false } },
	"returns one message more":           func(m *mutant) { m.query = func(q *history.Query) { q.Limit++ } },
	"hides that more follow":             func(m *mutant) { m.hidesMore = true },
	"ignores MaxPageBytes":               func(m *mutant) { m.pageBytes = math.MaxInt },
	"searches ignore MaxPageBytes":       func(m *mutant) { m.searchBytes = math.MaxInt },
	"splits pairs by their size":         func(m *mutant) { m.splitsLarge = true },
	"reports no more after a short page": func(m *mutant) { m.hidesShort = true },
	"reuses sequences":                   func(m *mutant) { m.reuses = true },
	"clears other runs":                  func(m *mutant) { m.clearsAll = true },
	"does not fence by ClearRun":         func(m *mutant) { m.unfenced = true },
	"keeps cleared sessions":             func(m *mutant) { m.keeps = true },
	"expires nothing":                    func(m *mutant) { m.expiresNothing = true },
	"prunes one message too many":        func(m *mutant) { m.policy = func(p *history.Policy) { p.MaxMessages = max(0, p.MaxMessages-1) } },
	"ignores MaxBytes":                   func(m *mutant) { m.policy = func(p *history.Policy) { p.MaxBytes = 0 } },
	"ignores the last sequence of a fork": func(m *mutant) {
		m.fork = func(p *history.ForkParams) { p.Through = 0 }
	},
	"ignores the TTL of a fork":     func(m *mutant) { m.fork = func(p *history.ForkParams) { p.TTL = 0 } },
	"searches for text, not words":  func(m *mutant) { m.search = func(q *history.SearchQuery) { q.Words = false } },
	"ignores the agent of a search": func(m *mutant) { m.search = func(q *history.SearchQuery) { q.Agent, q.Session = "", "" } },
	"ignores the cursor of sessions": func(m *mutant) {
		m.list = func(q *history.SessionQuery) { q.Next, q.Limit = nil, history.MaxPage }
	},
	"ignores the agent of sessions": func(m *mutant) { m.list = func(q *history.SessionQuery) { q.Agent = "" } },
	"ignores contexts":              func(m *mutant) { m.ignoresContexts = true },
	"shares memory":                 func(m *mutant) { m.shared = make(map[history.Key][]history.Message) },
}

// mutant is a model that is broken in one way.
type mutant struct {
	*model
	key             func(*history.Key)
	append          func(*history.AppendParams)
	query           func(*history.Query)
	policy          func(*history.Policy)
	fork            func(*history.ForkParams)
	search          func(*history.SearchQuery)
	list            func(*history.SessionQuery)
	shared          map[history.Key][]history.Message
	hidesMore       bool
	hidesShort      bool
	splitsLarge     bool
	reuses          bool
	clearsAll       bool
	unfenced        bool
	keeps           bool
	expiresNothing  bool
	ignoresContexts bool
}

// change applies f, if there is one, unless the call is invalid.
func change[V any](f func(*V), v *V, err error) {
	if f != nil && err == nil {
		f(v)
	}
}

func (m *mutant) Append(ctx context.Context, k history.Key, p history.AppendParams) (history.AppendResult, error) {
	if m.ignoresContexts {
		ctx = context.Background()
	}
	err := historydriver.CheckAppend(k, &p)
	change(m.key, &k, err)
	change(m.append, &p, err)
	return m.model.Append(ctx, k, p)
}

func (m *mutant) Messages(ctx context.Context, k history.Key, limit, offset int) ([]history.Message, error) {
	change(m.key, &k, historydriver.CheckKey(k))
	all, err := m.model.Messages(ctx, k, limit, offset)
	if m.shared != nil && err == nil {
		if len(m.shared[k]) != len(all) {
			m.shared[k] = all
		}
		return m.shared[k], nil
	}
	return all, err
}

func (m *mutant) Count(ctx context.Context, k history.Key) (int64, error) {
	change(m.key, &k, historydriver.CheckKey(k))
	return m.model.Count(ctx, k)
}

func (m *mutant) Page(ctx context.Context, k history.Key, q history.Query) (history.Page, error) {
	err := historydriver.CompleteQuery(k, &q)
	change(m.key, &k, err)
	change(m.query, &q, err)
	q.Limit = min(q.Limit, history.MaxPage)
	page, err := m.model.Page(ctx, k, q)
	if m.splitsLarge && page.More && bytesOf(page.Messages) > 1<<20 && err == nil {
		q.KeepToolPairs = false
		page, err = m.model.Page(ctx, k, q)
	}
	page.More = page.More && !m.hidesMore && (!m.hidesShort || q.KeepToolPairs || len(page.Messages) >= q.Limit)
	return page, err
}

func (m *mutant) Clear(ctx context.Context, k history.Key) error {
	change(m.key, &k, historydriver.CheckKey(k))
	if m.keeps && ctx.Err() == nil && historydriver.CheckKey(k) == nil {
		return nil
	}
	return m.model.Clear(ctx, k)
}

func (m *mutant) ClearRun(ctx context.Context, k history.Key, run string, fence int64) (int64, error) {
	err := historydriver.CheckRun(k, run, fence)
	change(m.key, &k, err)
	if m.unfenced {
		fence = min(fence, 0)
	}
	n, err := m.model.ClearRun(ctx, k, run, fence)
	if m.clearsAll && err == nil {
		_, err = m.model.Rewind(ctx, k, 0)
	}
	return n, err
}

func (m *mutant) Expire(ctx context.Context, now time.Time, limit int) (int, error) {
	if m.expiresNothing && limit > 0 && ctx.Err() == nil {
		return 0, nil
	}
	return m.model.Expire(ctx, now, limit)
}

func (m *mutant) Rewind(ctx context.Context, k history.Key, seq int64) (int64, error) {
	n, err := m.model.Rewind(ctx, k, seq)
	if s := m.session(k, false); m.reuses && s != nil {
		s.last = m.newest(k)
	}
	return n, err
}

func (m *mutant) Fork(ctx context.Context, p history.ForkParams) (int64, error) {
	change(m.fork, &p, historydriver.CheckFork(&p))
	return m.model.Fork(ctx, p)
}

func (m *mutant) Prune(ctx context.Context, k history.Key, p history.Policy) (history.Pruned, error) {
	change(m.policy, &p, historydriver.CheckPolicy(k, p))
	return m.model.Prune(ctx, k, p)
}

func (m *mutant) Search(ctx context.Context, q history.SearchQuery) (history.SearchPage, error) {
	_, err := historydriver.CompleteSearch(&q)
	change(m.search, &q, err)
	return m.model.Search(ctx, q)
}

func (m *mutant) Sessions(ctx context.Context, q history.SessionQuery) (history.SessionPage, error) {
	change(m.list, &q, historydriver.CompleteSessions(&q))
	return m.model.Sessions(ctx, q)
}
