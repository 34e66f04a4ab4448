package sqlite

import (
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
)

// History returns the transcripts in the database. They implement all interfaces of package
// history.
func (s *Store) History() history.Provider { return historysql.New(s.kit, time.Now) }
