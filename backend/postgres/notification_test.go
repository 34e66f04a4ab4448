//go:build services

package postgres

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var caller = a2a.Principal{ID: taskKey(0).Owner}

// startEngine runs an engine on a store until the test ends.
func startEngine(t *testing.T, cfg engine.Config) *engine.Engine {
	t.Helper()
	var mu sync.Mutex
	made := 0
	cfg.NewID = func() string {
		mu.Lock()
		defer mu.Unlock()
		made++
		return strings.Replace(taskID(made), "8000", cfg.Worker, 1)
	}
	e, err := engine.New(cfg)
	must(t, err)
	must(t, e.Start(bg))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
		defer cancel()
		_ = e.Stop(ctx)
	})
	return e
}

// sendText sends a message to a task, "" for a new one.
func sendText(t *testing.T, e *engine.Engine, task, text string) *store.Task {
	t.Helper()
	m := *message(text, "user", text)
	m.TaskID = task
	sent, err := e.Send(bg, caller, a2a.MessageSendParams{Message: m}, engine.SendOptions{})
	must(t, err)
	return sent.Task
}

// echo answers the next message that a turn receives.
func echo(ctx context.Context, turn *engine.Turn) error {
	messages, err := turn.Receive(ctx)
	if err != nil {
		return err
	}
	return turn.Reply(messages[0].Parts...)
}

// awaitCompleted waits until a task is completed.
func awaitCompleted(t *testing.T, s store.Store, key store.Key) {
	t.Helper()
	await.True(t, "task "+key.ID+" receives its message", func() bool {
		task, err := s.Task(bg, key, store.TaskOptions{})
		must(t, err)
		return task.Status.State == a2a.StateCompleted
	})
}

// noClaims is a store of a process that runs no tasks.
type noClaims struct{ *Store }

func (noClaims) Claim(context.Context, store.ClaimParams) ([]*store.Task, error) { return nil, nil }

// Behind a pooler LISTEN does not work, so the message is found by polling.
func TestMessageThroughOtherReplicaArrivesBehindAPooler(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{Pooler: true})
	a, b := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)
	e1 := startEngine(t, engine.Config{Store: a, Worker: "8001", Handler: echo, Turns: engine.Turns{Poll: 100 * time.Millisecond}})
	e2 := startEngine(t, engine.Config{Store: noClaims{b}, Worker: "8002", Handler: echo})
	task := sendText(t, e1, "", "converse")
	sendText(t, e2, task.Key.ID, "continue")
	awaitCompleted(t, b, task.Key)
}

func TestFailedNotificationIsSentAgain(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	cfg.URL += "&search_path=" + cfg.Schema + ",pg_catalog"
	a, b := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)
	e := recordWatch(t.Context(), b)
	e.await(t, "the first notification", func() bool { return e.lost == 1 })
	admin, err := pgx.Connect(bg, cfg.URL)
	must(t, err)
	defer func() { _ = admin.Close(bg) }()
	for _, text := range []string{
		`CREATE SEQUENCE {s}.attempts`,
		`CREATE FUNCTION {s}.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $f$ BEGIN
			PERFORM nextval('{s}.attempts');
			RAISE program_limit_exceeded USING MESSAGE = 'too many notifications in the NOTIFY queue';
		END $f$`,
	} {
		_, err := admin.Exec(bg, a.qualify(text))
		must(t, err)
	}
	must(t, commitOne(a, submitted(1)))
	attempts := func(n int) func() bool {
		return func() (enough bool) {
			must(t, admin.QueryRow(bg, a.qualify(`SELECT last_value >= $1 AND is_called FROM {s}.attempts`), n).Scan(&enough))
			return enough
		}
	}
	e.await(t, "a second attempt to notify", attempts(2))
	_, err = admin.Exec(bg, a.qualify(`DROP FUNCTION {s}.pg_notify(text, text)`))
	must(t, err)
	e.await(t, "the change", func() bool { return e.lost > 1 || len(e.tasks) > 0 })
}

func TestLockedRowDelaysNoNotificationOfOtherTasks(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{CommandTimeout: 10 * time.Minute})
	a, b := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)
	started := make(chan *engine.Turn, 1)
	// Polling is disabled: only notifications announce messages.
	e1 := startEngine(t, engine.Config{Store: a, Worker: "8001", Turns: engine.Turns{Poll: time.Hour, Lease: time.Hour}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		started <- turn
		return echo(ctx, turn)
	}})
	e2 := startEngine(t, engine.Config{Store: noClaims{b}, Worker: "8002", Turns: engine.Turns{Poll: time.Hour, Lease: time.Hour}, Handler: echo})
	locked := sendText(t, e1, "", "locked")
	turn := <-started
	unlock := lockTask(t, a, locked.Key)
	var flushed sync.WaitGroup
	flushed.Go(func() {
		_ = turn.Status("working")
		_ = turn.Flush()
	})
	waitForLock(t, a)
	b.outbox.add(false, locked.Key)
	free := sendText(t, e1, "", "free")
	<-started
	sendText(t, e2, free.Key.ID, "continue")
	awaitCompleted(t, b, free.Key)
	unlock()
	flushed.Wait()
	sendText(t, e2, locked.Key.ID, "continue")
	awaitCompleted(t, b, locked.Key)
}
