//go:build services

package postgres

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// blobStore is the blobs of a store.
type blobStore struct {
	*blobdriver.Blobs
	s *Store
}

// blobHarness returns the harness for stores in schemas that create returns.
func blobHarness(create func(t storetest.T) Config) blobtest.Harness {
	return blobtest.Harness{
		Open: func(t storetest.T, cfg blob.Config) blobtest.Store {
			s := open(t, create(t))
			return blobStore{blobsql.Of(s, cfg), s}
		},
		Reopen: func(t storetest.T, s blobtest.Store, cfg blob.Config) blobtest.Store {
			old := s.(blobStore).s
			if err := old.Close(); err != nil {
				t.Fatalf("Close() = %v", err)
			}
			reopened := open(t, old.cfg)
			return blobStore{blobsql.Of(reopened, cfg), reopened}
		},
	}
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobHarness(func(t storetest.T) Config { return emptyConfig(t, Config{}) }))
}

// putBlob stores a blob of alice.
func putBlob(ctx context.Context, t *testing.T, blobs *blobdriver.Blobs, text string) blob.Info {
	t.Helper()
	info, err := blobs.Put(ctx, strings.NewReader(text), blob.PutParams{Owner: "alice", TTL: time.Hour})
	must(t, err)
	return info
}

// A replica that is suspended during a change, which reads before it writes, blocks no change of the owner. Its own
// change is planned again, on top of those.
func TestSuspendedChangeOfBlobsBlocksNoOther(t *testing.T) {
	t.Parallel()
	suspended := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	other := open(storetest.Wrap(t), suspended.cfg)
	blobs := blobsql.Of(other, blob.Config{})
	first := putBlob(bg, t, blobs, "first")
	planned, resume := make(chan struct{}), make(chan struct{})
	plans := 0
	done := make(chan error, 1)
	go func() {
		done <- blobsql.RefsOf(suspended).Update(bg, "alice", func(tx blobdriver.Tx) error {
			row, err := tx.Ref(first.Ref)
			if err != nil {
				return err
			}
			if plans++; plans == 1 {
				close(planned)
				<-resume
			}
			return tx.SetHolders(&row, append(row.Holders, "task"), time.Time{})
		})
	}()
	<-planned
	second := putBlob(bg, t, blobs, "second")
	must(t, blobs.Pin(bg, "alice", first.Ref, "another"))
	must(t, blobs.Delete(bg, "alice", second.Ref))
	close(resume)
	must(t, <-done)
	info, err := blobs.Stat(bg, "alice", first.Ref)
	must(t, err)
	usage, err := blobs.Usage(bg, "alice")
	must(t, err)
	if want := []string{"another", "task"}; plans != 2 || !slices.Equal(info.Holders, want) || usage != (blob.Usage{Blobs: 1, Bytes: 5}) {
		t.Errorf("after %d plans the holders are %q and the usage is %+v, want 2, %q and the first blob", plans, info.Holders, usage, want)
	}
}

// A replica that is suspended while it commits a task that pins blobs blocks no change of the owner. The effects
// of a commit are planned together, and again on top of those changes.
func TestSuspendedCommitThatPinsBlocksNoOther(t *testing.T) {
	t.Parallel()
	suspended := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	other := open(storetest.Wrap(t), suspended.cfg)
	blobs := blobsql.Of(other, blob.Config{})
	first, second := putBlob(bg, t, blobs, "first"), putBlob(bg, t, blobs, "second")
	planned, resume := make(chan struct{}), make(chan struct{})
	plans := 0
	refs := blobsql.RefsOf(suspended).(blobdriver.TransactionalRefs)
	pinSecond, err := blobsql.Of(suspended, blob.Config{}).PinEffect("alice", second.Ref, "task")
	must(t, err)
	change := submitted(1)
	change.Effects = []store.Effect{
		refs.Effect("alice", func(tx blobdriver.Tx) error {
			row, err := tx.Ref(first.Ref)
			if err != nil {
				return err
			}
			if plans++; plans == 1 {
				close(planned)
				<-resume
			}
			return tx.SetHolders(&row, append(row.Holders, "task"), time.Time{})
		}),
		pinSecond,
	}
	done := make(chan error, 1)
	go func() { done <- commitOne(suspended, change) }()
	<-planned
	third := putBlob(bg, t, blobs, "third")
	must(t, blobs.Pin(bg, "alice", first.Ref, "another"))
	must(t, blobs.Delete(bg, "alice", third.Ref))
	close(resume)
	must(t, <-done)
	for ref, want := range map[string][]string{first.Ref: {"another", "task"}, second.Ref: {"task"}} {
		if info, err := blobs.Stat(bg, "alice", ref); err != nil || !slices.Equal(info.Holders, want) {
			t.Errorf("after %d plans the holders are %q, %v, want %q", plans, info.Holders, err, want)
		}
	}
	usage, err := blobs.Usage(bg, "alice")
	must(t, err)
	if want := (blob.Usage{Blobs: 2, Bytes: 11}); plans != 2 || usage != want {
		t.Errorf("after %d plans the usage is %+v, want 2 and %+v", plans, usage, want)
	}
	wantEvents(t, suspended, 1, 2)
}

// Two changes of one call that pin blobs of an owner are applied together.
func TestChangesOfACallThatPinAreApplied(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	blobs := blobsql.Of(s, blob.Config{})
	info := putBlob(bg, t, blobs, "pinned")
	changes := []store.Change{submitted(1), submitted(2)}
	for i := range changes {
		pin, err := blobs.PinEffect("alice", info.Ref, fmt.Sprint("task ", i))
		must(t, err)
		changes[i].Effects = []store.Effect{pin}
	}
	results, err := s.Commit(bg, changes...)
	must(t, err)
	info, err = blobs.Stat(bg, "alice", info.Ref)
	must(t, err)
	if want := []string{"task 0", "task 1"}; results[0].Err != nil || results[1].Err != nil || !slices.Equal(info.Holders, want) {
		t.Errorf("Commit() = %+v with the holders %q, want %q", results, info.Holders, want)
	}
}

// pinChildVariable makes the test binary a replica that pins blobs: a URL, a schema and the ref of a blob.
const pinChildVariable = "HOLDFAST_TEST_PINS_BLOBS"

// writePins commits tasks until it is killed. Each moves the pin of the earlier task to itself. It prints the
// number of each acknowledged task.
func writePins(arg string) error {
	words := strings.Fields(arg)
	s, err := Open(bg, Config{URL: words[0], Schema: words[1], PoolMax: 4})
	if err != nil {
		return err
	}
	blobs := blobsql.Of(s, blob.Config{})
	for n := 1; ; n++ {
		change := submitted(n)
		pin, err := blobs.PinEffect("alice", words[2], taskID(n))
		if err != nil {
			return err
		}
		unpin, err := blobs.UnpinEffect("alice", words[2], taskID(n-1))
		if err != nil {
			return err
		}
		change.Effects = []store.Effect{pin, unpin}
		if err := commitOne(s, change); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// A replica that is suspended at any moment of commits that pin blobs blocks no blob of the owner. One that is
// killed there leaves the pin of its last task.
func TestStoppedProcessThatPinsBlocksNoOther(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	blobs := blobsql.Of(s, blob.Config{})
	ref := putBlob(bg, t, blobs, "pinned").Ref
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", pinChildVariable, s.cfg.URL, s.cfg.Schema, ref))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	acknowledged := 0
	next := func() {
		if lines.Scan() {
			acknowledged, err = strconv.Atoi(lines.Text())
			must(t, err)
		}
	}
	for round := range 20 {
		for range 3 {
			next()
		}
		time.Sleep(time.Duration(round) * time.Millisecond / 4) // at each step of a commit
		must(t, cmd.Process.Signal(syscall.SIGSTOP))
		ctx, cancel := context.WithTimeout(bg, 30*time.Second) // half of the time after which a lock's holder is ended
		must(t, blobs.Pin(ctx, "alice", ref, "other"))
		must(t, blobs.Delete(ctx, "alice", putBlob(ctx, t, blobs, fmt.Sprint("other ", round)).Ref))
		must(t, blobs.Unpin(ctx, "alice", ref, "other"))
		cancel()
		must(t, cmd.Process.Signal(syscall.SIGCONT))
	}
	must(t, cmd.Process.Kill())
	for before := 0; before != acknowledged; next() {
		before = acknowledged
	}
	_ = cmd.Wait()
	last := acknowledged
	await.True(t, "the pin of the last task", func() bool {
		for ; ; last++ {
			if _, err := s.Task(bg, taskKey(last+1), store.TaskOptions{}); err != nil {
				break
			}
		}
		info, err := blobs.Stat(bg, "alice", ref)
		must(t, err)
		return slices.Equal(info.Holders, []string{taskID(last)})
	})
	if last > acknowledged+1 {
		t.Errorf("the last task is %d, %d was acknowledged", last, acknowledged)
	}
}

// A change that others make obsolete again and again locks the owner in the end.
func TestObsoletePlansEnd(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	other := open(storetest.Wrap(t), s.cfg)
	blobs := blobsql.Of(other, blob.Config{})
	first, err := blobs.Put(bg, strings.NewReader("first"), blob.PutParams{Owner: "alice", TTL: time.Hour})
	must(t, err)
	plans := 0
	must(t, blobsql.RefsOf(s).Update(bg, "alice", func(tx blobdriver.Tx) error {
		row, err := tx.Ref(first.Ref)
		if err != nil {
			return err
		}
		if plans++; plans <= 10 {
			must(t, blobs.Pin(bg, "alice", first.Ref, fmt.Sprint("other ", plans)))
		}
		return tx.SetHolders(&row, append(row.Holders, "task"), time.Time{})
	}))
	info, err := blobs.Stat(bg, "alice", first.Ref)
	must(t, err)
	if plans != 11 || len(info.Holders) != 11 {
		t.Errorf("after %d plans the holders are %q, want 11 and all", plans, info.Holders)
	}
}

func TestBlobsBehindAPooler(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobHarness(func(t storetest.T) Config { return partitioned(t, Config{Pooler: true}) }))
}

// Sessions keep the plans that were made while the tables were empty.
func TestBlobStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	conn, err := s.pool.Acquire(bg)
	must(t, err)
	defer conn.Release()
	for i, text := range blobsql.Statements() {
		plan := explain(t, conn.Conn(), "p"+strconv.Itoa(i), s.qualify(text))
		if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") || !strings.Contains(plan, "Index") {
			t.Errorf("%s has the plan\n%s", text, plan)
		}
	}
}

func TestBlobStreamsNeedConstantMemory(t *testing.T) { // not in parallel
	blobtest.Stream(t, blobHarness(func(t storetest.T) Config { return freshConfig(t, Config{}) }))
}
