// Package age keeps copies of the graphs of a PostgreSQL store in Apache AGE, which executes queries in openCypher.
//
// # Concepts
//
// [Open] opens a store of package postgres with other graphs. The tables of the store contain the graphs with all
// versions of relationships, and serve all calls but queries. Each write changes the copy in its transaction. A copy has
// the newest version of each relationship, in a graph of AGE with a label for each label of entities and type of
// relationships. The names of labels and types must differ within a graph.
//
// The first write of a graph makes its copy. A store without [Config].Copy makes no copies and executes queries itself.
// If copies existed when it was opened, it changes them too, so that they stay equal and keep no deleted data. A store
// that was opened before the first copy does not know the copies: [Graphs.Rebuild] adds its writes.
//
// # Errors
//
// Open returns an error with [ErrUnusable] if AGE cannot be used; the other errors are the errors of package postgres.
package age

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
)

// Config configures a store.
type Config struct {
	Postgres postgres.Config
	// Copy keeps a copy of each graph in Apache AGE. It needs the extension age 1.5 or later. Without it, only the
	// copies that exist are changed.
	Copy bool
}

// Store is a store of package postgres with copies of its graphs.
type Store struct {
	*postgres.Store
	copies bool // graphs have, or get, copies
	copy   bool // Config.Copy
}

// Open opens a store.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{copy: cfg.Copy}
	cfg.Postgres.CheckGraphs = s.find
	var err error
	s.Store, err = postgres.Open(ctx, cfg.Postgres)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Graph returns the graphs of the store, [*Graphs] if they have copies in Apache AGE. now returns the current time; nil
// means time.Now.
func (s *Store) Graph(now func() time.Time) graph.Complete {
	if !s.copies {
		return graphsql.New(s.SQL(), now)
	}
	if now == nil {
		now = time.Now
	}
	return &Graphs{Complete: graphsql.New(s.SQL(), now), store: s, now: now, seed: maphash.MakeSeed()}
}
