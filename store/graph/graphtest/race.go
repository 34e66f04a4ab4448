package graphtest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/suite"
)

const racers = 32

var raceTests = []test{
	{"concurrent writes lose nothing", testWriteRace},
	{"concurrent changes of a relationship add a version each", testVersionRace},
	{"relationships that others change can be ended", testEndRace},
	{"relationships that are added while their end is deleted leave nothing behind", testDeleteRace},
	{"walks during changes return whole results", testWalkRace},
	{"batches that delete and add the same entities in different orders succeed", testOrderRace},
}

func testWriteRace(f *fixture) {
	suite.Concurrently(racers, func(i int) {
		for n := range 4 {
			id := fmt.Sprint("own", i, "-", n)
			suite.Call(f.s.Write(f.ctx, f.k, graph.Batch{Entities: entities("shared", id), Relationships: edges(id + ": shared to " + id)})).Check(f, "Write()")
		}
	})
	found, ids, _ := f.neighbors(graph.NeighborParams{IDs: []string{"shared"}, Depth: 1})
	f.equal("Neighbors()", []int{len(found), len(ids)}, []int{racers*4 + 1, racers * 4})
}

func testVersionRace(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b")})
	suite.Concurrently(racers, func(i int) {
		r := edges("r: a to b")
		r[0].Properties = map[string]any{"i": float64(i)}
		f.clock.Add(time.Millisecond)
		suite.Call(f.s.AddRelationships(f.ctx, f.k, r)).Check(f, "AddRelationships()")
	})
	r := f.relationships("r")
	if len(r) != 1 || r[0].Version != racers {
		f.Fatalf("Relationships() = %+v, want version %d", r, racers)
	}
	h, ok := f.s.(graph.Historian)
	if !ok {
		return
	}
	all, err := h.History(f.ctx, f.k, "r")
	if err != nil || len(all) != racers {
		f.Fatalf("History() = %d versions, %v", len(all), err)
	}
	for i := range all[1:] {
		if all[i].Version != int64(i+1) || !all[i].ReplacedAt.Equal(all[i+1].RecordedAt) {
			f.Errorf("version %d was replaced at %s, the next one recorded at %s", all[i].Version, all[i].ReplacedAt, all[i+1].RecordedAt)
		}
	}
}

func testEndRace(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b")})
	for round := range 5 {
		id := fmt.Sprint("r", round)
		f.write(graph.Batch{Relationships: edges(id + ": a to b")})
		end := f.clock.Now().Add(time.Hour)
		suite.Concurrently(8, func(i int) {
			b := graph.Batch{Ends: []graph.End{{ID: id, At: end}}}
			if i%2 == 0 {
				b = graph.Batch{Relationships: edges(id + ": a to b")}
				b.Relationships[0].ValidTo, b.Relationships[0].Properties = end, map[string]any{"i": float64(i)}
			}
			suite.Call(f.s.Write(f.ctx, f.k, b)).Check(f, "Write(%+v)", b)
		})
	}
}

func testDeleteRace(f *fixture) {
	f.write(graph.Batch{Entities: entities("a")})
	for round := range 6 {
		f.write(graph.Batch{Entities: entities("b")})
		suite.Concurrently(8, func(i int) {
			if i == 3 {
				suite.Call(f.s.DeleteEntity(f.ctx, f.k, "b")).Want(f, true, "DeleteEntity()")
				return
			}
			_, err := f.s.AddRelationships(f.ctx, f.k, edges(fmt.Sprintf("r%d-%d: a to b", round, i)))
			suite.Do(err).MayFail(f, graph.ErrEndpointNotFound, "AddRelationships()")
		})
		all, err := f.s.FindRelationships(f.ctx, f.k, graph.FindRelationshipParams{})
		if err != nil || len(all) > 0 {
			f.Fatalf("FindRelationships() = %v, %v, want none to the deleted entity", all, err)
		}
	}
}

func testWalkRace(f *fixture) {
	f.pinboard()
	var walks atomic.Int64
	suite.Concurrently(racers, func(i int) {
		for n := range 3 {
			if i%4 == 0 {
				id := fmt.Sprint("n", (i+n)%9)
				suite.Call(f.s.Write(f.ctx, f.k, graph.Batch{Entities: entities(id), Relationships: edges(id + ": a to " + id)})).Check(f, "Write()")
				suite.Call(f.s.DeleteEntity(f.ctx, f.k, fmt.Sprint("n", (i+n+4)%9))).Check(f, "DeleteEntity()")
				continue
			}
			s := suite.Call(f.s.Neighbors(f.ctx, f.k, graph.NeighborParams{IDs: []string{"e"}, Depth: 4})).Check(f, "Neighbors()")
			f.checkWhole(s)
			walks.Add(1)
		}
	})
	if walks.Load() == 0 {
		f.Errorf("no walk was made")
	}
}

// checkWhole checks that the constant part of the graph was found, with both ends of each
// relationship.
func (f *fixture) checkWhole(s graph.SubGraph) {
	var ids []string
	for _, e := range s.Entities {
		ids = append(ids, e.ID)
		if e.Label == "" || e.Properties["of"] != e.ID {
			f.Errorf("Neighbors() returns the entity %+v", e)
		}
	}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		if !slices.Contains(ids, id) {
			f.Errorf("Neighbors() returns %v without %s", ids, id)
		}
	}
	for _, r := range s.Relationships {
		if !slices.Contains(ids, r.Source) || !slices.Contains(ids, r.Target) {
			f.Errorf("Neighbors() returns %+v without its ends", r)
		}
	}
}

func testOrderRace(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b", "c", "d")})
	suite.Concurrently(16, func(i int) {
		for n := range 3 {
			ids := []string{"a", "b", "c", "d"}
			if i%2 == 1 {
				slices.Reverse(ids)
			}
			b := graph.Batch{Entities: entities(ids...), Relationships: edges(fmt.Sprintf("r%d: %s to %s", i, ids[0], ids[3]))}
			if (i+n)%3 == 0 {
				b.DeleteEntities = ids[:2]
			}
			suite.Call(f.s.Write(f.ctx, f.k, b)).Check(f, "Write()")
		}
	})
	f.equal("FindEntities()", f.found(graph.FindParams{}), []string{"a", "b", "c", "d"})
}
