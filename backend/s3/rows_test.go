//go:build services

package s3

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testseed"
)

// storedRows are rows with their pages in memory.
type storedRows struct {
	limits
	root  []byte
	pages map[string][]byte
}

// open returns the rows as they were saved.
func (s *storedRows) open(t *testing.T) *rows {
	t.Helper()
	r := &rows{limits: s.limits, read: func(name string) (found []row, err error) {
		data, ok := s.pages[name]
		if !ok {
			return nil, errStale
		}
		return found, json.Unmarshal(data, &found)
	}}
	if s.root != nil {
		if err := json.Unmarshal(s.root, &r.pages); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// save writes pages and root as a commit does, and removes the replaced pages.
func (s *storedRows) save(t *testing.T, r *rows) {
	t.Helper()
	replaced, err := r.arrange()
	if err != nil {
		t.Fatalf("arrange() = %v", err)
	}
	for _, name := range replaced {
		if _, ok := s.pages[name]; !ok {
			t.Fatalf("arrange() replaces the page %q, which does not exist", name)
		}
		delete(s.pages, name)
	}
	var root []page
	for _, p := range r.pages {
		if !r.inRoot() && p.dirty {
			p.Name = fmt.Sprint("page-", rand.Uint64())
			s.pages[p.Name], _ = json.Marshal(p.Rows)
		}
		stored := page{First: p.First, Name: p.Name}
		if p.Name == "" {
			stored.Rows = p.Rows
		}
		root = append(root, stored)
	}
	s.root, _ = json.Marshal(root)
}

// Random changes in pages of every size have the same results as in a map, and leave no page that the
// root does not name.
func TestRowsEqualAMap(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	s := &storedRows{limits: limits{root: 300, page: 200}, pages: make(map[string][]byte)}
	want := make(map[string]string)
	largest := 0
	for n := range 400 {
		stored := s.open(t)
		grows := n/50%2 == 0
		for range r.IntN(12) {
			key := fmt.Sprintf("%c/%03d", "abc"[r.IntN(3)], r.IntN(150))
			if grows == (r.IntN(8) > 0) {
				want[key] = fmt.Sprint(n)
				if err := stored.set(key, want[key]); err != nil {
					t.Fatal(err)
				}
				continue
			}
			delete(want, key)
			if err := stored.remove(key); err != nil {
				t.Fatal(err)
			}
		}
		s.save(t, stored)
		stored = s.open(t)
		largest = max(largest, len(stored.pages))
		prefix := []string{"", "a/", "b/", "c/", "b/1", "d/"}[r.IntN(6)]
		after := prefix + []string{"", fmt.Sprintf("%02d", r.IntN(15))}[r.IntN(2)]
		got := make(map[string]string)
		if err := stored.scan(prefix, after, func(r row) (bool, error) {
			got[r.Key] = strings.Trim(string(r.Value), `"`)
			return true, nil
		}); err != nil {
			t.Fatal(err)
		}
		wanted := maps.Clone(want)
		maps.DeleteFunc(wanted, func(k, _ string) bool { return !strings.HasPrefix(k, prefix) || k <= after })
		if !maps.Equal(got, wanted) {
			t.Fatalf("scan(%q, %q) after change %d with seed %d = %v, want %v", prefix, after, n, seed, got, wanted)
		}
		named := len(slices.DeleteFunc(stored.pages, func(p *page) bool { return p.Name == "" }))
		if named != len(s.pages) {
			t.Fatalf("after change %d with seed %d there are %d pages, the root names %d", n, seed, len(s.pages), named)
		}
	}
	if largest < 10 {
		t.Errorf("rows had up to %d pages, want many", largest)
	}
}
