package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
)

// LongTerm returns the long-term memory of the store. The memories of one store share their facts.
func (s *Store) LongTerm(cfg memory.LongTermConfig) memory.LongTermStore {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &longTerm{database: s.database, facts: &s.facts, now: cfg.Now, embeddings: memorydriver.NewEmbeddings(cfg)}
}

// factStore holds the facts of all owners. The lock of the database guards it.
type factStore struct {
	byScope map[memory.Scope]*scopeFacts
}

// scopeFacts are the facts of a scope.
type scopeFacts struct {
	byID  map[string]*fact
	byKey map[string]*fact
}

// fact has its versions, oldest first. A version is replaced, never modified, apart from
// its expiry and embedding.
type fact struct{ versions []version }

// version is a version of a fact. Its Metadata is nil.
type version struct {
	memory.Memory
	metadata  string             // JSON
	terms     [3]map[string]bool // by recall.Part
	embedding memorydriver.Embedding
}

type longTerm struct {
	*database
	facts      *factStore
	now        func() time.Time
	embeddings *memorydriver.Embeddings
}

// content is what a version consists of apart from its terms.
type content struct {
	memory.Memory
	metadata  string
	embedding memorydriver.Embedding
}

func newVersion(c content) version {
	m := c.Memory
	m.Entities = slices.Clone(m.Entities)
	v := version{Memory: m, metadata: c.metadata, embedding: c.embedding}
	for part := range v.terms {
		v.terms[part] = make(map[string]bool)
	}
	text := recall.Analyze(m.Content)
	for _, s := range text.Stems {
		v.terms[recall.Stems][s] = true
	}
	for _, g := range recall.Trigrams(text.Words...) {
		v.terms[recall.Grams][g] = true
	}
	for _, name := range m.Entities {
		v.terms[recall.Links][recall.LinkTerm(name)] = true
	}
	return v
}

// memory returns a copy of the version for a caller.
func (v *version) memory() memory.Memory {
	m := v.Memory
	m.Metadata = jsonobject.Decode(v.metadata)
	m.Entities = slices.Clone(v.Entities)
	return m
}

func (f *fact) head() *version { return &f.versions[len(f.versions)-1] }

// expired reports whether the fact does not exist any more.
func (f *fact) expired(now time.Time) bool {
	at := f.head().ExpiresAt
	return !at.IsZero() && !at.After(now)
}

// at returns the version that is valid at a time, or nil.
func (f *fact) at(now, at time.Time) *version {
	if f == nil || f.expired(now) {
		return nil
	}
	for i := range f.versions {
		v := &f.versions[i]
		if v.ReplacedAt.IsZero() && (v.ValidFrom.IsZero() || !v.ValidFrom.After(at)) && (v.ValidTo.IsZero() || v.ValidTo.After(at)) {
			return v
		}
	}
	return nil
}

// in returns the facts of a scope, which may be nil.
func (s *longTerm) in(scope memory.Scope) *scopeFacts { return s.facts.byScope[scope] }

func (s *scopeFacts) fact(id string) *fact {
	if s == nil {
		return nil
	}
	return s.byID[id]
}

// named returns the fact with a key, or nil.
func (s *scopeFacts) named(key string) *fact {
	if s == nil || key == "" {
		return nil
	}
	return s.byKey[key]
}

func (s *longTerm) remove(scope memory.Scope, f *fact) {
	in, head := s.in(scope), f.head()
	delete(in.byID, head.ID)
	if head.Key != "" {
		delete(in.byKey, head.Key)
	}
	if len(in.byID) == 0 {
		delete(s.facts.byScope, scope)
	}
}

// Save implements memory.LongTerm.
func (s *longTerm) Save(ctx context.Context, scope memory.Scope, text string, p memory.SaveParams) (string, error) {
	next, err := s.newFact(ctx, scope, text, p)
	if err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return "", err
	}
	return s.add(next)
}

// newFact checks the parameters of Save and returns the first version of the fact.
func (s *longTerm) newFact(ctx context.Context, scope memory.Scope, text string, p memory.SaveParams) (first content, err error) {
	if first.Memory, first.metadata, err = memorydriver.NewFact(scope, text, p, s.now()); err != nil {
		return first, err
	}
	if first.embedding, err = s.embeddings.Content(ctx, text); err != nil {
		return first, err
	}
	id, err := uuid.NewV7()
	first.ID = id.String()
	return first, err
}

// add adds a fact, or replaces the newest version of the one with its key. The caller holds the lock.
func (s *longTerm) add(next content) (id string, err error) {
	if f := s.in(next.Scope).named(next.Key); f != nil {
		if !f.expired(next.UpdatedAt) {
			return f.head().ID, s.save(f, next)
		}
		s.remove(next.Scope, f)
	}
	s.insert(&fact{versions: []version{newVersion(next)}})
	return next.ID, nil
}

// insert adds a fact.
func (s *longTerm) insert(f *fact) {
	head := f.head()
	in := s.in(head.Scope)
	if in == nil {
		in = &scopeFacts{byID: make(map[string]*fact), byKey: make(map[string]*fact)}
		s.facts.byScope[head.Scope] = in
	}
	in.byID[head.ID] = f
	if head.Key != "" {
		in.byKey[head.Key] = f
	}
}

// save replaces the newest version of a fact by next, unless both are equal.
func (s *longTerm) save(f *fact, next content) error {
	replacement, changed, err := memorydriver.Replacement(f.head().Memory, next.Memory)
	if err != nil {
		return err
	}
	next.Memory = replacement
	if changed || f.head().metadata != next.metadata {
		s.replace(f, next)
	}
	for i := range f.versions {
		f.versions[i].ExpiresAt = next.ExpiresAt
	}
	return nil
}

// replace adds a version that corrects the newest one.
func (s *longTerm) replace(f *fact, next content) {
	f.head().ReplacedAt = next.UpdatedAt
	f.versions = append(f.versions, newVersion(next))
}

// Update implements memory.Editor.
func (s *longTerm) Update(ctx context.Context, scope memory.Scope, id string, p memory.UpdateParams) (memory.Memory, error) {
	return s.edit(ctx, scope, id, p, func(f *fact, next content) error {
		s.replace(f, next)
		return nil
	})
}

// Supersede implements memory.Editor.
func (s *longTerm) Supersede(ctx context.Context, scope memory.Scope, id string, at time.Time, p memory.UpdateParams) (memory.Memory, error) {
	return s.edit(ctx, scope, id, p, func(f *fact, next content) (err error) {
		if next.Memory, err = memorydriver.Succession(next.Memory, at); err == nil {
			f.head().ValidTo = next.ValidFrom
			f.versions = append(f.versions, newVersion(next))
		}
		return err
	})
}

func (s *longTerm) edit(ctx context.Context, scope memory.Scope, id string, p memory.UpdateParams,
	apply func(f *fact, next content) error,
) (memory.Memory, error) {
	scope, metadata, err := memorydriver.CheckUpdate(scope, id, p)
	if err != nil {
		return memory.Memory{}, err
	}
	var embedding memorydriver.Embedding
	if p.Content != "" {
		if embedding, err = s.embeddings.Content(ctx, p.Content); err != nil {
			return memory.Memory{}, err
		}
	}
	now := s.now()
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return memory.Memory{}, err
	}
	f := s.in(scope).fact(id)
	if f == nil || f.expired(now) {
		return memory.Memory{}, memory.ErrFactNotFound
	}
	next := content{metadata: metadata, embedding: embedding}
	if next.Memory, err = memorydriver.NextVersion(f.head().Memory, p, now); err != nil {
		return memory.Memory{}, err
	}
	if p.Metadata == nil {
		next.metadata = f.head().metadata
	}
	if p.Content == "" {
		next.embedding = f.head().embedding
	}
	if err := apply(f, next); err != nil {
		return memory.Memory{}, err
	}
	return f.head().memory(), nil
}

// Get implements memory.LongTerm.
func (s *longTerm) Get(ctx context.Context, scope memory.Scope, id string) (memory.Memory, error) {
	return s.GetAsOf(ctx, scope, id, time.Time{})
}

// GetAsOf implements memory.Historian.
func (s *longTerm) GetAsOf(ctx context.Context, scope memory.Scope, id string, at time.Time) (memory.Memory, error) {
	scope, err := memorydriver.CheckGet(scope, id, at)
	if err != nil {
		return memory.Memory{}, err
	}
	now := s.now()
	if at.IsZero() {
		at = now
	}
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return memory.Memory{}, err
	}
	v := s.in(scope).fact(id).at(now, at)
	if v == nil {
		return memory.Memory{}, memory.ErrFactNotFound
	}
	return v.memory(), nil
}

// History implements memory.Historian.
func (s *longTerm) History(ctx context.Context, scope memory.Scope, id string) (all []memory.Memory, err error) {
	if scope, err = memorydriver.CheckGet(scope, id, time.Time{}); err != nil {
		return nil, err
	}
	now := s.now()
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	f := s.in(scope).fact(id)
	if f == nil || f.expired(now) {
		return nil, memory.ErrFactNotFound
	}
	for i := range f.versions {
		all = append(all, f.versions[i].memory())
	}
	return all, nil
}

// Delete implements memory.LongTerm.
func (s *longTerm) Delete(ctx context.Context, scope memory.Scope, id string) (bool, error) {
	scope, err := memorydriver.CheckGet(scope, id, time.Time{})
	if err != nil {
		return false, err
	}
	now := s.now()
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return false, err
	}
	f := s.in(scope).fact(id)
	if f == nil {
		return false, nil
	}
	s.remove(scope, f)
	return !f.expired(now), nil
}

// Clear implements memory.LongTerm.
func (s *longTerm) Clear(ctx context.Context, scope memory.Scope) (removed int, err error) {
	if scope, err = memorydriver.CheckScope(scope); err != nil {
		return 0, err
	}
	now := s.now()
	report, err := s.removeFacts(ctx, -1, func(in memory.Scope, f *fact) bool { return in == scope }, now)
	return report.Facts, err
}

// ForgetSubject implements memory.Forgetter.
func (s *longTerm) ForgetSubject(ctx context.Context, owner string) (memory.ForgetReport, error) {
	if err := memorydriver.CheckOwner(owner); err != nil {
		return memory.ForgetReport{}, err
	}
	return s.removeFacts(ctx, -1, func(in memory.Scope, f *fact) bool { return in.Owner == owner }, time.Time{})
}

// Expire implements memory.Expirer.
func (s *longTerm) Expire(ctx context.Context, now time.Time, limit int) (int, error) {
	report, err := s.removeFacts(ctx, limit, func(_ memory.Scope, f *fact) bool { return f.expired(now) }, time.Time{})
	return report.Facts, err
}

// removeFacts removes up to limit facts, or all if limit is negative, and counts those that had
// not expired at a time.
func (s *longTerm) removeFacts(ctx context.Context, limit int, selected func(memory.Scope, *fact) bool, now time.Time) (report memory.ForgetReport, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return report, err
	}
	for scope, in := range s.facts.byScope {
		for _, f := range in.byID {
			if !selected(scope, f) || report.Facts == limit {
				continue
			}
			s.remove(scope, f)
			if !f.expired(now) {
				report.Facts++
				report.Versions += len(f.versions)
			}
		}
	}
	return report, nil
}

// Namespaces implements memory.NamespaceLister.
func (s *longTerm) Namespaces(ctx context.Context, q memory.NamespaceQuery) (all []string, err error) {
	if q, err = memorydriver.CheckNamespaces(q); err != nil {
		return nil, err
	}
	now := s.now()
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	for scope, in := range s.facts.byScope {
		if scope.Owner != q.Owner || scope.Agent != q.Agent || scope.Namespace <= q.After || !memorydriver.Below(scope.Namespace, q.Prefix) {
			continue
		}
		for _, f := range in.byID {
			if !f.expired(now) {
				all = append(all, scope.Namespace)
				break
			}
		}
	}
	slices.Sort(all)
	return all[:min(len(all), q.Limit)], nil
}
