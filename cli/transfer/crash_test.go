package transfer_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// An import that fails before or after any write is finished by the next import. Until then its
// unfinished task is not queued.
func TestInterruptedImportIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	source := memory(t)
	fillWith(t, source, true, 5)
	document := export(t, source, conversation)
	total := len(importWithFault(t, document, memory(t), 0, storetest.Pass))
	if total < 9 {
		t.Errorf("the import makes %d writes, want two of the context, two of tasks and five of feedback", total)
	}
	for n := 1; n <= total; n++ {
		for _, fault := range []storetest.Fault{storetest.FailBefore, storetest.FailAfter} {
			target := memory(t)
			writes := importWithFault(t, document, target, n, fault)
			importDocument(t, target, document, queueUnfinished)
			diff(t, fmt.Sprintf("export after write %d, %s, failed", n, writes[n-1]), document, export(t, target, conversation))
			if backlog, err := target.Backlog(t.Context()); err != nil || backlog.Queued != 1 || backlog.Leased != 0 {
				t.Fatalf("Backlog() = %+v, %v, want the one unfinished task", backlog, err)
			}
		}
	}
}

// importWithFault imports a document with a fault at the nth write and returns the methods of all
// writes.
func importWithFault(t *testing.T, document string, target store.Store, n int, fault storetest.Fault) (writes []string) {
	t.Helper()
	addParent(t, target)
	broken := storetest.Faulty(target, func(c storetest.Call) storetest.Fault {
		switch c.Method {
		case "Commit", "SaveContext", "AddFeedback":
			if writes = append(writes, c.Method); len(writes) == n {
				return fault
			}
		}
		return storetest.Pass
	})
	_, err := transfer.Import(t.Context(), strings.NewReader(document), broken, queueUnfinished)
	if n > 0 && a2a.CodeOf(err) != a2a.CodeUnavailable || n == 0 && err != nil {
		t.Fatalf("Import() with a fault at write %d = %v, want the store's error", n, err)
	}
	return writes
}

func TestUnfinishedTaskIsQueuedWithItsLastEvent(t *testing.T) {
	t.Parallel()
	source := memory(t)
	events := []store.Event{{Time: at(0), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m1", text("go"))}}
	for i := range 1500 {
		events = append(events, store.Event{Time: at(i), State: a2a.StateWorking, Message: message(a2a.RoleAgent, "p", text("x")), Progress: true})
	}
	create(t, source, "t1", store.QueueEntry{Phase: store.PhaseQueued, Turn: 1}, events...)
	document := export(t, source, conversation)
	for n := 1; ; n++ {
		target := memory(t)
		_, err := transfer.Import(t.Context(), strings.NewReader(document), storetest.Faulty(target, storetest.FailCall("Commit", n, storetest.FailAfter)), queueUnfinished)
		if err == nil {
			if n < 3 {
				t.Errorf("the import made %d commits, want several", n-1)
			}
			return
		}
		task, err := target.Task(t.Context(), taskKey("t1"), store.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if whole := task.Seq == 1501; whole != (task.Queue.Phase == store.PhaseQueued) {
			t.Errorf("after commit %d the task has %d events and is %s", n, task.Seq, task.Queue.Phase)
		}
	}
}

// TestMemoryDoesNotGrowWithTaskCount compares the peak heap of transfers of 300 and 3000 tasks.
func TestMemoryDoesNotGrowWithTaskCount(t *testing.T) {
	few, many := peak(t, 300), peak(t, 3000)
	t.Logf("peak of the heap: %d KB with 300 tasks, %d KB with 3000", few>>10, many>>10)
	if many > few+512<<10 {
		t.Errorf("peak of the heap is %d KB with 3000 tasks and %d KB with 300, want no growth", many>>10, few>>10)
	}
}

// peak returns the peak of the live heap, without the store, while the given number of tasks is
// exported to a file and imported from it.
func peak(t *testing.T, tasks int) uint64 {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "export")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := memory(t)
	for i := range tasks {
		id := "t" + strings.Repeat("0", i%3) + string(rune('a'+i%26)) + strings.Repeat("x", i/26%40) + strings.Repeat("y", i/1040)
		createDone(t, s, id, i*10)
	}
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	base, highest := live(), uint64(0)
	sample := func() {
		if now := live(); now > base {
			highest = max(highest, now-base)
		}
	}
	w := &heapSampler{w: file, every: 64 << 10, sample: sample}
	if _, err := transfer.Export(t.Context(), w, s, conversation); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	report, err := transfer.Import(t.Context(), &heapSampler{w: nil, r: file, every: 64 << 10, sample: sample}, s, transfer.ImportOptions{})
	if err != nil || len(report.Written) > 0 || report.Document["tasks"] != int64(tasks) {
		t.Fatalf("Import() = %+v, %v, want %d tasks and nothing written", report, err, tasks)
	}
	if w.samples == 0 {
		t.Fatal("the heap was never sampled")
	}
	return highest
}

// heapSampler calls sample after every number of bytes that are written or read through it.
type heapSampler struct {
	w       io.Writer
	r       io.ReadSeeker
	every   int
	bytes   int
	samples int
	sample  func()
}

func (s *heapSampler) count(n int) {
	if s.bytes += n; s.bytes >= s.every {
		s.bytes = 0
		s.samples++
		s.sample()
	}
}

func (s *heapSampler) Write(p []byte) (int, error) {
	s.count(len(p))
	return s.w.Write(p)
}

func (s *heapSampler) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.count(n)
	return n, err
}

func (s *heapSampler) Seek(offset int64, whence int) (int64, error) {
	if s.r == nil {
		return 0, errors.ErrUnsupported
	}
	return s.r.Seek(offset, whence)
}
