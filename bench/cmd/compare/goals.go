package main

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// goal is the minimum ratio of the rates of two servers in a scenario.
type goal struct {
	scenario  loadgen.Scenario
	contender string
	against   string
	atLeast   float64
}

func goals() []goal {
	return []goal{
		{loadgen.Send, "holdfast-memory", official, 10},
		{loadgen.Send, "holdfast-sqlite", official, 6},
		{loadgen.Send, "holdfast-sqlite", echo, 0.25},
		{loadgen.Send, "holdfast-postgres", official, 4},
		{loadgen.Send, "holdfast-memory", floorJSON, 0.50},
		{loadgen.Send, "holdfast-sqlite", floorSQLite, 0.80},
		{loadgen.Send, "holdfast-postgres", floorPostgres, 0.70},
		{loadgen.Send, "holdfast-memory-1.0", official10, 10},
		{loadgen.Send, "holdfast-sqlite-1.0", official10, 6},
		{loadgen.Send, "holdfast-memory-1.0", "holdfast-memory", 0.90},
		{loadgen.Send, "holdfast-sqlite-1.0", "holdfast-sqlite", 0.90},
		{loadgen.Get, "holdfast-memory-1.0", "holdfast-memory", 0.90},
		{loadgen.Get, "holdfast-sqlite-1.0", "holdfast-sqlite", 0.90},
		{loadgen.Send, "holdfast-memory-rest", "holdfast-memory-1.0", 0.90},
		{loadgen.Send, "holdfast-sqlite-rest", "holdfast-sqlite-1.0", 0.90},
		{loadgen.Get, "holdfast-memory-rest", "holdfast-memory-1.0", 0.90},
		{loadgen.Get, "holdfast-sqlite-rest", "holdfast-sqlite-1.0", 0.90},
		{loadgen.Send, "holdfast-memory-grpc", "holdfast-memory-1.0", 1},
		{loadgen.Get, "holdfast-memory-grpc", "holdfast-memory-1.0", 1},
		{loadgen.Get, "holdfast-memory", echo, 0.60},
		{loadgen.Get, "holdfast-sqlite", echo, 0.60},
	}
}

// withinGrowth is the maximum ratio between the rate with the smallest store and the rate with a
// larger one.
const withinGrowth = 1.3

// text returns the goal as text, and whether the rates meet it.
func (g goal) text(got, base float64) string {
	want := fmt.Sprintf(">= %gx %s", g.atLeast, g.against)
	if g.atLeast < 1 {
		want = fmt.Sprintf(">= %.0f%% of %s", g.atLeast*100, g.against)
	}
	switch {
	case got == 0 || base == 0:
		return want + ": not measured"
	}
	if g.against != official && g.against != echo { // these have columns
		want += fmt.Sprintf(", is %.2f", got/base)
	}
	if got/base >= g.atLeast {
		return want + ": met"
	}
	return want + ": NOT MET"
}
