package sqlite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
)

// historyBatch identifies the messages of an append: each has it as its body.
type historyBatch struct {
	Session string
	Turn    string // the process and the number of the append
	Size    int
}

func (b historyBatch) append(h history.Provider) (history.AppendResult, error) {
	body, err := json.Marshal(b)
	if err != nil {
		return history.AppendResult{}, err
	}
	p := history.AppendParams{Run: "run", IdempotencyKey: b.Turn, Messages: make([]history.Message, b.Size)}
	for i := range p.Messages {
		p.Messages[i].Body = body
	}
	return h.Append(bg, b.key(), p)
}

func (b historyBatch) key() history.Key {
	return history.Key{Owner: "owner", Agent: "agent", Session: b.Session}
}

// acknowledgedBatch is a line of output of childAppends.
type acknowledgedBatch struct {
	Batch       historyBatch
	First, Last int64
}

// childAppends appends to three sessions on 16 goroutines until it is killed. It prints each
// append that was acknowledged.
func childAppends(dir string) error {
	s, err := Open(bg, Config{Dir: dir})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for g := range 16 {
		wg.Go(func() {
			for n := 0; ; n++ {
				b := historyBatch{Session: fmt.Sprint("s", g%3), Turn: fmt.Sprint(os.Getpid(), " ", g, " ", n), Size: 1 + (g*7+n)%80}
				r, err := b.append(historysql.Of(s))
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				mu.Lock()
				_ = json.NewEncoder(os.Stdout).Encode(acknowledgedBatch{b, r.First, r.Last})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return nil
}

func TestAcknowledgedHistorySurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kills := 5
	if testing.Short() {
		kills = 2
	}
	var acknowledged []acknowledgedBatch
	for n := range kills {
		acknowledged = append(acknowledged, killWhileAppending(t, dir, time.Duration(80+41*n)*time.Millisecond)...)
		s := open(t, Config{Dir: dir})
		checkHistory(t, historysql.Of(s), acknowledged)
		must(t, checkIntegrity(s))
		must(t, s.Close())
	}
	t.Logf("%d acknowledged appends, %d kills", len(acknowledged), kills)
}

func killWhileAppending(t *testing.T, dir string, after time.Duration) (acknowledged []acknowledgedBatch) {
	t.Helper()
	cmd := child(t.Context(), "history", dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var kill *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a acknowledgedBatch
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // truncated by the kill
		}
		acknowledged = append(acknowledged, a)
		if kill == nil {
			kill = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); err == nil || kill == nil {
		t.Fatalf("appending process was not killed: %v", err)
	}
	return acknowledged
}

// checkHistory checks that sequences have no gaps, that each append is whole, and that those
// which were acknowledged have their sequences and are recognized when they are repeated.
func checkHistory(t *testing.T, h history.Provider, acknowledged []acknowledgedBatch) {
	t.Helper()
	found := make(map[historyBatch]acknowledgedBatch)
	for n := range 3 {
		k := historyBatch{Session: fmt.Sprint("s", n)}.key()
		next := int64(1)
		for m, err := range history.All(bg, h, k, 0) {
			must(t, err)
			if m.Seq != next {
				t.Fatalf("session %s: sequence %d follows %d", k.Session, m.Seq, next-1)
			}
			next++
			var b historyBatch
			must(t, json.Unmarshal(m.Body, &b))
			a, ok := found[b]
			if !ok {
				a = acknowledgedBatch{b, m.Seq, m.Seq - 1}
			}
			if a.Last++; a.Last != m.Seq {
				t.Fatalf("append %v is not contiguous at sequence %d", b, m.Seq)
			}
			found[b] = a
		}
		if count, err := h.Count(bg, k); err != nil || count != next-1 {
			t.Errorf("Count(%s) = %d, %v, want %d", k.Session, count, err, next-1)
		}
	}
	for b, a := range found {
		if int(a.Last-a.First)+1 != b.Size {
			t.Errorf("append %v has messages %d to %d, want %d", b, a.First, a.Last, b.Size)
		}
	}
	for i, a := range acknowledged {
		if found[a.Batch] != a {
			t.Errorf("acknowledged append %+v was found as %+v", a, found[a.Batch])
		}
		if i%50 == 0 {
			if r, err := a.Batch.append(h); err != nil || r != (history.AppendResult{First: a.First, Last: a.Last, Repeated: true}) {
				t.Errorf("repeated append %+v = %+v, %v", a, r, err)
			}
		}
	}
}
