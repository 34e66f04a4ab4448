package memorysql

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
)

const (
	fromVisible = ` FROM {s}.memory_facts f WHERE` + whereScope + whereFound + ` AND f.replaced_at = 0`
	// The condition on replaced_at is written as in sqlFactAt.
	whereIDs      = ` AND f.id = ANY($6::text[]) AND f.replaced_at <= 0`
	sqlEmbeddings = `SELECT f.id, f.version, f.updated_at, f.embedding FROM {s}.memory_facts f WHERE` + whereScope + whereFound + whereIDs + ` AND f.model = $7::text`
	sqlFactsByID  = `SELECT` + factColumns + ` FROM {s}.memory_facts f WHERE` + whereScope + whereFound + whereIDs
)

const (
	// embeddingBatch is the number of embeddings that one statement reads.
	embeddingBatch = 1000
	// nearAttempts limits how often a search starts anew because facts have changed meanwhile.
	nearAttempts = 3
)

// factVersion identifies a version of a fact in its scope. Its content never changes, so its embedding
// by a model does not either.
type factVersion struct {
	id                 string
	version, updatedAt int64
}

func versionOf(m memory.Memory) factVersion {
	return factVersion{m.ID, m.Version, m.UpdatedAt.UnixMilli()}
}

func scanFactVersion(r sqlkit.Row) factVersion { return factVersion{r.Text(0), r.Int(1), r.Int(2)} }

// visibleFact is a version with its memory_facts.pk and number of words, which are 0 on PostgreSQL.
type visibleFact struct {
	factVersion
	key   int64
	words float64
}

// visibleFacts are the versions of a scope that a search may return.
type visibleFacts struct {
	all      []visibleFact
	embedded []visibleFact // those with an embedding of the model
}

func (v *visibleFacts) add(one visibleFact, embedded bool) {
	v.all = append(v.all, one)
	if embedded {
		v.embedded = append(v.embedded, one)
	}
}

// visible reads the versions that the search may return, once.
func (s *factSearch) visible() (*visibleFacts, error) {
	if s.read != nil {
		return s.read, nil
	}
	v, err := s.readVisible(s.text.visible, s.model)
	if err == nil {
		s.read = v
	}
	return v, err
}

func (s *factSearch) readVisible(text string, args ...any) (*visibleFacts, error) {
	v := &visibleFacts{}
	err := s.q.Query(text, func(r sqlkit.Row) error {
		one := visibleFact{factVersion: scanFactVersion(r)}
		if s.text.terms != "" {
			one.key, one.words = r.Int(4), float64(r.Int(5))
		}
		v.add(one, r.Int(3) != 0)
		return nil
	}, s.args(args...)...)
	return v, err
}

// nearVersion is a version with the cosine of its embedding and the embedding of the query.
type nearVersion struct {
	visibleFact
	cosine float64
}

// Nearest implements recall.FactIndex. It compares all embeddings of the scope. The database
// returns which versions exist; the cache has the embeddings of most of them.
func (s *factSearch) Nearest(e memorydriver.Embedding, n int) (found []recall.Near, pending int, err error) {
	for attempt := 1; ; attempt++ {
		found, pending, changed, err := s.nearest(e, n)
		if err != nil || !changed || attempt == nearAttempts {
			return found, pending, err
		}
		s.read = nil
	}
}

// nearest is Nearest. changed reports that facts have changed between its statements.
func (s *factSearch) nearest(e memorydriver.Embedding, n int) (found []recall.Near, pending int, changed bool, err error) {
	visible, err := s.visible()
	if err != nil {
		return nil, 0, false, err
	}
	near, changed, err := s.compare(e, visible.embedded)
	if err != nil {
		return nil, 0, false, err
	}
	slices.SortFunc(near, func(a, b nearVersion) int {
		return cmp.Or(cmp.Compare(b.cosine, a.cosine), cmp.Compare(b.updatedAt, a.updatedAt), strings.Compare(b.id, a.id))
	})
	lost, err := s.take(n, len(near), func(i int) visibleFact { return near[i].visibleFact }, func(i int, m memory.Memory) {
		found = append(found, recall.Near{Memory: m, Cosine: near[i].cosine})
	})
	return found, len(visible.all) - len(visible.embedded), changed || lost, err
}

// take passes the first n facts of an order that match the filter to each. changed reports that some of
// those that it reads do not exist any more.
func (s *factSearch) take(n, length int, version func(i int) visibleFact, each func(i int, m memory.Memory)) (changed bool, err error) {
	taken := 0
	for first, size := 0, n; first < length && taken < n; first, size = first+size, size*8 {
		end := min(first+size, length)
		var ids []string
		var keys []int64
		for i := first; i < end; i++ {
			ids, keys = append(ids, version(i).id), append(keys, version(i).key)
		}
		wanted := any(ids)
		if s.text.terms != "" {
			wanted = keys
		}
		facts := s.contents.all()
		if facts == nil {
			facts = make(map[factVersion]memory.Memory, len(ids))
			err := s.q.Query(s.text.byID, func(r sqlkit.Row) error {
				m := scanFact(s.scope, r).Memory
				facts[versionOf(m)] = m
				return nil
			}, s.args(wanted)...)
			if err != nil {
				return false, err
			}
		}
		for i := first; i < end; i++ {
			m, ok := facts[version(i).factVersion]
			switch {
			case !ok:
				changed = true
			case taken < n && s.p.Filter.Match(m.Metadata):
				taken++
				each(i, m)
			}
		}
	}
	return changed, nil
}

// compare returns the cosines of the versions that have an embedding. changed reports that some do not
// exist any more.
func (s *factSearch) compare(e memorydriver.Embedding, visible []visibleFact) (near []nearVersion, changed bool, err error) {
	in := s.cache.scope(embeddingScope{s.scope, e.Model})
	near = make([]nearVersion, 0, len(visible))
	add := func(v visibleFact, embedding []float32) {
		if len(embedding) == len(e.Vector) { // of a content that the model accepts
			near = append(near, nearVersion{v, e.Cosine(embedding)})
		}
	}
	known, missing := in.get(visible)
	for i, v := range visible {
		add(v, known[i])
	}
	for batch := range slices.Chunk(missing, embeddingBatch) {
		ids, wanted := make([]string, len(batch)), make(map[factVersion]visibleFact, len(batch))
		for i, v := range batch {
			ids[i], wanted[v.factVersion] = v.id, v
		}
		read := 0
		err := s.q.Query(sqlEmbeddings, func(r sqlkit.Row) error {
			if v, ok := wanted[scanFactVersion(r)]; ok {
				read++
				embedding := memorydriver.DecodeVector(r.Bytes(3))
				s.cache.add(in, v.factVersion, embedding)
				add(v, embedding)
			}
			return nil
		}, s.args(ids, e.Model)...)
		if err != nil {
			return nil, false, err
		}
		changed = changed || read < len(batch)
	}
	s.cache.used(in, visible)
	return near, changed, nil
}
