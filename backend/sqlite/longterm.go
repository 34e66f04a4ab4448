package sqlite

import (
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// LongTerm returns the long-term memory of the store. now returns the current time; nil means
// time.Now. The memories of one store share their facts.
func (s *Store) LongTerm(now func() time.Time) memory.LongTermStore {
	return sqlkit.NewLongTerm(&kit{s.changeWriter}, now)
}
