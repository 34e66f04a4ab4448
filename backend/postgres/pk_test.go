//go:build services

package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// useBlock makes a source assign the numbers after first.
func (p *pkSource) useBlock(first int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free, p.end = first, first+pkBlock
}

// Numbers depend on the clock alone, so a database that was restored or promoted repeats none.
func TestTaskNumbersIncreaseWithTime(t *testing.T) {
	t.Parallel()
	last := int64(0)
	for _, year := range []int{1970, 2026, 2199} {
		p := &pkSource{now: func() time.Time { return time.Date(year, 1, 1, 0, 0, 1, 0, time.UTC) }}
		first := p.next()
		if second := p.next(); first <= last || second != first+1 {
			t.Errorf("numbers in %d = %d, %d, want two consecutive ones above %d", year, first, second, last)
		}
		for range pkBlock {
			last = p.next()
		}
		if last/pkBlock == first/pkBlock {
			t.Errorf("number %d after the block of %d, want another block", last, first)
		}
	}
}

// If another process already uses the block of a process, the process takes a new block, each time.
func TestTaskNumbersInUseAreReplaced(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(storetest.T, Config) Config{"plain": emptyConfig, "partitioned": partitioned} {
		cfg := create(storetest.Wrap(t), Config{})
		a, b := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)
		must(t, runTask(a, 0))
		first := a.pks.next() - 1
		for n := 1; n < 40; n++ {
			s := []*Store{a, b}[n%2]
			if n%4 > 1 {
				s.pks.useBlock(first)
			}
			must(t, runTask(s, n))
		}
		var numbers, tasks int
		must(t, a.pool.QueryRow(bg, a.qualify(`SELECT count(DISTINCT pk), count(*) FROM {s}.task_rows`)).Scan(&numbers, &tasks))
		if numbers != 40 || tasks != 40 {
			t.Errorf("%s: %d numbers of %d tasks, want 40 of 40", name, numbers, tasks)
		}
	}
}

// contentOf is everything that a store returns for a task.
type contentOf struct {
	Task    *store.Task
	Listed  []*store.Task
	Events  []store.Event
	Rows    []store.LogRow
	Steps   []store.Step
	Pending []store.Event
	View    string
}

func readContent(t *testing.T, s *Store, k store.Key) (c contentOf) {
	t.Helper()
	var err error
	c.Task, err = s.Task(bg, k, store.TaskOptions{})
	must(t, err)
	page, err := s.Tasks(bg, store.Query{Owner: k.Owner, Limit: 5})
	must(t, err)
	c.Listed = page.Tasks
	c.Events, err = s.Events(bg, k, 0, 1000)
	must(t, err)
	c.Rows, err = s.LogRows(bg, k, 0, 1000)
	must(t, err)
	c.Steps, err = s.Steps(bg, k, 1)
	must(t, err)
	p := claimParams("w", 10)
	p.Until = p.Now // the lanes are due again at once
	p.Events = 1000
	lanes, err := s.ClaimLanes(bg, p)
	must(t, err)
	for i := range lanes {
		if lanes[i].Webhook.Task == k {
			c.Pending = lanes[i].Events
		}
	}
	must(t, s.pool.QueryRow(bg, s.qualify(`SELECT md5(history::text) || (SELECT md5(string_agg(event::text, '' ORDER BY seq)) FROM {s}.task_events WHERE owner_did = $1)
		FROM {s}.tasks WHERE owner_did = $1`), k.Owner).Scan(&c.View))
	return c
}

// The number of a task identifies its content only together with the owner.
func TestTasksOfTwoOwnersMayHaveTheSameNumber(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(storetest.T, Config) Config{"plain": emptyConfig, "partitioned": partitioned} {
		s := open(storetest.Wrap(t), create(storetest.Wrap(t), Config{}))
		keys := []store.Key{{Owner: "did:example:alice", ID: taskID(1)}, {Owner: "did:example:bob", ID: taskID(2)}}
		for i, k := range keys {
			c := submitted(1)
			c.Key = k
			c.Events[0].Received = message("m1", "user", k.Owner+strings.Repeat(" text", 20_000)) // a row of task_contents
			s.pks.useBlock(1 << 50)
			must(t, commitOne(s, c))
			_, err := s.SaveWebhook(bg, store.Webhook{Task: k, ID: "p", Endpoint: "http://x", Data: []byte("{}"), CreatedAt: testStart}, store.WebhookCursor{}, testStart)
			must(t, err)
			for n := range 40 + 2*i { // until a second snapshot has replaced the first
				task, err := s.Task(bg, k, store.TaskOptions{})
				must(t, err)
				next := task.Clone()
				e := store.Event{Seq: task.Seq + 1, Time: testStart, State: a2a.StateWorking, Progress: true, Message: message("p", "agent", k.Owner+strings.Repeat(loremIpsum, 40))}
				next.Apply(e)
				step := store.Step{Turn: 1, Name: fmt.Sprint("step ", n), Result: []byte(k.Owner)}
				must(t, commitOne(s, store.Change{Key: k, Version: task.Seq, Events: []store.Event{e}, Steps: []store.Step{step}, Snapshot: next}))
			}
			must(t, commitOne(s, completed(c)))
		}
		if n := countRows(t, s, `{s}.task_rows WHERE pk = $1`, 1<<50); n != 2 {
			t.Fatalf("%s: %d tasks have the number, want 2", name, n)
		}
		alice, bob := readContent(t, s, keys[0]), readContent(t, s, keys[1])
		for i, c := range []contentOf{alice, bob} {
			steps := 40 + 2*i
			if len(c.Listed) != 1 || len(c.Task.History) != 2 || len(c.Events) != steps+4 || len(c.Pending) != steps+4 || len(c.Rows) != steps+2 || len(c.Steps) != steps {
				t.Errorf("%s: %s has %d tasks, %d messages, %d events, %d pending, %d log rows, %d steps", name, keys[i].Owner,
					len(c.Listed), len(c.Task.History), len(c.Events), len(c.Pending), len(c.Rows), len(c.Steps))
			}
			if n := countRows(t, s, `{s}.task_log WHERE owner = $1 AND snapshot IS NOT NULL`, keys[i].Owner); n != 1 {
				t.Errorf("%s: %d snapshots of %s, want 1", name, n, keys[i].Owner)
			}
			for _, e := range c.Events {
				if m := e.Message; e.Progress && !strings.Contains(fmt.Sprint(m.Parts), keys[i].Owner) {
					t.Errorf("%s: an event of %s has the message %v", name, keys[i].Owner, m.Parts)
				}
			}
		}
		more, err := s.DeleteTask(bg, keys[0], true)
		must(t, err)
		for more {
			more, err = s.PurgeDeleted(bg)
			must(t, err)
		}
		if diff := cmp.Diff(bob, readContent(t, s, keys[1]), cmpopts.IgnoreUnexported(store.Task{})); diff != "" {
			t.Errorf("%s: the task of bob after the deletion of alice's (-want +got):\n%s", name, diff)
		}
		for _, table := range []string{"task_log", "task_contents", "task_steps", "tasks_deleted"} {
			if n := countRows(t, s, "{s}."+table+" WHERE owner = $1", keys[0].Owner); n != 0 {
				t.Errorf("%s: %s has %d rows of alice", name, table, n)
			}
		}
	}
}
