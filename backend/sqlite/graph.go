package sqlite

import (
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/graph"
)

// Graph returns the graphs of the store. now returns the current time; nil means time.Now.
func (s *Store) Graph(now func() time.Time) graph.Complete {
	return sqlkit.NewGraphs(&kit{s.changeWriter}, now)
}
