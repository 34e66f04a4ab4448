package sqlite

import (
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/history"
)

// History returns the transcripts in the database. They implement all interfaces of package
// history.
func (s *Store) History() history.Provider { return sqlkit.NewHistory(s.kit, time.Now) }
