package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
)

// letters is an embedder that counts letters.
type letters struct{}

func (letters) Name() string { return "letters" }

func (letters) Embed(_ context.Context, texts []string) ([][]float32, error) {
	all := make([][]float32, len(texts))
	for i, text := range texts {
		all[i] = make([]float32, 16)
		for _, r := range text {
			all[i][r%16]++
		}
	}
	return all, nil
}

var killedScope = memory.Scope{Owner: "owner", Agent: "agent"}

// childSavesFacts saves and replaces facts on 8 goroutines until it is killed. It prints each fact that
// was acknowledged.
func childSavesFacts(dir string) error {
	s, err := Open(bg, Config{Dir: dir})
	if err != nil {
		return err
	}
	facts := memorysql.Of(s, memory.LongTermConfig{Embedder: letters{}})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				p := memory.SaveParams{Entities: []string{fmt.Sprint("entity ", os.Getpid(), " ", g, " ", n)}}
				if n%3 == 0 {
					p.Key = fmt.Sprint("key ", g)
				}
				id, err := facts.Save(bg, killedScope, fmt.Sprintf("fact %d of %d", n, g), p)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				if p.Key == "" {
					fmt.Println(id + " " + p.Entities[0])
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// A fact that exists after a kill has its embedding and its entities.
func TestFactsAreWholeAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	saved := make(map[string]string)
	for n := range 3 {
		killWhileSaving(t, dir, time.Duration(60+37*n)*time.Millisecond, saved)
		s := open(t, Config{Dir: dir})
		facts := memorysql.Of(s, memory.LongTermConfig{Embedder: letters{}})
		stored := 0
		for q := (memory.FactQuery{Owner: "owner", Limit: memory.MaxLimit}); ; {
			page, err := facts.(memory.Lister).Facts(bg, q)
			must(t, err)
			stored += len(page.Facts)
			if !page.More {
				break
			}
			q.After = page.Facts[len(page.Facts)-1]
		}
		r, err := facts.Search(bg, killedScope, memory.SearchParams{Query: "fact", Mode: memory.ModeSemantic, Limit: memory.MaxLimit})
		if err != nil || r.Pending != 0 || len(r.Facts) != min(stored, memory.MaxLimit) {
			t.Errorf("Search() = %d of %d facts, %d without embedding, %v", len(r.Facts), stored, r.Pending, err)
		}
		checked := 0
		for id, entity := range saved {
			if checked++; checked > 200 {
				break
			}
			r, err := facts.Search(bg, killedScope, memory.SearchParams{Query: entity, Mode: memory.ModeGraph})
			if err != nil || !slices.ContainsFunc(r.Facts, func(m memory.Memory) bool { return m.ID == id }) {
				t.Fatalf("Search(%q) = %+v, %v, want the acknowledged fact %s", entity, r.Facts, err, id)
			}
		}
		must(t, checkIntegrity(s))
		must(t, s.Close())
	}
	t.Logf("%d acknowledged facts, 3 kills", len(saved))
}

// killWhileSaving kills a process that saves facts, and adds the acknowledged ones to saved.
func killWhileSaving(t *testing.T, dir string, after time.Duration, saved map[string]string) {
	t.Helper()
	cmd := child(t.Context(), "facts", dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var kill *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var id, entity string
		var a, b, c int
		if n, _ := fmt.Sscanf(lines.Text(), "%s %s %d %d %d", &id, &entity, &a, &b, &c); n == 5 && len(id) == 36 {
			saved[id] = fmt.Sprint(entity, " ", a, " ", b, " ", c)
		}
		if kill == nil {
			kill = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); err == nil || kill == nil {
		t.Fatalf("saving process was not killed: %v", err)
	}
}
