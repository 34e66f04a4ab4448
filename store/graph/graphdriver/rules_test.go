package graphdriver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

func row(version int64, from, to time.Time) graphdriver.RelationshipRow {
	return graphdriver.RelationshipRow{Properties: "{}", Relationship: graph.Relationship{
		ID: "r", Source: "a", Target: "b", Type: "knows", ValidFrom: from, ValidTo: to, Version: version, RecordedAt: time.UnixMilli(100),
	}}
}

func TestMomentSelects(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli
	for _, test := range []struct {
		name                   string
		from, to               time.Time
		recordedAt, replacedAt int64 // replacedAt 0: newest
		moment                 graph.Moment
		want                   bool
	}{
		{name: "no bounds", want: true},
		{name: "from now", from: at(50), want: true},
		{name: "later", from: at(51)},
		{name: "until now", to: at(50)},
		{name: "until later", to: at(51), want: true},
		{name: "as of", to: at(50), moment: graph.Moment{AsOf: at(49)}, want: true},
		{name: "any time", to: at(50), moment: graph.Moment{AnyTime: true}, want: true},
		{name: "replaced", replacedAt: 30},
		{name: "known", recordedAt: 10, replacedAt: 30, moment: graph.Moment{KnownAt: at(29)}, want: true},
		{name: "known when it was replaced", recordedAt: 10, replacedAt: 30, moment: graph.Moment{KnownAt: at(30)}},
		{name: "not known yet", recordedAt: 10, moment: graph.Moment{KnownAt: at(9)}},
		{name: "not known yet, any time", recordedAt: 10, moment: graph.Moment{KnownAt: at(9), AnyTime: true}},
	} {
		r := graph.Relationship{ValidFrom: test.from, ValidTo: test.to, RecordedAt: at(test.recordedAt)}
		if test.replacedAt != 0 {
			r.ReplacedAt = at(test.replacedAt)
		}
		if got := graphdriver.Selects(test.moment, &r, at(50)); got != test.want {
			t.Errorf("%s: Selects() = %t, want %t", test.name, got, test.want)
		}
	}
}

func TestNextVersionKeepsTheOrderOfRecords(t *testing.T) {
	t.Parallel()
	next := row(1, time.UnixMilli(1), time.Time{})
	next.RecordedAt = time.UnixMilli(50) // the clock was set back
	got, changed, err := graphdriver.NextVersion(row(3, time.Time{}, time.Time{}), next)
	if err != nil || !changed || got.Version != 4 || !got.RecordedAt.Equal(time.UnixMilli(100)) {
		t.Errorf("NextVersion() = %+v, %t, %v, want version 4 at 100 ms", got, changed, err)
	}
	if _, changed, err := graphdriver.NextVersion(next, next); changed || err != nil {
		t.Errorf("NextVersion() of an equal row = %t, %v, want no change", changed, err)
	}
	next.Target = "c"
	_, _, err = graphdriver.NextVersion(row(3, time.Time{}, time.Time{}), next)
	var conflict *graph.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, graph.ErrConflict) || conflict.Field != "target" {
		t.Errorf("NextVersion() with another target = %v, want a ConflictError", err)
	}
}

func TestEndedChecksTheInterval(t *testing.T) {
	t.Parallel()
	old := row(1, time.UnixMilli(10), time.UnixMilli(90))
	for at, want := range map[int64]string{
		9:  `graph: ends: relationship "r": is valid from 1970-01-01T00:00:00.010Z, cannot end at 1970-01-01T00:00:00.009Z`,
		10: `graph: ends: relationship "r": is valid from 1970-01-01T00:00:00.010Z, cannot end at 1970-01-01T00:00:00.010Z`,
		11: "", 90: "unchanged",
		91: `graph: ends: relationship "r": ends at 1970-01-01T00:00:00.090Z, cannot end later`,
	} {
		_, changed, err := graphdriver.Ended(old, graph.End{ID: "r", At: time.UnixMilli(at)}, time.UnixMilli(200))
		got := ""
		if err != nil {
			got = err.Error()
		} else if !changed {
			got = "unchanged"
		}
		if got != want {
			t.Errorf("Ended(%d) = %q, want %q", at, got, want)
		}
	}
}
