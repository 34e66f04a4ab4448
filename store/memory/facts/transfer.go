package facts

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
)

const (
	typeFact   = "fact"
	exportPage = 100
)

type factLine struct {
	_         struct{}      `wire:"const=type:fact,required"`
	Agent     string        `json:"agent" wire:"required"`
	Namespace string        `json:"namespace" wire:"required"`
	ID        string        `json:"id" wire:"required"`
	Key       string        `json:"key,omitempty"`
	ExpiresAt time.Time     `json:"expiresAt,omitempty"`
	Versions  []factVersion `json:"versions" wire:"required"`
}

type factVersion struct {
	Version    int64          `json:"version" wire:"required"`
	Content    string         `json:"content" wire:"required"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Entities   []string       `json:"entities,omitempty"`
	CreatedAt  time.Time      `json:"createdAt" wire:"required"`
	UpdatedAt  time.Time      `json:"updatedAt" wire:"required"`
	ReplacedAt time.Time      `json:"replacedAt,omitempty"`
	ValidFrom  time.Time      `json:"validFrom,omitempty"`
	ValidTo    time.Time      `json:"validTo,omitempty"`
}

// lineOf returns the line of a fact with all its versions.
func lineOf(versions []memory.Memory) *factLine {
	first := &versions[0]
	l := &factLine{Agent: first.Scope.Agent, Namespace: first.Scope.Namespace, ID: first.ID, Key: first.Key, ExpiresAt: first.ExpiresAt}
	for i := range versions {
		v := &versions[i]
		l.Versions = append(l.Versions, factVersion{v.Version, v.Content, v.Metadata, v.Entities, v.CreatedAt, v.UpdatedAt, v.ReplacedAt, v.ValidFrom, v.ValidTo})
	}
	return l
}

func (l *factLine) versions(owner string) (versions []memory.Memory) {
	for _, v := range l.Versions {
		versions = append(versions, memory.Memory{
			ID: l.ID, Scope: memory.Scope{Owner: owner, Namespace: l.Namespace, Agent: l.Agent}, Key: l.Key, Content: v.Content, Metadata: v.Metadata, Entities: v.Entities,
			Version: v.Version, CreatedAt: store.Time(v.CreatedAt), UpdatedAt: store.Time(v.UpdatedAt), ReplacedAt: store.Time(v.ReplacedAt),
			ValidFrom: store.Time(v.ValidFrom), ValidTo: store.Time(v.ValidTo), ExpiresAt: store.Time(l.ExpiresAt),
		})
	}
	return versions
}

func (f *facts) Export(ctx context.Context, owner string, line func(typ string, v any) error) error {
	lister, ok := f.LongTermStore.(memory.Lister)
	if !ok {
		return contract.Unlisted("their store does not list them")
	}
	for q := (memory.FactQuery{Owner: owner, Limit: exportPage}); ; {
		page, err := lister.Facts(ctx, q)
		if err != nil {
			return err
		}
		for _, m := range page.Facts {
			q.After = m
			versions, err := f.History(ctx, m.Scope, m.ID)
			if errors.Is(err, memory.ErrFactNotFound) {
				continue // deleted meanwhile
			}
			if err == nil {
				err = line(typeFact, lineOf(versions))
			}
			if err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
	}
}

// scanner implements [contract.Scanner]. Its items are the versions of a fact.
type scanner struct{ owner string }

func (s *scanner) Scan(_ string, raw []byte) (any, error) {
	var l factLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	versions := l.versions(s.owner)
	_, err := memorydriver.CheckVersions(versions)
	return versions, err
}

func (*scanner) End() error { return nil }

func (f *facts) Import(p *contract.ImportParams) (contract.Importer, error) {
	restorer, ok := f.LongTermStore.(memory.Restorer)
	if !ok {
		return nil, Kind.NoTarget()
	}
	return &importer{ImportParams: p, facts: f, restorer: restorer}, nil
}

type importer struct {
	contract.Immediate
	*contract.ImportParams
	facts    *facts
	restorer memory.Restorer
}

func (m *importer) Add(ctx context.Context, item any) error {
	versions := item.([]memory.Memory)
	for i := range versions {
		versions[i].Scope.Owner = m.Owner
	}
	first := &versions[0]
	if at := first.ExpiresAt; !at.IsZero() && !at.After(m.Now()) {
		return nil // it does not exist any more
	}
	existing, err := m.facts.History(ctx, first.Scope, first.ID)
	switch {
	case err == nil && !contract.Equal(lineOf(existing), lineOf(versions)):
		return m.Conflict("fact %s of agent %s exists and differs from the document", a2a.Quote(first.ID), a2a.Quote(first.Scope.Agent))
	case err == nil:
		return nil
	case !errors.Is(err, memory.ErrFactNotFound):
		return err
	}
	restore := m.restorer.CanRestore
	if m.Write {
		restore = m.restorer.Restore
	}
	err = restore(ctx, versions)
	if errors.Is(err, memory.ErrFactConflict) {
		return m.Conflict("another fact of agent %s has the key %s", a2a.Quote(first.Scope.Agent), a2a.Quote(first.Key))
	}
	if err == nil && m.Write {
		m.Added(countFacts, 1)
	}
	return err
}
