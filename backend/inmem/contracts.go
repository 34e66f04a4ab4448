package inmem

import (
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// SQL implements sqlkit.Source.
func (s *Store) SQL() sqlkit.DB { return s.contracts.SQL() }

// Graph returns the graphs of the store. now returns the current time; nil means time.Now.
func (s *Store) Graph(now func() time.Time) graph.Complete { return s.contracts.Graph(now) }

// Vectors returns the documents of the store. The stores that it returns share their documents.
func (s *Store) Vectors(cfg vector.Config) vector.Store { return s.contracts.Vectors(cfg) }
