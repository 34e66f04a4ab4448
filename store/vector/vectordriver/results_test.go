package vectordriver_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
)

func TestMinScoreIncludesItsBound(t *testing.T) {
	t.Parallel()
	least := 0.5
	p := vector.SearchParams{Limit: 10, MinScore: &least}
	for score, want := range map[float64]int{0.75: 1, 0.5: 1, 0.25: 0} {
		c := vectordriver.NewCollector(&p)
		c.Add(new(vectordriver.Row), score, vector.Scores{})
		if got := len(c.Hits()); got != want {
			t.Errorf("Add(score %g) with a least score of %g = %d hits, want %d", score, least, got, want)
		}
	}
}
