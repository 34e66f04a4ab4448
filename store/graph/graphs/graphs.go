// Package graphs connects stores of graphs to the server; see package contract.
package graphs

import (
	"context"

	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
)

// Kind is the contract of graphs.
var Kind = &contract.Kind{
	Name:    "graphs",
	Setting: "store-graph",
	Part: func(tasks any, p contract.PartParams) contract.Store {
		if g := graphsql.Of(tasks, p.Now); g != nil {
			return Of(g)
		}
		return nil
	},
	Lasting: []error{
		graph.ErrRelationshipNotFound, graph.ErrEndpointNotFound, graph.ErrConflict, graph.ErrTooLarge, graph.ErrCypher, graph.ErrCypherUnsupported,
		graph.ErrBudget,
	},
	Counts: []string{countEntities, countRelationships},
	Lines: []contract.LineType{
		{Name: typeEntity, Counts: countEntities},
		{Name: typeRelationship, Counts: countRelationships, After: []string{typeEntity, typeRelationship}},
	},
	Scan: func(owner string) contract.Scanner { return &scanner{owner: owner} },
}

// Names of counts.
const (
	countEntities      = "entities"
	countRelationships = "relationships"
)

// Of returns a store of graphs as a store of its contract, nil for nil.
func Of(s graph.Store) contract.Store {
	if s == nil {
		return nil
	}
	return &graphs{s}
}

// In returns the store of graphs among the stores of contracts, nil if there is none.
func In(stores []contract.Store) graph.Store { return contract.In[graph.Store](stores, Kind) }

// graphs implements [contract.Store].
type graphs struct{ graph.Store }

func (*graphs) Kind() *contract.Kind { return Kind }

func (g *graphs) Unwrap() any { return g.Store }

func (g *graphs) Forget(ctx context.Context, owner string, removed func(count string, n int64)) error {
	forgetter, ok := g.Store.(graph.Forgetter)
	if !ok {
		return contract.Unlisted("their store cannot remove all of a principal")
	}
	r, err := forgetter.ForgetOwner(ctx, owner)
	removed(countEntities, int64(r.Entities))
	removed(countRelationships, int64(r.Relationships))
	return err
}
