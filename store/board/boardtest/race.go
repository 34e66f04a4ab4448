package boardtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/suite"
)

const callers = 64

// concurrently calls do for each caller, with one of the instances.
func (f *fixture) concurrently(do func(s board.Store, caller int)) {
	all := f.instances()
	suite.Concurrently(callers, func(i int) { do(all[i%len(all)], i) })
}

func openRace(f *fixture) {
	var ids sync.Map
	f.concurrently(func(s board.Store, i int) {
		b, err := s.OpenRoot(f.ctx, board.CreateParams{Owner: "alice", Conversation: "c1", Label: fmt.Sprint(i), Titles: []string{"t"}})
		if err != nil || len(b.Tasks) != 1 {
			f.Errorf("OpenRoot() = %+v, %v", b, err)
		}
		ids.Store(b.ID+b.Label, true)
	})
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if boards, err := f.s.List(f.ctx, "alice", "c1"); err != nil || len(boards) != 1 || n != 1 {
		f.Errorf("%d boards, %v, and callers got %d different ones, want 1", len(boards), err, n)
	}
}

func addRace(f *fixture) {
	b := f.create("c1")
	f.concurrently(func(s board.Store, i int) {
		for n := range 2 {
			title := fmt.Sprint(i, "/", n)
			if added, err := s.AddTasks(f.ctx, b.Key(), title); err != nil || len(added) != 1 || added[0].Title != title {
				f.Errorf("AddTasks() = %+v, %v", added, err)
			}
		}
	})
	ids, titles := make(map[string]bool), make(map[string]bool)
	got := f.get(b.Key())
	for _, t := range got.Tasks {
		ids[t.ID], titles[t.Title] = true, true
	}
	if len(ids) != 2*callers || len(titles) != 2*callers || got.Version != 1+2*callers {
		f.Errorf("board has %d tasks, %d titles at version %d, want %d", len(ids), len(titles), got.Version, 2*callers)
	}
}

func retryRace(f *fixture) {
	const maxRetries = 5
	b := suite.Call(f.s.Create(f.ctx, board.CreateParams{Owner: "alice", Conversation: "c1", MaxRetries: maxRetries, Titles: []string{"t"}})).Must(f, "Create()")
	id := b.Tasks[0].ID
	var counted atomic.Int64
	f.concurrently(func(s board.Store, _ int) {
		for range 100 * maxRetries {
			for _, to := range []board.Status{board.InProgress, board.Failed} {
				if _, err := s.SetStatus(f.ctx, b.Key(), id, to, ""); err != nil && !errors.Is(err, board.ErrMove) {
					f.Errorf("SetStatus() = %v", err)
					return
				}
			}
			_, err := s.IncrementRetry(f.ctx, b.Key(), id)
			switch {
			case err == nil:
				counted.Add(1)
			case errors.Is(err, board.ErrRetriesExhausted):
				return
			case !errors.Is(err, board.ErrMove):
				f.Errorf("IncrementRetry() = %v", err)
				return
			}
		}
		f.Errorf("IncrementRetry() never returned ErrRetriesExhausted")
	})
	if got := f.get(b.Key()).Tasks[0]; counted.Load() != maxRetries || got.RetryCount != maxRetries {
		f.Errorf("%d retries were granted and %d counted, want %d", counted.Load(), got.RetryCount, maxRetries)
	}
}

func changeRace(f *fixture) {
	titles := make([]string, callers)
	for i := range titles {
		titles[i] = fmt.Sprint("t", i)
	}
	b := f.create("c1", titles...)
	f.concurrently(func(s board.Store, i int) {
		id := b.Tasks[i].ID
		_, status := s.SetStatus(f.ctx, b.Key(), id, board.InProgress, fmt.Sprint("n", i))
		_, rename := s.Rename(f.ctx, b.Key(), id, fmt.Sprint("r", i))
		suite.Do(errors.Join(status, rename)).Check(f, "changes of task %s", id)
	})
	for i, t := range f.get(b.Key()).Tasks {
		if t.Status != board.InProgress || t.Title != fmt.Sprint("r", i) || t.Note != fmt.Sprint("n", i) {
			f.Errorf("task %d = %+v", i, t)
		}
	}
}

func paging(f *fixture) {
	var first []string
	for range 20 {
		first = append(first, f.create("c1").ID)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 20 {
			f.create("c1")
		}
	})
	for range 20 {
		boards := suite.Call(f.s.List(f.ctx, "alice", "c1")).Check(f, "List()")
		seen := make(map[string]bool)
		for _, b := range boards {
			if seen[b.ID] {
				f.Errorf("List() has board %s twice", b.ID)
			}
			seen[b.ID] = true
		}
		for _, id := range first {
			if !seen[id] {
				f.Errorf("List() lacks board %s", id)
			}
		}
	}
	wg.Wait()
}

// randomCalls compares random calls on one board with a slice of tasks.
func randomCalls(f *fixture) {
	seed := testseed.Of(f)
	r := rand.New(rand.NewPCG(seed, 1))
	b := f.create("c1")
	all := f.instances()
	var model []board.Task
	for n := range 300 {
		s := all[r.IntN(len(all))]
		i := r.IntN(len(model) + 1)
		var t *board.Task
		id := "none"
		if i < len(model) {
			t = &model[i]
			id = t.ID
		}
		var err error
		ok := t != nil
		switch call := r.IntN(8); call {
		case 0, 1:
			var added []board.Task
			ok = true
			if added, err = s.AddTasks(f.ctx, b.Key(), fmt.Sprint("t", n)); err == nil {
				model = append(model, board.Task{ID: added[0].ID, Title: fmt.Sprint("t", n), Status: board.Planned})
			}
		case 2, 3, 4:
			to := statuses[r.IntN(len(statuses))]
			_, err = s.SetStatus(f.ctx, b.Key(), id, to, "")
			if ok = ok && board.CheckMove(t.Status, to) == nil; ok {
				t.Status = to
			}
		case 5:
			_, err = s.IncrementRetry(f.ctx, b.Key(), id)
			if ok = ok && t.Status == board.Failed && t.RetryCount < b.MaxRetries; ok {
				t.Status, t.RetryCount = board.Planned, t.RetryCount+1
			}
		case 6:
			if _, err = s.ForceRetry(f.ctx, b.Key(), id); ok {
				t.RetryCount = 0
				if t.Status == board.Failed || t.Status.Terminal() {
					t.Status = board.Planned
				}
			}
		default:
			if err = s.DeleteTask(f.ctx, b.Key(), id); ok {
				model = slices.Delete(model, i, i+1)
			}
		}
		if ok != (err == nil) {
			f.Fatalf("seed %d, call %d = %v, want success: %t", seed, n, err, ok)
		}
		for i := range model {
			model[i].Order = i
		}
		if got := f.get(b.Key()).Tasks; !slices.Equal(got, model) {
			f.Fatalf("seed %d, call %d: board = %+v, want %+v", seed, n, got, model)
		}
	}
}

func createRace(f *fixture) {
	var created atomic.Int64
	f.concurrently(func(s board.Store, i int) {
		for range 2 { // together more than MaxBoards
			switch _, err := s.Create(f.ctx, board.CreateParams{Owner: "alice", Conversation: "c1", Label: fmt.Sprint(i)}); {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, board.ErrTooLarge):
				f.Errorf("Create() = %v", err)
			}
		}
	})
	boards, err := f.s.List(f.ctx, "alice", "c1")
	if n := int64(len(boards)); err != nil || n != created.Load() || n == 0 || n > board.MaxBoards {
		f.Errorf("List() = %d boards, %v, want the %d that were created, at most %d", n, err, created.Load(), board.MaxBoards)
	}
}
