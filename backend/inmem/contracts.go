package inmem

import (
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// SQL implements sqlkit.Source.
func (s *Store) SQL() sqlkit.DB { return s.contracts.SQL() }

// Vectors returns the documents of the store. The stores that it returns share their documents.
func (s *Store) Vectors(cfg vector.Config) vector.Store { return s.contracts.Vectors(cfg) }
