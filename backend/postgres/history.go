package postgres

import (
	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/history"
)

// History returns the transcripts in the database. They implement all interfaces of package
// history, and use the clock of the database.
func (s *Store) History() history.Provider { return sqlkit.NewHistory(&kit{s.database}, s.Now) }
