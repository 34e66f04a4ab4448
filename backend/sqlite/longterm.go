package sqlite

import (
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
)

// LongTerm returns the long-term memory of the store. The memories of one store share their facts.
func (s *Store) LongTerm(cfg memory.LongTermConfig) memory.LongTermStore {
	return memorysql.New(&kit{s.changeWriter}, cfg, s.factEmbeddings)
}
