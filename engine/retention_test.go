package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
)

const day = 24 * time.Hour

func TestParseRetention(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]engine.Retention{
		"":                                      {},
		"completed=90d":                         {"completed": 90 * day},
		" tasks=36h , failed=0,idempotency=1d ": {"tasks": 36 * time.Hour, "failed": 0, "idempotency": day},
		"negotiation-bid-lost=65535d":           {"negotiation-bid-lost": 65535 * day},
		"rejected=1m,canceled=0d":               {"rejected": time.Minute, "canceled": 0},
		"failed=1s":                             {"failed": time.Second},
	} {
		got, err := engine.ParseRetention(in)
		if err != nil {
			t.Errorf("ParseRetention(%q) = %v", in, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParseRetention(%q) differs (-want +got):\n%s", in, diff)
		}
	}
	const form = ": want KIND=AGE with an age such as 90d, 36h or 0"
	const kinds = " is not a kind, want one of tasks, contexts, described-contexts, idempotency, transcripts, state, attempts, dead-letters, completed, canceled, failed, rejected, negotiation-bid-lost"
	for in, want := range map[string]string{
		"90d":                          `entry "90d"` + form,
		"completed":                    `entry "completed"` + form,
		"completed=":                   `entry "completed="` + form,
		"completed=90":                 `entry "completed=90"` + form,
		"completed=-1d":                `entry "completed=-1d"` + form,
		"completed=65536d":             `entry "completed=65536d"` + form,
		"completed=1.5d":               `entry "completed=1.5d"` + form,
		"working=1d":                   `"working"` + kinds,
		"Completed=1d":                 `"Completed"` + kinds,
		"=1d":                          `""` + kinds,
		"completed=999ms":              `completed is 999ms, want 0 or at least 1s`,
		"idempotency=-1h":              `idempotency is -1h0m0s, want 0 or at least 1s`,
		"failed=1d,failed=2d":          `entry "failed=2d": duplicate kind "failed"`,
		"failed=soon,working=1d,b=2us": `entry "failed=soon"` + form + "\n" + `"b"` + kinds + "\n" + `"working"` + kinds,
	} {
		if _, err := engine.ParseRetention(in); err == nil || err.Error() != want {
			t.Errorf("ParseRetention(%q) = %v, want %s", in, err, want)
		}
	}
}

func TestNewRejectsInvalidRetention(t *testing.T) {
	t.Parallel()
	_, err := engine.New(engine.Config{Retention: engine.Retention{"completed": time.Millisecond}})
	if want := "Retention: completed is 1ms, want 0 or at least 1s"; err == nil || !containsLine(err, want) {
		t.Errorf("New() = %v, want %s", err, want)
	}
}

func containsLine(err error, want string) bool {
	return slices.Contains(strings.Split(strings.TrimPrefix(err.Error(), "engine config: "), "\n"), want)
}

// wantTasks checks which tasks of alice exist.
func wantTasks(t *testing.T, e *engine.Engine, when string, tasks map[string]*store.Task, want ...string) {
	t.Helper()
	got, wanted := map[string]bool{}, map[string]bool{}
	for name, task := range tasks {
		_, err := e.Task(t.Context(), alice, task.Key.ID, nil)
		if err != nil {
			wantError(t, "Task()", err, a2a.CodeTaskNotFound)
		}
		got[name], wanted[name] = err == nil, false
	}
	for _, name := range want {
		wanted[name] = true
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("tasks %s differ (-want +got):\n%s", when, diff)
	}
}

// finishHandler ends its turn as the message says.
func finishHandler(ctx context.Context, turn *engine.Turn) error {
	switch turn.Messages()[0].Text() {
	case "fail":
		return turn.Fail(a2a.TextPart{Text: "no"})
	case "reject":
		return turn.Reject(a2a.TextPart{Text: "no"})
	}
	return commandHandler(ctx, turn)
}

func TestFinishedTasksAreRemovedAfterTheirAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := start(t, engine.Config{
			Handler: finishHandler, Turns: engine.Turns{Poll: time.Hour, Lease: time.Hour, Timeout: -1},
			Retention: engine.Retention{"completed": 10 * day, "failed": 20 * day, "rejected": 0, engine.RetainTasks: 30 * day},
		})
		tasks := map[string]*store.Task{"running": send(t, e, message("run"))}
		for name, words := range map[string]string{"completed": "x", "failed": "fail", "rejected": "reject", "paused": "ask", "canceled": "ask", "later": "ask"} {
			tasks[name] = sendWait(t, e, message(words))
		}
		_, err := e.Cancel(t.Context(), alice, tasks["canceled"].Key.ID, engine.SendOptions{})
		wantError(t, "Cancel()", err, "")
		time.Sleep(9 * day)
		sendWait(t, e, messageTo(tasks["later"].Key.ID, "x")) // its age starts now
		wantTasks(t, e, "on day 9", tasks, "running", "completed", "failed", "rejected", "paused", "canceled", "later")
		time.Sleep(2 * day)
		wantTasks(t, e, "on day 11", tasks, "running", "failed", "rejected", "paused", "canceled", "later")
		time.Sleep(10 * day)
		wantTasks(t, e, "on day 21", tasks, "running", "rejected", "paused", "canceled")
		time.Sleep(300 * day)
		wantTasks(t, e, "on day 321", tasks, "running", "rejected", "paused")
		if got := e.Health(t.Context()).Expired.Tasks; got != 4 {
			t.Errorf("Health().Expired.Tasks = %d, want 4", got)
		}
	})
}

func TestTasksAreKeptByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := start(t, engine.Config{Handler: commandHandler, Turns: engine.Turns{Poll: time.Hour, Lease: time.Hour}})
		tasks := map[string]*store.Task{"completed": sendWait(t, e, message("x"))}
		time.Sleep(1000 * day)
		wantTasks(t, e, "on day 1000", tasks, "completed")
	})
}

func TestIdempotencyRecordsAreRemovedAfterTheirAge(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{7 * day, 0} {
		t.Run(age.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := start(t, engine.Config{
					Handler: commandHandler, Turns: engine.Turns{Poll: time.Hour, Lease: time.Hour}, Retention: engine.Retention{engine.RetainIdempotency: age},
				})
				params, plain, keyed := message("x"), engine.SendOptions{Wait: true}, engine.SendOptions{Wait: true, IdempotencyKey: "k"}
				first, withKey := mustSend(t, e, params, plain), mustSend(t, e, params, keyed)
				time.Sleep(7*day - time.Hour)
				wantSameAnswer(t, e, params, plain, first)
				wantSameAnswer(t, e, params, keyed, withKey)
				time.Sleep(1000 * day)
				if age == 0 {
					wantSameAnswer(t, e, params, plain, first)
					wantSameAnswer(t, e, params, keyed, withKey)
					return
				}
				for _, opts := range []engine.SendOptions{plain, keyed} {
					if again := mustSend(t, e, params, opts); again.Task.Key == first.Task.Key || again.Task.Key == withKey.Task.Key {
						t.Errorf("Send(%+v) = an earlier task, want a new one", opts)
					}
				}
				if got := e.Health(t.Context()).Expired; got != (engine.Expired{IdempotencyRecords: 2}) {
					t.Errorf("Health().Expired = %+v, want 2 records", got)
				}
			})
		})
	}
}

// addOldTasks stores tasks that completed some time ago.
func addOldTasks(t *testing.T, s store.Store, ago time.Duration, ids ...string) {
	t.Helper()
	at := store.Time(time.Now().Add(-ago))
	var changes []store.Change
	for _, id := range ids {
		m := message("x").Message
		changes = append(changes, store.Change{
			Key: store.Key{Owner: alice.ID, ID: id}, Create: &store.Create{ContextID: "c"}, Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1},
			Events: []store.Event{{Time: at, State: a2a.StateSubmitted, Received: &m}, {Time: at, State: a2a.StateCompleted}},
		})
	}
	results, err := s.Commit(t.Context(), changes...)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		t.Fatalf("Commit() = %v", err)
	}
}

func TestTasksWithUndeliveredEventsAreKept(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		addOldTasks(t, s, 100*day, "undelivered")
		addOldTasks(t, s, 99*day, "delivered")
		webhook := store.Webhook{
			Task: store.Key{Owner: alice.ID, ID: "undelivered"}, ID: "p", Endpoint: "https://hooks.example:443", Data: []byte("{}"), CreatedAt: store.Time(time.Now()),
		}
		_, err := s.SaveWebhook(t.Context(), webhook, store.WebhookCursor{}, store.Time(time.Now()))
		wantError(t, "SaveWebhook()", err, "")
		e := start(t, engine.Config{
			Handler: commandHandler, Store: s, Turns: engine.Turns{Poll: 100 * time.Millisecond, Lease: 100 * time.Millisecond}, Retention: engine.Retention{engine.RetainTasks: 90 * day},
		})
		removed := func(n int64) func() bool {
			return func() bool { return e.Health(t.Context()).Expired.Tasks == n }
		}
		await.True(t, "the first old task is removed", removed(1))
		addOldTasks(t, s, 98*day, "another") // removed by a later round, which checks the undelivered one again
		await.True(t, "the second old task is removed", removed(2))
		_, err = e.Task(t.Context(), alice, "undelivered", nil)
		wantError(t, "Task()", err, "")
		_, err = s.DeleteWebhook(t.Context(), webhook.Task, webhook.ID, store.Time(time.Now()))
		wantError(t, "DeleteWebhook()", err, "")
		await.True(t, "the last old task is removed", removed(3))
	})
}

// testReplicasExpireTasks lets two replicas remove old tasks concurrently.
func testReplicasExpireTasks(t *testing.T, stores [2]store.Store) {
	t.Helper()
	const old = 300
	ids := make([]string, old)
	for i := range ids {
		ids[i] = fmt.Sprintf("old-%03d", i)
	}
	addOldTasks(t, stores[0], 100*day, ids...)
	addOldTasks(t, stores[0], 80*day, "young")
	var engines []*engine.Engine
	for _, s := range stores {
		engines = append(engines, start(t, engine.Config{
			Handler: commandHandler, Store: s, Turns: engine.Turns{Poll: 100 * time.Millisecond, Lease: 3 * time.Second}, Retention: engine.Retention{"completed": 90 * day},
		}))
	}
	removed := func() (n int64) {
		for _, e := range engines {
			n += e.Health(t.Context()).Expired.Tasks
		}
		return n
	}
	await.True(t, "the old tasks are removed", func() bool { return removed() >= old })
	list, err := engines[0].List(t.Context(), alice, a2a.ListTasksParams{})
	if err != nil || len(list.Tasks) != 1 || list.Tasks[0].Key.ID != "young" {
		t.Errorf("List() = %d tasks, %v, want the young one", len(list.Tasks), err)
	}
	task := sendWait(t, engines[1], message("x"))
	wantState(t, task, a2a.StateCompleted)
	if n := removed(); n != old {
		t.Errorf("the replicas removed %d tasks, want each of %d once", n, old)
	}
}

func TestReplicasExpireTasksTogether(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		testReplicasExpireTasks(t, [2]store.Store{sharedStore{s}, sharedStore{s}})
	})
	if !pgtest.Enabled {
		return
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		schema := pgtest.Schema(t, url)
		var stores [2]store.Store
		for i := range stores {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: schema, Migrate: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			stores[i] = s
		}
		testReplicasExpireTasks(t, stores)
	})
}

func TestEmptyContextsAreRemovedAfterTheirAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := start(t, engine.Config{
			Handler: commandHandler, Turns: engine.Turns{Poll: time.Hour, Lease: time.Hour},
			Retention: engine.Retention{"completed": 10 * day, engine.RetainDescribedContexts: 50 * day},
		})
		made, err := e.CreateContext(t.Context(), alice, a2a.CreateContextParams{Name: "made"}, engine.SendOptions{})
		wantError(t, "CreateContext()", err, "")
		emptied, used := sendWait(t, e, message("x")), sendWait(t, e, message("ask"))
		wantContexts := func(when string, want ...string) {
			t.Helper()
			for name, id := range map[string]string{"made": made.Key.ID, "emptied": emptied.ContextID, "used": used.ContextID} {
				_, err := e.Context(t.Context(), alice, id, nil)
				if exists := err == nil; exists != slices.Contains(want, name) {
					t.Errorf("context %q %s exists: %t, want %t", name, when, exists, !exists)
				}
			}
		}
		time.Sleep(29 * day)
		wantContexts("on day 29", "made", "emptied", "used")
		time.Sleep(2 * day)
		wantContexts("on day 31", "made", "used")
		time.Sleep(21 * day)
		wantContexts("on day 52", "used")
		if got := e.Health(t.Context()).Expired; got.Contexts != 2 || got.Tasks != 1 {
			t.Errorf("Health().Expired = %+v, want 2 contexts and a task", got)
		}
	})
}
