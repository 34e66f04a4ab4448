package memorytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// modelFact is a fact of the model.
type modelFact struct {
	id, key, namespace string
	expires            time.Time
	versions           []memory.Memory
}

// longTermModel is an independent model of long-term memory. Its store has one owner and agent.
type longTermModel struct{ facts []*modelFact }

func (m *longTermModel) fact(namespace, id string, now time.Time) *modelFact {
	for _, f := range m.facts {
		if f.namespace == namespace && f.id == id && (f.expires.IsZero() || now.Before(f.expires)) {
			return f
		}
	}
	return nil
}

// at returns the version of a fact that is valid at a time, or nil.
func (f *modelFact) at(at time.Time) *memory.Memory {
	if f == nil {
		return nil
	}
	for i := range f.versions {
		v := &f.versions[i]
		started, ended := v.ValidFrom.IsZero() || !at.Before(v.ValidFrom), !v.ValidTo.IsZero() && !at.Before(v.ValidTo)
		if v.ReplacedAt.IsZero() && started && !ended {
			return v
		}
	}
	return nil
}

func (f *modelFact) newest() *memory.Memory { return &f.versions[len(f.versions)-1] }

// add adds a version with a content.
func (f *modelFact) add(content string, now time.Time) *memory.Memory {
	v := *f.newest()
	v.Content, v.UpdatedAt, v.ReplacedAt = content, now, time.Time{}
	v.Version++
	f.versions = append(f.versions, v)
	return f.newest()
}

var modelWords = []string{"alpha", "bicycle", "coffee", "dungeon", "espresso", "flower"}

// longTermRun is a series of random calls on a store and the model.
type longTermRun struct {
	*longTermFixture
	model  longTermModel
	random *rand.Rand
	calls  []string
}

func longTermModelTest(f *longTermFixture) {
	seed := testseed.Of(f)
	r := &longTermRun{longTermFixture: f, random: rand.New(rand.NewPCG(seed, 0))}
	for range f.h.Steps {
		f.in.Namespace = []string{"n", "n/m"}[r.random.IntN(2)]
		f.clock.Add(time.Duration(1+r.random.IntN(3)) * time.Second)
		r.step()
		if f.Failed() {
			f.Fatalf("seed %d, calls:\n%s", seed, strings.Join(r.calls, "\n"))
		}
	}
}

func (r *longTermRun) step() {
	switch n := r.random.IntN(20); {
	case n < 6:
		r.saveFact()
	case n < 9:
		r.changeFact()
	case n < 10:
		r.removeFact()
	case n < 12:
		r.readFact()
	default:
		r.searchFacts()
	}
}

func (r *longTermRun) call(format string, args ...any) {
	r.calls = append(r.calls, fmt.Sprintf("%s %s: ", r.clock.Now().Sub(longTermStart), r.in.Namespace)+fmt.Sprintf(format, args...))
}

func (r *longTermRun) content() string {
	words := make([]string, 1+r.random.IntN(3))
	for i := range words {
		words[i] = modelWords[r.random.IntN(len(modelWords))]
	}
	return strings.Join(words, " ")
}

// someID returns the id of a fact, or one that does not exist.
func (r *longTermRun) someID() string {
	if len(r.model.facts) == 0 || r.random.IntN(20) == 0 {
		return "missing"
	}
	return r.model.facts[r.random.IntN(len(r.model.facts))].id
}

// someTime returns a time around the start, or the zero time.
func (r *longTermRun) someTime() time.Time {
	if r.random.IntN(2) == 0 {
		return time.Time{}
	}
	return longTermStart.Add(time.Duration(r.random.IntN(1000)) * time.Second)
}

func (r *longTermRun) saveFact() {
	now, content, p := r.clock.Now(), r.content(), memory.SaveParams{}
	if r.random.IntN(3) == 0 {
		p.TTL = time.Duration(1+r.random.IntN(60)) * time.Second
	}
	if r.random.IntN(4) == 0 {
		p.ValidFrom = r.someTime()
	}
	if r.random.IntN(2) == 0 {
		p.Key = fmt.Sprintf("k%d", r.random.IntN(4))
	}
	id, err := r.s.Save(r.ctx(), r.in, content, p)
	r.call("Save(%q, %+v) = %s, %v", content, p, id, err)
	var expires time.Time
	if p.TTL > 0 {
		expires = now.Add(p.TTL)
	}
	for _, f := range r.model.facts {
		if p.Key == "" || f.key != p.Key || r.model.fact(r.in.Namespace, f.id, now) == nil {
			continue
		}
		from := p.ValidFrom
		if from.IsZero() {
			from = f.newest().ValidFrom
		}
		if from.Before(f.newest().ValidFrom) {
			r.mustReject("Save", "validFrom", err)
			return
		}
		if err != nil || id != f.id {
			r.Errorf("Save() = %q, %v, want %q", id, err, f.id)
		}
		if f.newest().Content != content || !f.newest().ValidFrom.Equal(from) {
			f.newest().ReplacedAt = now
			f.add(content, now).ValidFrom = from
		}
		f.expires = expires
		return
	}
	suite.Do(err).Check(r, "Save()")
	r.model.facts = append(r.model.facts, &modelFact{id: id, key: p.Key, namespace: r.in.Namespace, expires: expires, versions: []memory.Memory{
		{ID: id, Content: content, Version: 1, CreatedAt: now, UpdatedAt: now, ValidFrom: p.ValidFrom},
	}})
}

func (r *longTermRun) changeFact() {
	e, ok := r.s.(memory.Editor)
	if !ok {
		return
	}
	id, now, content := r.someID(), r.clock.Now(), r.content()
	f := r.model.fact(r.in.Namespace, id, now)
	var err error
	var wantVersion int64
	if r.random.IntN(2) == 0 {
		_, err = e.Update(r.ctx(), r.in, id, memory.UpdateParams{Content: content})
		r.call("Update(%s, %q) = %v", id, content, err)
		if f != nil {
			f.newest().ReplacedAt = now
			wantVersion = f.add(content, now).Version
		}
	} else {
		at := now.Add(time.Duration(r.random.IntN(5)-3) * time.Second)
		_, err = e.Supersede(r.ctx(), r.in, id, at, memory.UpdateParams{Content: content})
		r.call("Supersede(%s, %s, %q) = %v", id, at.Sub(longTermStart), content, err)
		if f != nil && !f.newest().ValidFrom.IsZero() && !at.After(f.newest().ValidFrom) {
			r.mustReject("Supersede", "at", err)
			return
		}
		if f != nil {
			f.newest().ValidTo = at
			next := f.add(content, now)
			next.ValidFrom, next.ValidTo = at, time.Time{}
			wantVersion = next.Version
		}
	}
	if f == nil && !errors.Is(err, memory.ErrFactNotFound) || f != nil && err != nil {
		r.Errorf("change of %s = %v, want version %d", id, err, wantVersion)
	}
}

func (r *longTermRun) removeFact() {
	id, now := r.someID(), r.clock.Now()
	switch r.random.IntN(8) {
	case 0:
		n, err := r.s.Clear(r.ctx(), r.in)
		want := 0
		r.model.facts = slices.DeleteFunc(r.model.facts, func(f *modelFact) bool {
			if f.namespace == r.in.Namespace && r.model.fact(f.namespace, f.id, now) != nil {
				want++
			}
			return f.namespace == r.in.Namespace
		})
		if r.call("Clear() = %d, %v", n, err); err != nil {
			r.Errorf("Clear() = %d, %v", n, err)
		}
	case 1:
		if x, ok := r.s.(memory.Expirer); ok {
			n, err := x.Expire(r.ctx(), now, 1000)
			if r.call("Expire() = %d, %v", n, err); err != nil {
				r.Errorf("Expire() = %v", err)
			}
		}
	default:
		deleted, err := r.s.Delete(r.ctx(), r.in, id)
		r.call("Delete(%s) = %t, %v", id, deleted, err)
		f := r.model.fact(r.in.Namespace, id, now)
		if want := f != nil; deleted != want || err != nil {
			r.Errorf("Delete() = %t, %v, want %t", deleted, err, want)
		}
		r.model.facts = slices.DeleteFunc(r.model.facts, func(x *modelFact) bool { return x == f })
	}
}

func (r *longTermRun) readFact() {
	id, now := r.someID(), r.clock.Now()
	got, err := r.s.Get(r.ctx(), r.in, id)
	r.call("Get(%s) = %d, %v", id, got.Version, err)
	f := r.model.fact(r.in.Namespace, id, now)
	if want := f.at(now); want == nil && !errors.Is(err, memory.ErrFactNotFound) || want != nil && (err != nil || got.Version != want.Version || got.Content != want.Content) {
		r.Errorf("Get() = %+v, %v, want %+v", got, err, want)
	}
	h, ok := r.s.(memory.Historian)
	if !ok || f == nil {
		return
	}
	versions, err := h.History(r.ctx(), r.in, id)
	if err != nil || len(versions) != len(f.versions) {
		r.Errorf("History() = %d versions, %v, want %d", len(versions), err, len(f.versions))
		return
	}
	for i, v := range versions {
		w := f.versions[i]
		if v.Content != w.Content || !v.UpdatedAt.Equal(w.UpdatedAt) || !v.ReplacedAt.Equal(w.ReplacedAt) || !v.ValidFrom.Equal(w.ValidFrom) || !v.ValidTo.Equal(w.ValidTo) {
			r.Errorf("History(): version %d = %+v, want %+v", i+1, v, w)
		}
	}
}

// searchFacts compares the set of results, and for an empty query their order.
func (r *longTermRun) searchFacts() {
	now, p := r.clock.Now(), memory.SearchParams{Limit: memory.MaxLimit}
	at := now
	if r.random.IntN(3) == 0 {
		if p.AsOf = r.someTime(); !p.AsOf.IsZero() {
			at = p.AsOf
		}
	}
	if r.random.IntN(3) > 0 {
		p.Query = r.content()
	}
	var want []memory.Memory
	for _, f := range r.model.facts {
		v := r.model.fact(r.in.Namespace, f.id, now).at(at)
		if v != nil && (p.Query == "" || slices.ContainsFunc(strings.Fields(p.Query), func(w string) bool { return strings.Contains(v.Content, w) })) {
			want = append(want, *v)
		}
	}
	slices.SortFunc(want, func(a, b memory.Memory) int {
		if c := b.UpdatedAt.Compare(a.UpdatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	got := r.search(p)
	r.call("Search(%q, as of %s) found %d", p.Query, at.Sub(longTermStart), len(got))
	key := func(all []memory.Memory) (keys []string) {
		for _, m := range all {
			keys = append(keys, fmt.Sprintf("%s %d %s", m.ID, m.Version, m.Content))
		}
		if p.Query != "" {
			slices.Sort(keys)
		}
		return keys
	}
	if diff := diffOf(key(want), key(got)); diff != "" {
		r.Errorf("Search(%+v) (-want +got):\n%s", p, diff)
	}
}
