// Package all has the list of the contracts.
package all

import (
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/vector/documents"
)

// Kinds returns the contracts in the order of an export.
func Kinds() []*contract.Kind {
	return []*contract.Kind{
		transcripts.Kind,
		facts.Kind,
		documents.Kind,
		graphs.Kind,
		blobs.Kind,
		states.Kind,
		boards.Kind,
	}
}
