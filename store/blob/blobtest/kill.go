package blobtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// KillConfig contains the parameters of KillLoop.
type KillConfig struct {
	// Open opens the store in a directory with its data, if any.
	Open func(dir string, cfg blob.Config) (Store, func() error, error)
	// Rounds is the number of processes to kill; 0 means 6.
	Rounds int
}

// killOwner is the owner with a number.
func killOwner(n int) string { return fmt.Sprint("owner-", n%3) }

// killSize returns the size of the blob with a seed.
func killSize(seed uint64) int64 { return []int64{100, 200 * kib, 20 * kib, 2 * mib}[seed%4] }

// KillLoop starts processes that store, delete and sweep blobs, kills them with SIGKILL at
// random times, and checks the store after each kill. Every acknowledged blob must have its
// content, and every blob in the store must be complete. The calling test must do nothing else:
// KillLoop runs the test binary again, for this test only, as the process to kill.
func KillLoop(t *testing.T, cfg KillConfig) {
	t.Helper()
	if cfg.Rounds == 0 {
		cfg.Rounds = 6
	}
	if dir, round, ok := suite.Killed(); ok {
		changeUntilKilled(t, cfg, dir, uint64(round))
		return
	}
	dir := t.TempDir()
	acknowledged, deleted := make(map[string]killed), make(map[string]bool)
	removed := 0
	for round := range cfg.Rounds {
		runAndKill(t, dir, round, acknowledged, deleted)
		removed += checkKilled(t, cfg, dir, acknowledged, deleted)
	}
	t.Logf("%d blobs and %d deletions were acknowledged, %d orphans removed, %d kills", len(acknowledged), len(deleted), removed, cfg.Rounds)
}

// killed is a blob that was acknowledged before a kill.
type killed struct {
	owner string
	seed  uint64
}

// changeUntilKilled runs in the process to kill.
func changeUntilKilled(t *testing.T, cfg KillConfig, dir string, round uint64) {
	s, _, err := cfg.Open(dir, blob.Config{Grace: time.Minute})
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	deadline := time.Now().Add(30 * time.Second) // if it is not killed
	suite.Concurrently(8, func(w int) {
		for n := uint64(0); time.Now().Before(deadline); n++ {
			if w == 7 { // ahead of the clock, so that contents are removed at once
				if _, err := s.Sweep(t.Context(), time.Now().Add(2*time.Minute), 100); err != nil {
					t.Errorf("Sweep() = %v", err)
					return
				}
				time.Sleep(time.Millisecond)
				continue
			}
			if err := putAndReport(t.Context(), s, killOwner(w), (round<<40|n)<<3|uint64(w)); err != nil {
				t.Errorf("blob %d: %v", n, err)
				return
			}
		}
	})
}

// putAndReport stores a blob, sometimes content that others store and delete too, and prints
// its ref. It deletes every third one.
func putAndReport(ctx context.Context, s Store, owner string, seed uint64) error {
	if seed>>3%4 == 3 {
		seed %= 4
	}
	info, err := s.Put(ctx, Source(seed, killSize(seed)), blob.PutParams{Owner: owner})
	if err != nil {
		return err
	}
	fmt.Println("stored", owner, info.Ref, seed)
	if seed>>3%3 != 0 {
		return nil
	}
	fmt.Println("deleting", owner, info.Ref, seed)
	if err := s.Delete(ctx, owner, info.Ref); err != nil {
		return err
	}
	fmt.Println("deleted", owner, info.Ref, seed)
	return nil
}

// runAndKill runs a process, kills it, and records what it acknowledged.
func runAndKill(t *testing.T, dir string, round int, acknowledged map[string]killed, deleted map[string]bool) {
	t.Helper()
	suite.Kill(t, dir, round, time.Duration(20+rand.IntN(300))*time.Millisecond, func(f []string) bool {
		if len(f) != 4 {
			return false
		}
		switch seed, _ := strconv.ParseUint(f[3], 10, 64); f[0] {
		case "stored":
			acknowledged[f[2]] = killed{f[1], seed}
		case "deleting":
			delete(acknowledged, f[2])
		case "deleted":
			deleted[f[2]] = true
		}
		return true
	})
}

// checkKilled opens the store and checks its content. It returns the number of orphans that it
// removed.
func checkKilled(t *testing.T, cfg KillConfig, dir string, acknowledged map[string]killed, deleted map[string]bool) (removed int) {
	t.Helper()
	s, closeStore, err := cfg.Open(dir, blob.Config{Grace: time.Minute})
	if err != nil {
		t.Fatalf("Open() after a kill = %v", err)
	}
	later := time.Now().Add(3 * time.Minute)
	for o := (blob.Orphans{More: true}); o.More; removed += o.Removed {
		o = suite.Call(s.RemoveOrphans(t.Context(), later, o.Next, 100)).Must(t, "RemoveOrphans()")
	}
	suite.Call(s.Sweep(t.Context(), later, 10_000)).Must(t, "Sweep()")
	found := make(map[string]bool)
	for n := range 3 {
		checkOwner(t, s, killOwner(n), found)
	}
	for ref, k := range acknowledged {
		info, err := s.Stat(t.Context(), k.owner, ref)
		if err != nil || info.Size != killSize(k.seed) {
			t.Errorf("Stat(%s) = %+v, %v, want the acknowledged blob", ref, info, err)
			continue
		}
		want := make([]byte, info.Size)
		_, _ = io.ReadFull(Source(k.seed, info.Size), want)
		if info.Digest != blob.Sum(want) {
			t.Errorf("digest of %s is not the digest of the acknowledged content", ref)
		}
	}
	for ref := range deleted {
		if found[ref] {
			t.Errorf("List() returns %s after its deletion was acknowledged", ref)
		}
	}
	suite.Do(closeStore()).Check(t, "Close() after a kill")
	return removed
}

// checkOwner checks that every blob of an owner is complete and that the usage is their sum.
func checkOwner(t *testing.T, s Store, owner string, found map[string]bool) {
	t.Helper()
	var sum blob.Usage
	page, p := blob.Page{More: true}, blob.ListParams{Owner: owner, Limit: 500}
	for page.More {
		page = suite.Call(s.List(t.Context(), p)).Must(t, "List()")
		for _, b := range page.Blobs {
			p.After, found[b.Ref] = b.Ref, true
			sum.Blobs, sum.Bytes = sum.Blobs+1, sum.Bytes+b.Size
			r, _, err := s.Open(t.Context(), owner, b.Ref)
			if err != nil {
				t.Errorf("Open(%s) = %v", b.Ref, err)
				continue
			}
			var data bytes.Buffer
			if _, err := data.ReadFrom(r); err != nil || blob.Sum(data.Bytes()) != b.Digest {
				t.Errorf("blob %s is damaged (%v)", b.Ref, err)
			}
			r.Close()
		}
	}
	suite.Call(s.Usage(t.Context(), owner)).Want(t, sum, "Usage(%s)", owner)
}
