//go:build services

package postgres

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Two replicas create tasks in contexts and send messages to tasks of the same contexts in
// random order. Some of the contexts do not exist yet.
func TestCommitsInTheSameContextsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{Settings: map[string]string{"deadlock_timeout": "10ms", "shared_buffers": "16MB"}})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	cfg := freshConfig(storetest.Wrap(t), Config{URL: server.URL()})
	stores := []*Store{open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)}
	const contexts = 6
	create := func(n int, contextID string) store.Change {
		c := submitted(n)
		c.Create.ContextID = contextID
		return c
	}
	received := func(n int) store.Change { // for task n, which is in context n
		c := progress(n)
		c.Events[0].Message, c.Events[0].Received, c.Events[0].Time = nil, message("m", "user", "more"), testStart.Add(time.Hour)
		return c
	}
	for n := range contexts {
		must(t, commitOne(stores[0], create(n, fmt.Sprint("c", n))))
	}
	var next, commits atomic.Int64
	next.Store(contexts)
	var wg sync.WaitGroup
	deadline := time.Now().Add(3 * time.Second)
	for i := range 8 {
		wg.Go(func() {
			for r := rand.New(rand.NewPCG(1, uint64(i))); time.Now().Before(deadline); commits.Add(1) {
				n := int(next.Add(2))
				order := r.Perm(contexts)
				changes := []store.Change{
					create(n, fmt.Sprint("c", order[0])), received(order[1]), received(order[2]), create(n+1, fmt.Sprint("new", n/16-r.IntN(2))),
				}
				r.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
				results, err := stores[i%2].Commit(bg, changes...)
				for _, res := range results {
					if err == nil {
						err = res.Err
					}
				}
				if err != nil {
					t.Errorf("Commit() = %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		must(t, s.Close()) // sessions report their statistics when they end
	}
	conn, err := pgx.Connect(bg, server.URL())
	must(t, err)
	defer func() { _ = conn.Close(bg) }()
	await.True(t, "the sessions end", func() bool {
		var n int
		must(t, conn.QueryRow(bg, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast'`).Scan(&n))
		return n == 0
	})
	var deadlocks int
	must(t, conn.QueryRow(bg, `SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'`).Scan(&deadlocks))
	t.Logf("%d commits, %d deadlocks", commits.Load(), deadlocks)
	if deadlocks > 0 {
		t.Errorf("%d deadlocks in %d commits, want none", deadlocks, commits.Load())
	}
	s := open(storetest.Wrap(t), cfg)
	tasks := 0
	for n := range contexts {
		c, err := s.Context(bg, taskKey(0).Owner, fmt.Sprint("c", n), 1)
		if err != nil || !c.UpdatedAt.Equal(testStart.Add(time.Hour)) {
			t.Errorf("Context(c%d) = %+v, %v, want it updated by a message", n, c, err)
		}
		tasks += c.TaskCount
	}
	if want := contexts + int(commits.Load()); tasks != want {
		t.Errorf("the contexts count %d tasks, want %d", tasks, want)
	}
}
