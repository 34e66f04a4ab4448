package postgres

import (
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
)

// LongTerm returns the long-term memory of the store. The memories of one store share their facts.
// Its trigrams are lexemes in the index of
// words, so the extension pg_trgm is not needed.
func (s *Store) LongTerm(cfg memory.LongTermConfig) memory.LongTermStore {
	return memorysql.New(&kit{s.database}, cfg, s.factEmbeddings)
}
