//go:build faults

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/faults/check"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
)

// chaosTime returns the duration of TestChaos: FAULTS_CHAOS, such as 10m.
func chaosTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("FAULTS_CHAOS")
	if text == "" {
		return 15 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("FAULTS_CHAOS is %q, want a duration such as 10m", text)
	}
	return d
}

// TestChaos injects random faults while clients send messages, lose responses, repeat requests
// and continue tasks. Each turn uses every contract. Afterwards every message must have taken effect once, every artifact must
// equal the artifact of an uninterrupted run, and the receiver of the webhooks must have every event in order.
func TestChaos(t *testing.T) {
	parallel(t)
	t.Run("sqlite", func(t *testing.T) {
		parallel(t)
		f := onSQLite(t, "-contracts")
		newChaos(f, nil).run(chaosTime(t))
	})
	t.Run("three replicas", func(t *testing.T) {
		parallel(t)
		pgtest.URL(t) // has made a server with extensions
		db := private(t, pgtest.Config{Fsync: true, Extensions: true})
		f := onPostgres(t, db.URL(), "-contracts", "-command-timeout", "3s", "-pool-timeout", "2s", "-retry-delay", "100ms")
		f.r.zombies = true // a suspended replica may still be sending
		newChaos(f, db).run(chaosTime(t))
	})
}

// chaos is one run of TestChaos.
type chaos struct {
	*fleet
	db      *pgtest.Server // nil on SQLite
	random  *rand.Rand
	counts  map[string]int // faults by name
	shared  [4]string      // contexts of several tasks, by client
	mu      sync.Mutex
	replies []a2a.Message // follow-ups that the server has acknowledged
}

// drafts are texts of messages. Their artifacts are compared with the artifacts of an
// uninterrupted run.
var drafts = []string{"draft 4 15ms", "chunks 20 5ms", "ask", "steps 3 20ms", "draft 8 40ms", "chunks 50 20ms", "work 100ms"}

func newChaos(f *fleet, db *pgtest.Server) *chaos {
	c := &chaos{fleet: f, db: db, random: seed(f.t), counts: make(map[string]int)}
	for n := range c.shared {
		c.shared[n] = newID()
	}
	return c
}

func (c *chaos) run(d time.Duration) {
	c.t.Helper()
	c.r.policy = c.policy()
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	defer cancel()
	var clients sync.WaitGroup
	for n := range c.shared {
		clients.Go(func() { c.client(ctx, n) })
	}
	for ctx.Err() == nil {
		c.pause(200*time.Millisecond, 1500*time.Millisecond)
		c.fault()
	}
	clients.Wait()
	c.verify(await.Limit + d/2)
}

// policy accepts most webhook requests and fails some.
func (c *chaos) policy() func(*delivery) answer {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(c.random.Uint64(), 2))
	return func(*delivery) answer {
		mu.Lock()
		defer mu.Unlock()
		switch n := random.IntN(200); n {
		case 0:
			return answer{status: 500}
		case 1:
			return answer{cut: true}
		case 2:
			return answer{status: 429, retryAfter: "1"}
		default:
			return answer{pause: time.Duration(n%8) * time.Millisecond}
		}
	}
}

// client sends messages, with each of the ways to make a request repeatable, and repeats some of
// them.
func (c *chaos) client(ctx context.Context, n int) {
	for i := n; ctx.Err() == nil; i++ {
		text := drafts[i%len(drafts)]
		s := sentTask{config: c.r.inline()}
		switch i % 3 {
		case 0:
			s.message = withIDs(text)
			s.message.ID = newID()
		case 1:
			s.message = client.Text(text)
			s.message.ID, s.message.ContextID = newID(), c.shared[n]
		default:
			s.message, s.key = client.Text(text), newID()
			s.message.ID = "msg-1"
		}
		err := s.send(c.any)
		again := s
		if i%5 == 0 {
			if e := again.send(c.any); e == nil && err == nil && again.id != s.id {
				c.t.Errorf("message %s started tasks %s and %s", s.message.ID, s.id, again.id)
			}
		}
		c.sends.add(s)
		if err == nil && text == "ask" && c.hasAsked(ctx, s.id) {
			c.reply(ctx, s.id)
		}
		c.pauseFor(ctx, 150*time.Millisecond)
	}
}

// hasAsked waits until a task waits for input. It returns false if ctx is done first.
func (c *chaos) hasAsked(ctx context.Context, task string) bool {
	for ; ctx.Err() == nil; c.pauseFor(ctx, 100*time.Millisecond) {
		if t, err := c.any.client.Task(ctx, a2a.TaskQueryParams{ID: task}); err == nil && t.Status.State == a2a.StateInputRequired {
			return true
		}
	}
	return false
}

// reply sends a message to a task that waits for input. It retries until there is a response, and
// then repeats the message once more.
func (c *chaos) reply(ctx context.Context, task string) {
	m := client.Text("draft 3 10ms")
	m.ID, m.TaskID = newID(), task
	for acknowledged := false; ctx.Err() == nil; c.pauseFor(ctx, 100*time.Millisecond) {
		s := sentTask{message: m}
		err := s.send(c.any)
		switch {
		case err == nil && acknowledged:
			c.mu.Lock()
			c.replies = append(c.replies, m)
			c.mu.Unlock()
			return
		case err == nil:
			acknowledged = true
		case !a2a.CodeOf(err).Retryable() && !errors.Is(err, context.DeadlineExceeded):
			c.t.Errorf("reply to task %s: %v", task, err)
			return
		}
	}
}

func (c *chaos) pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (c *chaos) pause(least, most time.Duration) {
	time.Sleep(least + time.Duration(c.random.Int64N(int64(most-least))))
}

// fault injects one fault and ends it.
func (c *chaos) fault() {
	type fault struct {
		name string
		do   func(i int)
	}
	faults := []fault{{"kill", c.killOne}, {"kill", c.killOne}, {"terminate", c.terminate}, {"suspend", c.suspend}, {"receiver down", c.receiverDown}}
	if c.db != nil {
		faults = append(faults, fault{"cut connections", c.cutConnections}, fault{"restart database", c.restartDatabase},
			fault{"freeze database", c.freezeDatabase}, fault{"kill all", c.killAll})
	}
	f := faults[c.random.IntN(len(faults))]
	c.counts[f.name]++
	f.do(c.random.IntN(len(c.replicas)))
}

func (c *chaos) killOne(i int) {
	c.kill(i)
	c.pause(10*time.Millisecond, 1500*time.Millisecond)
	c.start(i)
}

func (c *chaos) killAll(int) {
	for i := range c.replicas {
		c.kill(i)
	}
	for i := range c.replicas {
		c.start(i)
	}
}

func (c *chaos) terminate(i int) {
	c.replicas[i].signal(syscall.SIGTERM)
	if code := c.replicas[i].exit(await.Limit); code != 0 {
		c.t.Errorf("exit code = %d, want 0\n%s", code, c.replicas[i].log.tail(2000))
	}
	c.start(i)
}

// suspend suspends a process for up to two leases.
func (c *chaos) suspend(i int) {
	c.replicas[i].signal(syscall.SIGSTOP)
	c.pause(100*time.Millisecond, 4*time.Second)
	c.replicas[i].signal(syscall.SIGCONT)
}

func (c *chaos) receiverDown(int) {
	c.r.close()
	c.pause(50*time.Millisecond, 2*time.Second)
	c.r.open()
}

func (c *chaos) cutConnections(int) {
	conn, err := pgx.Connect(c.t.Context(), c.db.URL())
	if err != nil {
		c.t.Errorf("connect: %v", err)
		return
	}
	defer conn.Close(context.Background())
	const text = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`
	var n int
	if err := conn.QueryRow(c.t.Context(), text).Scan(&n); err != nil {
		c.t.Errorf("terminate connections: %v", err)
	}
}

func (c *chaos) restartDatabase(int) {
	if err := c.db.Stop(); err != nil {
		c.t.Fatal(err)
	}
	c.pause(50*time.Millisecond, 4*time.Second)
	if err := c.db.Start(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chaos) freezeDatabase(int) {
	if err := c.db.Pause(); err != nil {
		c.t.Fatal(err)
	}
	c.pause(200*time.Millisecond, 5*time.Second)
	if err := c.db.Resume(); err != nil {
		c.t.Fatal(err)
	}
}

// verify repeats every message, waits until all tasks have ended and all webhook events are
// delivered, and checks the stored data.
func (c *chaos) verify(within time.Duration) {
	c.t.Helper()
	ids := c.sends.repeatAll(c.any)
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	each(keys(ids), func(id string) {
		if err := follow(ctx, c.any.client, id); err != nil {
			c.t.Errorf("follow task %s: %v", id, err)
		}
	})
	audits := c.audit(ids)
	report := c.finish(ids, within)
	wantNoneDead(c.t, report)
	wantDrafts(c.t, report)
	c.wantReplies(report)
	c.wantTurns(report, audits)
	wantRecordedOnce(c.t, c.site.done())
	c.t.Logf("faults: %v; %d messages, %d acknowledged at first, %d tasks, %d replies", c.counts, len(c.sends.sent), c.sends.answered(), len(report.States), len(c.replies))
}

// audit returns what a turn of each shared context finds in it. It adds the tasks to ids.
func (c *chaos) audit(ids map[string]bool) (found [4]string) {
	c.t.Helper()
	for n, id := range c.shared {
		s := sentTask{message: client.Text("audit")}
		s.message.ID, s.message.ContextID = newID(), id
		if err := s.send(c.any); err != nil {
			c.t.Fatalf("audit: %v", err)
		}
		ids[s.id] = true
		found[n] = said(c.any.awaitEnd(s.id))
	}
	return found
}

// wantTurns asserts that the transcript of each shared context has each turn once, and that all turns have removed
// their entries of its state and its board.
func (c *chaos) wantTurns(report *check.Report, audits [4]string) {
	c.t.Helper()
	for n, id := range c.shared {
		var turns []string
		for task, events := range report.Logs {
			turn := 0
			for _, e := range events {
				if e.Received == nil {
					continue
				}
				if turn++; e.Received.ContextID == id && e.Received.Text() != "audit" {
					turns = append(turns, fmt.Sprintf("%s-%d", task, turn))
				}
			}
		}
		slices.Sort(turns)
		if want := "0 values, 0 tasks, turns " + strings.Join(turns, " "); audits[n] != want {
			c.t.Errorf("context %d of %d turns has %q, want %q", n, len(turns), audits[n], want)
		}
		c.t.Logf("context %d: %d turns", n, len(turns))
	}
}

// wantReplies asserts that the history of its task contains each reply once.
func (c *chaos) wantReplies(report *check.Report) {
	c.t.Helper()
	for _, m := range c.replies {
		n := 0
		for _, e := range report.Logs[m.TaskID] {
			if e.Received != nil && e.Received.ID == m.ID {
				n++
			}
		}
		if n != 1 {
			c.t.Errorf("task %s has reply %s %d times, want once", m.TaskID, m.ID, n)
		}
	}
}

// wantDrafts asserts that every completed task has the artifacts of a run without interruption,
// both as stored and as computed by a client from the events.
func wantDrafts(t *testing.T, report *check.Report) {
	t.Helper()
	for id, events := range report.Logs {
		if s := report.States[id]; s != a2a.StateCompleted && s != a2a.StateInputRequired {
			t.Errorf("task %s is %s, want completed or waiting for a reply", id, s)
		}
		want := ""
		for _, e := range events {
			if e.Received != nil {
				want += wantArtifacts(e.Received.Text())
			}
		}
		if got := applied(events); got != want {
			t.Errorf("artifacts of task %s = %q, want %q", id, got, want)
		}
		if got := folded(events); got != want {
			t.Errorf("artifacts of task %s as folded = %q, want %q", id, got, want)
		}
	}
}

// wantArtifacts returns the texts of the artifacts that a turn writes, one per line.
func wantArtifacts(text string) string {
	words := strings.Fields(text)
	if len(words) < 2 {
		return ""
	}
	n, _ := strconv.Atoi(words[1])
	var whole, parts strings.Builder
	for i := range n {
		switch words[0] {
		case "chunks":
			fmt.Fprintf(&whole, "%d ", i)
		case "draft":
			fmt.Fprintf(&whole, "out%d in%d ", i, i)
			fmt.Fprintf(&parts, "part %d\n", i)
		}
	}
	if whole.Len() == 0 {
		return ""
	}
	return whole.String() + "\n" + parts.String()
}

// applied applies events as an A2A 0.3 client does, without code of the store.
func applied(events []store.Event) string {
	var order []string
	texts := make(map[string]string)
	for _, e := range events {
		if e.Artifact == nil {
			continue
		}
		id := e.Artifact.ID
		if _, known := texts[id]; !known {
			order = append(order, id)
		}
		if !e.Append {
			texts[id] = ""
		}
		texts[id] += e.Artifact.Text()
	}
	var all strings.Builder
	for _, id := range order {
		if texts[id] != "" {
			all.WriteString(texts[id] + "\n")
		}
	}
	return all.String()
}

func folded(events []store.Event) string {
	var task store.Task
	task.Apply(events...)
	var all strings.Builder
	for _, a := range task.Artifacts {
		all.WriteString(a.Text() + "\n")
	}
	return all.String()
}
