package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// ackedLanes is the number of lanes that childAcks uses.
const ackedLanes = 16

// childAcks appends events to tasks with webhooks and acknowledges their delivery until
// it is killed. It prints the acknowledged cursor of each lane.
func childAcks(dir string) error {
	s, err := Open(bg, Config{Dir: dir})
	if err != nil {
		return err
	}
	if err := errors.Join(createWebhookTasks(s)); err != nil {
		return err
	}
	var wg sync.WaitGroup
	var out sync.Mutex
	errs := make(chan error, 4)
	for g := range 4 {
		wg.Go(func() { errs <- appendEvents(s, g) })
	}
	for at := testTime.Add(time.Hour); ; at = at.Add(time.Second) {
		lanes, err := claimLanes(s, at, 8, 3)
		if err != nil {
			return err
		}
		acks := make([]store.LaneAck, len(lanes))
		for i := range lanes {
			acks[i] = ackFor(&lanes[i], at)
		}
		if lost, err := s.AckLanes(bg, acks...); err != nil || len(lost) > 0 {
			return fmt.Errorf("AckLanes() = %v, %w", lost, err)
		}
		out.Lock()
		for i := range acks {
			fmt.Println(acks[i].Lease.Task.ID, acks[i].Cursor.Seq)
		}
		out.Unlock()
		select {
		case err := <-errs:
			return err
		default:
		}
	}
}

func createWebhookTasks(s *Store) error {
	for n := range ackedLanes {
		if err := commitOne(s, withWebhook(taskKey(n), "https://hooks.example:443", 1)); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return nil
}

// appendEvents appends events to every fourth task until an error occurs.
func appendEvents(s *Store, from int) error {
	for {
		for n := from; n < ackedLanes; n += 4 {
			t, err := s.Task(bg, taskKey(n), store.TaskOptions{OmitArtifacts: true, History: new(int)})
			if err != nil {
				return err
			}
			c := store.Change{Key: t.Key, Version: t.Seq, Events: []store.Event{testEvent(int(t.Seq) + 1), testEvent(int(t.Seq) + 2)}}
			if err := commitOne(s, c); err != nil {
				return err
			}
		}
	}
}

func TestLanesSurviveKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	acknowledged := make(map[string]int64)
	for round := range rounds {
		killWhileAcknowledging(t, dir, round, acknowledged)
		s := open(t, Config{Dir: dir})
		for n := range ackedLanes {
			checkLane(t, s, taskKey(n), acknowledged[taskID(n)])
		}
		must(t, checkIntegrity(s))
		must(t, s.Close())
	}
	if len(acknowledged) == 0 {
		t.Error("no delivery was acknowledged before a kill")
	}
}

func killWhileAcknowledging(t *testing.T, dir string, round int, acknowledged map[string]int64) {
	t.Helper()
	cmd := child(t.Context(), "ack", dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var kill *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var id string
		var seq int64
		if n, _ := fmt.Sscanf(lines.Text()+"\n", "%s %d\n", &id, &seq); n != 2 || len(id) != len(taskID(0)) {
			continue // truncated by the kill
		}
		acknowledged[id] = max(acknowledged[id], seq)
		if kill == nil {
			kill = time.AfterFunc(time.Duration(150+61*round)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); err == nil || kill == nil {
		t.Fatalf("acknowledging process was not killed: %v", err)
	}
}

// checkLane compares a lane with its attempts, its dead letters and its task.
func checkLane(t *testing.T, s *Store, k store.Key, acknowledged int64) {
	t.Helper()
	page, err := s.Lanes(bg, store.LaneQuery{Owner: k.Owner, TaskID: k.ID, ID: "p", Limit: 1})
	must(t, err)
	if len(page.Lanes) != 1 {
		t.Fatalf("Lanes() of task %s = %+v, want one", k.ID, page.Lanes)
	}
	l := &page.Lanes[0]
	task, err := s.Task(bg, k, store.TaskOptions{})
	must(t, err)
	if l.Tail != task.Seq || l.Cursor.Seq < acknowledged || l.Cursor.Seq > l.Tail {
		t.Errorf("lane of %s = cursor %d, tail %d, want cursor >= %d and tail %d", k.ID, l.Cursor.Seq, l.Tail, acknowledged, task.Seq)
	}
	q := store.WebhookQuery{Owner: k.Owner, TaskID: k.ID, ID: "p", Limit: 1 << 20}
	attempts, err := s.DeliveryAttempts(bg, q)
	must(t, err)
	letters, err := s.DeadLetters(bg, q)
	must(t, err)
	attempted, dead := make(map[int64]int), make(map[int64]int)
	for _, a := range attempts.Attempts {
		attempted[a.Seq]++
	}
	for _, d := range letters.Letters {
		dead[d.Seq]++
	}
	for seq := int64(1); seq <= l.Tail; seq++ {
		want := int(number(seq <= l.Cursor.Seq))
		if attempted[seq] != want || dead[seq] != want*int(number(isDead(seq))) {
			t.Fatalf("event %d of %s has %d attempts and %d dead letters, acknowledged: %t", seq, k.ID, attempted[seq], dead[seq], want == 1)
		}
	}
	if want := l.Cursor.Seq - int64(len(letters.Letters)); l.Delivered != want {
		t.Errorf("lane of %s Delivered = %d, want %d", k.ID, l.Delivered, want)
	}
}

func TestFullDatabaseRejectsWholeAcknowledgements(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir(), MaxPages: 150})
	const events = 1_000
	must(t, s.write(bg, &request{weight: 1, apply: func(*writer) error { return nil }}))
	setMaxPages(s, 100_000)
	k := taskKey(0)
	must(t, commitOne(s, withWebhook(k, "https://hooks.example:443", events)))
	setMaxPages(s, ints(t, s, "PRAGMA page_count")[0]+8)
	now, acked := testTime.Add(time.Hour), int64(0)
	for {
		lanes, err := claimLanes(s, now, 1, 5)
		if err == nil {
			if len(lanes) == 0 {
				t.Fatal("all events are acknowledged and the store is not full")
			}
			_, err = s.AckLanes(bg, ackFor(&lanes[0], now))
			acked += 5 * number(err == nil)
		}
		if a2a.CodeOf(err) == a2a.CodeExhausted {
			break
		}
		must(t, err)
	}
	checkLane(t, s, k, acked)
	setMaxPages(s, 100_000)
	now = now.Add(time.Hour)
	lanes, err := claimLanes(s, now, 1, 5)
	must(t, err)
	if len(lanes) != 1 || lanes[0].Cursor.Seq != acked {
		t.Fatalf("ClaimLanes() = %+v, want the lane with cursor %d", lanes, acked)
	}
	_, err = s.AckLanes(bg, ackFor(&lanes[0], now))
	must(t, err)
	checkLane(t, s, k, acked+5)
	must(t, checkIntegrity(s))
}
