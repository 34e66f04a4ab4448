//go:build services

package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Reads that wait for a connection are combined.
func TestConcurrentReadsShareStatements(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	const n = 40
	for i := range n {
		c := submitted(i)
		if i == 7 { // too large for a batch
			c.Events[0].Received = message("m1", "user", strings.Repeat("x", 2*maxBatchedTaskBytes))
		}
		must(t, commitOne(s, c))
		if i%2 == 0 {
			must(t, commitOne(s, completed(c)))
		}
	}
	for range cap(s.callSlots) {
		must(t, s.callSlots.acquire(bg, time.Minute))
	}
	type answer struct {
		i    int
		task *store.Task
		err  error
	}
	answers := make(chan answer)
	// The first reads start batches that wait for a connection, the others wait for these batches.
	for i := range n + 2 { // two tasks do not exist
		go func() {
			task, err := s.Task(bg, taskKey(i), store.TaskOptions{OmitArtifacts: i%4 == 0})
			answers <- answer{i, task, err}
		}()
		groups, waiting := min(i+1, maxReadBatches), max(0, i+1-maxReadBatches)
		await.True(t, "the read starts or waits", func() bool {
			s.taskBatches.mu.Lock()
			defer s.taskBatches.mu.Unlock()
			return s.taskBatches.running == groups && len(s.taskBatches.waiting) == waiting
		})
	}
	for range cap(s.callSlots) {
		s.callSlots.release()
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
		must(t, s.readSingle(bg, taskKey(a.i), want))
		want.row.CopyTo(want.task)
		want.task.Cut(store.TaskOptions{OmitArtifacts: want.omitArtifacts})
		if a.err != nil || !reflect.DeepEqual(a.task, want.task) {
			t.Errorf("Task() of task %d = %.400s, %v, want the result of readSingle: %.400s", a.i, fmt.Sprint(a.task), a.err, fmt.Sprint(want.task))
		}
	}
	s.taskBatches.mu.Lock()
	defer s.taskBatches.mu.Unlock()
	if s.taskBatches.running != 0 || len(s.taskBatches.waiting) != 0 {
		t.Errorf("%d batches and %d reads remain", s.taskBatches.running, len(s.taskBatches.waiting))
	}
}

func TestAbandonedReadsDelayNoOther(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, submitted(1)))
	for range cap(s.callSlots) {
		must(t, s.callSlots.acquire(bg, time.Minute))
	}
	ctx, cancel := context.WithCancel(t.Context())
	abandoned := make(chan error)
	go func() {
		_, err := s.Task(ctx, taskKey(1), store.TaskOptions{})
		abandoned <- err
	}()
	cancel()
	if err := <-abandoned; err == nil || !strings.Contains(fmt.Sprint(err), "canceled") {
		t.Errorf("Task() of a canceled caller = %v, want the error of its context", err)
	}
	for range cap(s.callSlots) {
		s.callSlots.release()
	}
	if _, err := s.Task(bg, taskKey(1), store.TaskOptions{}); err != nil {
		t.Errorf("Task() after it = %v", err)
	}
}
