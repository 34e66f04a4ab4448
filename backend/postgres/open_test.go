//go:build services

package postgres

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestConfigReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := Open(bg, Config{URL: "mysql://u:secret@h/d", Schema: "Pg;", PoolMax: -1, Timeout: -1, CommandTimeout: -1})
	for _, want := range []string{"Schema", "PoolMax", "Timeout", "CommandTimeout", "mysql://"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open() = %v, want it to name %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("Open() = %v, which contains the password", err)
	}
}

func TestConfigDistinguishesNoneFromDefault(t *testing.T) {
	t.Parallel()
	const url = "postgres://h/d"
	for _, test := range []struct {
		name         string
		cfg          Config
		min, retries int
		delay        time.Duration
	}{
		{"zero", Config{}, 2, 3, time.Second},
		{"none", Config{PoolMin: -1, MaxRetries: -1, RetryDelay: -1}, 0, 0, conflictDelay},
		{"given", Config{PoolMin: 3, MaxRetries: 1, RetryDelay: time.Minute}, 3, 1, time.Minute},
	} {
		c := test.cfg
		c.URL = url
		must(t, c.setDefaults())
		if c.PoolMin != test.min || c.MaxRetries != test.retries || c.RetryDelay != test.delay {
			t.Errorf("%s: PoolMin %d, MaxRetries %d, RetryDelay %s, want %d, %d, %s",
				test.name, c.PoolMin, c.MaxRetries, c.RetryDelay, test.min, test.retries, test.delay)
		}
	}
}

// A pooler in front of the database rejects session settings.
func TestOpenReportsAnUnconfiguredPooler(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1<<10))
			const fields = "SFATAL\x00C08P01\x00Munsupported startup parameter: jit\x00\x00"
			_, _ = c.Write(append([]byte{'E', 0, 0, 0, byte(len(fields) + 4)}, fields...))
			_ = c.Close()
		}
	}()
	url := "postgres://u:s3cr3t@" + l.Addr().String() + "/d?sslmode=disable"
	_, err = Open(bg, Config{URL: url, Timeout: time.Minute})
	if !errors.Is(err, ErrPooler) || !strings.Contains(err.Error(), "a pooler in front of it") {
		t.Errorf("Open() = %v, want ErrPooler", err)
	}
	if _, err = Open(bg, Config{URL: url, Timeout: time.Minute, Pooler: true}); err == nil || errors.Is(err, ErrPooler) {
		t.Errorf("Open() with Pooler = %v, want another error than ErrPooler", err)
	}
}

func TestURLForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://u@h/d":                                 "postgres://u@h/d",
		"postgresql://u:p@h:1/d?sslmode=require":           "postgres://u:p@h:1/d?sslmode=require",
		"postgresql+asyncpg://u:p@h/d?ssl=require":         "postgres://u:p@h/d?sslmode=require",
		"postgresql+asyncpg://u:p%40%2F@[::1]:5433/d":      "postgres://u:p%40%2F@[::1]:5433/d",
		"postgres://u@h/d?ssl=disable&sslmode=verify-full": "postgres://u@h/d?sslmode=verify-full",
		"postgres://u@h/d?ssl=":                            "postgres://u@h/d",
		"postgresql://":                                    "postgres://",
		"postgres:///d?options=-c%20a%3Db&password=a+b":    "postgres:///d?options=-c%20a%3Db&password=a+b",
	} {
		if got, err := libpqURL(text); err != nil || got != want {
			t.Errorf("plainURL(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"postgres://u:p%40ss@h:1/d?password=x": "postgres://u:***@h:1/d",
		"postgres://u@h/d":                     "postgres://u@h/d",
		"postgres:///d?host=/tmp":              "postgres:///d",
		"postgres://":                          "postgres://",
	} {
		if got := maskURL(text); got != want {
			t.Errorf("maskURL(%q) = %q, want %q", text, got, want)
		}
	}
}

// The password is in no error and no log line.
func TestPasswordIsInNoErrorAndNoLog(t *testing.T) {
	t.Parallel()
	const password = "s3cr3t-p4ss"
	u, err := url.Parse(pgtest.URL(storetest.Wrap(t)))
	must(t, err)
	name := u.User.Username()
	closed := *u
	closed.Host = "127.0.0.1:1"
	absent := *u
	absent.Path = "/absent"
	odd := *u
	odd.RawQuery = "sslmode=odd"
	var log bytes.Buffer
	cfg := Config{
		Schema: pgtest.Schema(storetest.Wrap(t), u.String()), MaxRetries: -1, Timeout: time.Minute,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for what, u := range map[string]url.URL{"closed": closed, "absent": absent, "odd": odd, "pending": *u} {
		u.User = url.UserPassword(name, password)
		cfg.URL = u.String()
		s, err := Open(bg, cfg)
		if err == nil {
			_ = s.Close()
			t.Errorf("Open() of a %s database = nil, want an error", what)
			continue
		}
		for _, text := range []string{err.Error(), log.String()} {
			if strings.Contains(text, password) {
				t.Errorf("%s: %s: contains the password", what, text)
			}
		}
	}
	u.User = url.UserPassword(name, password)
	cfg.URL, cfg.Migrate = u.String(), true
	s := open(storetest.Wrap(t), cfg)
	if got := s.Info().Location; !strings.Contains(got, ":***@") || strings.Contains(got, password) {
		t.Errorf("Info().Location = %q, want the password masked", got)
	}
}

func TestOpenRejectsPendingMigrations(t *testing.T) {
	t.Parallel()
	cfg := freshConfig(storetest.Wrap(t), Config{})
	cfg.Migrate = false
	_, err := Open(bg, cfg)
	var coded *a2a.Error
	if !errors.As(err, &coded) || !strings.Contains(coded.Message, "is empty: apply its migrations first") {
		t.Fatalf("Open() without migrations = %v, want it to say that the schema is empty", err)
	}
	if strings.Count(err.Error(), "is empty") != 1 {
		t.Errorf("Open() without migrations = %v, want the text once", err)
	}
	cfg.Migrate = true
	must(t, open(storetest.Wrap(t), cfg).Close())
	cfg.Migrate = false
	must(t, open(storetest.Wrap(t), cfg).Close())
}

func TestOpenRejectsANewerSchema(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	s := open(storetest.Wrap(t), cfg)
	_, err := s.pool.Exec(bg, s.qualify(`INSERT INTO {s}.schema_migrations VALUES ('299901010000', 'later', 'x', '2099-01-01T00:00:00Z', '299901010000')`))
	must(t, err)
	for _, cfg.Migrate = range []bool{true, false} {
		if _, err := Open(bg, cfg); err == nil || !strings.Contains(err.Error(), "newer than this program") {
			t.Errorf("Open() with Migrate %t = %v, want an error for the newer schema", cfg.Migrate, err)
		}
	}
	_, err = s.pool.Exec(bg, s.qualify(`DELETE FROM {s}.schema_migrations WHERE version = '299901010000'`))
	must(t, err)
	_, err = s.pool.Exec(bg, s.qualify(`UPDATE {s}.schema_migrations SET checksum = 'other'`))
	must(t, err)
	if _, err := Open(bg, cfg); err == nil || !strings.Contains(err.Error(), "applied migration was changed") {
		t.Errorf("Open() = %v, want an error for the changed migration", err)
	}
}

func TestReplicasThatStartTogetherMigrateOnce(t *testing.T) {
	t.Parallel()
	cfg := freshConfig(storetest.Wrap(t), Config{PoolMin: 1, PoolMax: 2})
	var wg sync.WaitGroup
	for n := range 10 {
		wg.Go(func() {
			s, err := Open(bg, cfg)
			if err != nil {
				t.Errorf("Open() = %v", err)
				return
			}
			if err := runTask(s, n); err != nil {
				t.Errorf("task = %v", err)
			}
			_ = s.Close()
		})
	}
	wg.Wait()
	s := open(storetest.Wrap(t), cfg)
	page, err := s.Tasks(bg, store.Query{Owner: taskKey(0).Owner, Limit: 20})
	if err != nil || len(page.Tasks) != 10 {
		t.Errorf("Tasks() = %d, %v, want 10", len(page.Tasks), err)
	}
}

// A running store accepts columns that a newer program adds.
func TestRunningStoreSurvivesSchemaChanges(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	use := func(n int) {
		t.Helper()
		must(t, runTask(s, n))
		_, err := s.Task(bg, taskKey(n), store.TaskOptions{})
		must(t, err)
		_, err = s.Tasks(bg, store.Query{Owner: taskKey(n).Owner, Limit: 5})
		must(t, err)
		_, err = s.Claim(bg, store.ClaimParams{Worker: "w", Now: testStart, Until: testStart, Limit: 1, Event: store.Event{State: a2a.StateWorking}})
		must(t, err)
		_, err = s.Context(bg, taskKey(n).Owner, "c"+taskID(n), 1)
		must(t, err)
	}
	use(1)
	for n, table := range []string{"task_rows", "task_log", "context_rows", "task_rows"} {
		_, err := s.pool.Exec(bg, s.qualify(`ALTER TABLE {s}.`+table+` ADD COLUMN more`+string(rune('a'+n))+` integer`))
		must(t, err)
		use(n + 2)
	}
}

func TestTwoStoresClaimAndCommitConcurrently(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	a, b := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)
	const tasks = 300
	var changes []store.Change
	for n := range tasks {
		c := submitted(n)
		c.Key.Owner = string(rune('a' + n%5))
		c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1}
		changes = append(changes, c)
	}
	_, err := a.Commit(bg, changes...)
	must(t, err)
	var mu sync.Mutex
	claims := make(map[store.Key]int)
	wins := make(map[store.Key]int)
	var wg sync.WaitGroup
	for i, s := range []*Store{a, b, a, b} {
		wg.Go(func() {
			last, worker := "", string(rune('A'+i))
			for {
				got, err := s.Claim(bg, store.ClaimParams{
					Worker: worker, Now: testStart.Add(time.Hour), Until: testStart.Add(2 * time.Hour), Limit: 7, AfterOwner: last,
					Event: store.Event{Time: testStart.Add(time.Hour), State: a2a.StateWorking},
				})
				if err != nil {
					t.Errorf("Claim() = %v", err)
					return
				}
				if len(got) == 0 {
					return
				}
				mu.Lock()
				for _, task := range got {
					claims[task.Key]++
				}
				mu.Unlock()
				last = got[len(got)-1].Key.Owner
			}
		})
		wg.Go(func() {
			for _, c := range changes {
				err := commitOne(s, store.Change{Key: c.Key, Version: 3, Events: []store.Event{{Time: testStart.Add(2 * time.Hour), State: a2a.StateCanceled}}})
				if err == nil {
					mu.Lock()
					wins[c.Key]++
					mu.Unlock()
				} else if !errors.Is(err, store.ErrConflict) {
					t.Errorf("Commit() = %v, want it applied or a conflict", err)
				}
			}
		})
	}
	wg.Wait()
	if len(claims) != tasks {
		t.Errorf("%d of %d tasks were claimed", len(claims), tasks)
	}
	for k, n := range claims {
		if n != 1 {
			t.Errorf("task %v was claimed %d times", k, n)
		}
	}
	for k, n := range wins {
		if n != 1 {
			t.Errorf("task %v was changed %d times from one version", k, n)
		}
	}
}

func TestNowFollowsTheDatabaseClock(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	const slack = 100 * time.Millisecond
	await.True(t, "Now() is the clock of the database", func() bool { // a sample may take longer than slack
		must(t, s.runOnce(bg, func(ctx context.Context, c *pgx.Conn) error { return s.readClock(ctx, c) }))
		var remote time.Time
		before := s.Now()
		must(t, s.pool.QueryRow(bg, "SELECT clock_timestamp()").Scan(&remote))
		return !remote.Before(before.Add(-slack)) && !remote.After(s.Now().Add(slack))
	})
	var c clock
	start := time.Now()
	c.set(start, start.Add(time.Hour), 0)
	first := c.now()
	c.set(time.Now(), time.Now().Add(time.Hour-500*time.Millisecond), 0) // back by less than clockTolerance
	if second := c.now(); second.Before(first) {
		t.Errorf("now() = %v after %v, want no earlier time", second, first)
	}
	if jump := c.set(time.Now(), time.Now(), 0); jump > -50*time.Minute {
		t.Errorf("set() = %v, want an hour back", jump)
	}
	if third := c.now(); third.After(first.Add(-50 * time.Minute)) {
		t.Errorf("now() = %v, want it set back by an hour", third)
	}
}

// After a failover the clock of the new server may be ahead or behind.
func TestNewConnectionDetectsAClockJump(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 5 * time.Second} {
		s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
		s.clock.mu.Lock()
		s.clock.remote, s.clock.lastReturned = s.clock.remote.Add(-by), time.Time{} // the clock of the previous server
		s.clock.mu.Unlock()
		before, start := s.Now(), time.Now()
		s.pool.Reset()
		if _, err := s.Backlog(bg); err != nil {
			t.Fatalf("Backlog() = %v", err)
		}
		if got := s.Now().Sub(before) - time.Since(start); (got - by).Abs() > 2*time.Second {
			t.Errorf("Now() moved by %s with the first call on a new connection, want %s", got, by)
		}
	}
}

// Operators query the documented views. The map has the results as JSON.
func TestOperatorReadsTheDocumentedTables(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	done, odd := submitted(1), submitted(2)
	done.Events[0].Metadata = map[string]any{"a": 1, "b": true}
	end := completed(done)
	task := &store.Task{Key: done.Key, ContextID: done.Create.ContextID}
	for i, e := range append(append([]store.Event{}, done.Events...), end.Events...) {
		e.Seq = int64(i + 1)
		task.Apply(e)
	}
	end.Snapshot = task
	odd.Events[0].Received = message("m1", "user", "nul \x00 and \\u0000")
	odd.Events[0].Received.TaskID, odd.Events[0].Received.ContextID = odd.Key.ID, odd.Create.ContextID
	odd.Events[0].Metadata = map[string]any{"k": map[string]any{"n": 1.5, "o": map[string]any{"p": 1}}, "m": 1}
	odd.Events[1].Metadata = map[string]any{"k": map[string]any{"n": nil, "o": map[string]any{"q": 2}}, "l": false, "m": nil}
	artifact := func(id string, parts ...a2a.Part) store.Event {
		return store.Event{Time: testStart, State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: id, Parts: parts}}
	}
	odd.Events = append(odd.Events, artifact("withdrawn", a2a.TextPart{Text: "gone"}), artifact("again", a2a.TextPart{Text: "gone"}),
		artifact("withdrawn"), artifact("again"), artifact("a1", a2a.TextPart{Text: "kept"}), artifact("again", a2a.TextPart{Text: "back"}),
		artifact("large", a2a.TextPart{Text: strings.Repeat("x", 70_000)}), artifact("large", a2a.TextPart{Text: strings.Repeat("y", 80_000)}))
	for _, c := range []store.Change{done, end, odd} {
		must(t, commitOne(s, c))
	}
	must(t, s.AddFeedback(bg, store.Feedback{Key: done.Key, ID: "f1", Rating: 5, Text: "good", CreatedAt: testStart.Add(time.Second)}))
	for query, want := range map[string]string{
		`SELECT jsonb_build_array(id, context_id, owner_did, kind, state, state_timestamp AT TIME ZONE 'UTC', metadata, jsonb_array_length(history), artifacts -> 0 ->> 'name')
			FROM {s}.tasks WHERE state = 'completed'`: `["` + taskID(1) + `", "c` + taskID(1) + `", "did:key:z6MkhaXgBZDvotDkL5257", "task", "completed", "2026-11-20T12:00:00.005", {"a": 1, "b": true}, 2, "summary"]`,
		`SELECT jsonb_agg(jsonb_build_array(seq, time AT TIME ZONE 'UTC', state) ORDER BY seq) FROM {s}.task_events WHERE task_id = '` + taskID(1) + `'`: `[[1, "2026-11-20T12:00:00", "submitted"], [2, "2026-11-20T12:00:00", "working"], [3, "2026-11-20T12:00:00.005", "working"], [4, "2026-11-20T12:00:00.005", "completed"]]`,
		`SELECT jsonb_build_array(history -> 0 -> 'taskId', history -> 0 -> 'contextId') FROM {s}.tasks WHERE state = 'working'`:                         `["` + taskID(2) + `", "c` + taskID(2) + `"]`,
		`SELECT history -> 0 -> 'parts' -> 0 -> 'text' FROM {s}.tasks WHERE state = 'working'`:                                                           `"nul � and \\u0000"`,
		`SELECT artifacts FROM {s}.tasks WHERE state = 'working'`:                                                                                        `[{"parts": [{"kind": "text", "text": "kept"}], "artifactId": "a1"}, {"parts": [{"kind": "text", "text": "back"}], "artifactId": "again"}, {"parts": [{"kind": "text", "text": "` + strings.Repeat("y", 80_000) + `"}], "artifactId": "large"}]`,
		`SELECT metadata FROM {s}.tasks WHERE state = 'working'`:                                                                                         `{"k": {"o": {"p": 1, "q": 2}}, "l": false}`,
		`SELECT jsonb_agg(seq ORDER BY seq) FROM {s}.task_events WHERE task_id = '` + taskID(1) + `'`:                                                    `[1, 2, 3, 4]`,
		`SELECT jsonb_build_array(jsonb_array_length(message_history), task_count, status) FROM {s}.contexts WHERE id = 'c` + taskID(1) + `'`:            `[2, 1, "active"]`,
		`SELECT feedback_data FROM {s}.task_feedback`:                                                                                                    `{"id": "f1", "rating": 5, "feedback": "good", "metadata": {}}`,
	} {
		var got string
		if err := s.pool.QueryRow(bg, s.qualify(query)).Scan(&got); err != nil {
			t.Errorf("%s = %v", query, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", query, d)
		}
	}
}

// A canceled call keeps its connection, and later calls receive their own answers.
func TestCanceledCallsAffectNoOthers(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	must(t, runTask(s, 1))
	for i := range 200 {
		ctx, cancel := context.WithTimeout(bg, time.Duration(i*5)*time.Microsecond)
		_, err := s.Task(ctx, taskKey(1), store.TaskOptions{})
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("canceled Task() = %v, want the error of its context", err)
		}
		if _, err := s.Task(bg, taskKey(1), store.TaskOptions{}); err != nil {
			t.Errorf("Task() = %v", err)
		}
	}
}
