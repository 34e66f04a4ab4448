package sqlite

import (
	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// LongTerm returns the long-term memory of the store. The memories of one store share their facts.
func (s *Store) LongTerm(cfg memory.LongTermConfig) memory.LongTermStore {
	return sqlkit.NewLongTerm(&kit{s.changeWriter}, cfg, s.factEmbeddings)
}
