package sqlite

import (
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
)

// Graph returns the graphs of the store. now returns the current time; nil means time.Now.
func (s *Store) Graph(now func() time.Time) graph.Complete {
	return graphsql.New(s.kit, now)
}
