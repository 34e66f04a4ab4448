package holdfast_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/vector"
)

func TestNotFoundHasOneCodeInEachContract(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		store.ErrNotFound, blob.ErrNotFound, board.ErrNotFound, history.ErrNotFound,
		memory.ErrFactNotFound, vector.ErrCollectionNotFound, graph.ErrRelationshipNotFound,
	} {
		if code := a2a.CodeOf(err); code != a2a.CodeNotFound {
			t.Errorf("%v has the code %s, want %s", err, code, a2a.CodeNotFound)
		}
	}
}
