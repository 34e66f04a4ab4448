package postgres

import (
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
)

// History returns the transcripts in the database. They implement all interfaces of package
// history, and use the clock of the database.
func (s *Store) History() history.Provider { return historysql.New(&kit{s.database}, s.Now) }
