package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Tasks that are asked for while all connections for calls are in use are read together.
func TestConcurrentReadsShareStatements(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{}))
	const n = 40
	for i := range n {
		c := submitted(i)
		if i == 7 { // larger than what is held for those that wait
			c.Events[0].Received = message("m1", "user", strings.Repeat("x", 2*togetherBytes))
		}
		must(t, commitOne(s, c))
		if i%2 == 0 {
			must(t, commitOne(s, completed(c)))
		}
	}
	for range cap(s.calls) {
		must(t, s.calls.take(bg, time.Minute))
	}
	type answer struct {
		i    int
		task *store.Task
		err  error
	}
	answers := make(chan answer)
	// The first of each group wait for a connection, the others for these groups.
	for i := range n + 2 { // two of which do not exist
		go func() {
			task, err := s.Task(bg, taskKey(i), store.TaskOptions{OmitArtifacts: i%4 == 0})
			answers <- answer{i, task, err}
		}()
		groups, waiting := min(i+1, togetherGroups), max(0, i+1-togetherGroups)
		await(t, "the read starts or waits", func() bool {
			s.reads.mu.Lock()
			defer s.reads.mu.Unlock()
			return s.reads.groups == groups && len(s.reads.waiting) == waiting
		})
	}
	for range cap(s.calls) {
		s.calls.give()
	}
	for range n + 2 {
		a := <-answers
		if a.i >= n {
			if !errors.Is(a.err, store.ErrNotFound) {
				t.Errorf("Task() of task %d, which does not exist, = %v", a.i, a.err)
			}
			continue
		}
		want := &taskFold{omitArtifacts: a.i%4 == 0}
		must(t, s.readAlone(bg, taskKey(a.i), want))
		want.row.settle(want.task)
		want.task.Cut(store.TaskOptions{OmitArtifacts: want.omitArtifacts})
		if a.err != nil || !reflect.DeepEqual(a.task, want.task) {
			t.Errorf("Task() of task %d = %.400s, %v, want as it is read alone: %.400s", a.i, fmt.Sprint(a.task), a.err, fmt.Sprint(want.task))
		}
	}
	s.reads.mu.Lock()
	defer s.reads.mu.Unlock()
	if s.reads.groups != 0 || len(s.reads.waiting) != 0 {
		t.Errorf("%d groups and %d reads are left", s.reads.groups, len(s.reads.waiting))
	}
}

func TestReadsThatAreAbandonedDelayNoOther(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, submitted(1)))
	for range cap(s.calls) {
		must(t, s.calls.take(bg, time.Minute))
	}
	ctx, cancel := context.WithCancel(t.Context())
	abandoned := make(chan error)
	go func() {
		_, err := s.Task(ctx, taskKey(1), store.TaskOptions{})
		abandoned <- err
	}()
	cancel()
	if err := <-abandoned; err == nil || !strings.Contains(fmt.Sprint(err), "canceled") {
		t.Errorf("Task() of a caller that left = %v, want its context's error", err)
	}
	for range cap(s.calls) {
		s.calls.give()
	}
	if _, err := s.Task(bg, taskKey(1), store.TaskOptions{}); err != nil {
		t.Errorf("Task() after it = %v", err)
	}
}
