package blobtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
)

// KillConfig contains the parameters of KillLoop.
type KillConfig struct {
	// Open opens the store in a directory with its data, if any.
	Open func(dir string, cfg blob.Config) (Store, func() error, error)
	// Rounds is the number of processes to kill; 0 means 6.
	Rounds int
}

// Environment variables of the process to kill.
const (
	killDir   = "HOLDFAST_BLOBTEST_KILL_DIR"
	killRound = "HOLDFAST_BLOBTEST_KILL_ROUND"
)

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
	if dir := os.Getenv(killDir); dir != "" {
		changeUntilKilled(t, cfg, dir)
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
func changeUntilKilled(t *testing.T, cfg KillConfig, dir string) {
	s, _, err := cfg.Open(dir, blob.Config{Grace: time.Minute})
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	round, _ := strconv.ParseUint(os.Getenv(killRound), 10, 32)
	deadline := time.Now().Add(30 * time.Second) // if it is not killed
	concurrently(8, func(w int) {
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
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), killDir+"="+dir, fmt.Sprint(killRound, "=", round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	var timer *time.Timer
	var output strings.Builder
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		if err != nil { // an incomplete last line acknowledges nothing
			break
		}
		f := strings.Fields(line)
		if len(f) != 4 {
			output.WriteString(line)
			continue
		}
		switch seed, _ := strconv.ParseUint(f[3], 10, 64); f[0] {
		case "stored":
			acknowledged[f[2]] = killed{f[1], seed}
		case "deleting":
			delete(acknowledged, f[2])
		case "deleted":
			deleted[f[2]] = true
		}
		if timer == nil { // the process works
			timer = time.AfterFunc(time.Duration(20+rand.IntN(300))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	if timer == nil || cmd.ProcessState.Exited() {
		t.Fatalf("process of round %d exited before it was killed: %v\n%s", round, err, output.String())
	}
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
		if o, err = s.RemoveOrphans(t.Context(), later, o.Next, 100); err != nil {
			t.Fatalf("RemoveOrphans() = %v", err)
		}
	}
	if _, err := s.Sweep(t.Context(), later, 10_000); err != nil {
		t.Fatalf("Sweep() = %v", err)
	}
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
	if err := closeStore(); err != nil {
		t.Errorf("Close() after a kill = %v", err)
	}
	return removed
}

// checkOwner checks that every blob of an owner is complete and that the usage is their sum.
func checkOwner(t *testing.T, s Store, owner string, found map[string]bool) {
	t.Helper()
	var sum blob.Usage
	page, p := blob.Page{More: true}, blob.ListParams{Owner: owner, Limit: 500}
	for page.More {
		var err error
		if page, err = s.List(t.Context(), p); err != nil {
			t.Fatalf("List() = %v", err)
		}
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
	if usage, err := s.Usage(t.Context(), owner); err != nil || usage != sum {
		t.Errorf("Usage(%s) = %+v, %v, want %+v", owner, usage, err, sum)
	}
}
