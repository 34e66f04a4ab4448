package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Parts are parts of the command that a build may lack, because their libraries are large. The zero
// value has none of them; the command then names the build that has a part.
type Parts struct {
	// Reader reads documents.
	Reader summarize.Reader
	// Stores open contracts on systems that have no tasks, by the kind of storage: redis and s3.
	Stores map[string]StoreOpener
	// Kinds and Commands are contracts of the build and their commands, after Holdfast's own.
	Kinds    []*contract.Kind
	Commands []command.Command
	// Suites returns the conformance suites of a store.
	Suites func(ctx context.Context, s StoreToCheck) ([]Suite, error)
	// GRPC makes serve listen for gRPC too.
	GRPC *GRPC
}

// fullBuild and checkBuild name the builds of the command that have parts, and their documentation.
const (
	fullBuild  = "holdfast-full (docs/operations.md#builds)"
	checkBuild = "holdfast-check (docs/operations.md#builds)"
)

// StoreOpener opens the contracts of a kind of storage. Errors of both functions contain no secrets.
type StoreOpener struct {
	// Check returns an error if the URL of a contract is invalid.
	Check func(url string) error
	// Open opens the place of a URL. The command closes it.
	Open func(ctx context.Context, p OpenParams) (OpenedContracts, error)
}

// OpenParams are the params of [StoreOpener].
type OpenParams struct {
	// URL selects the place, as in --store-history. It may contain secrets.
	URL string
	// Main is the store of tasks.
	Main store.Store
	// Age returns for how long the server stores data of a kind of its retention. nil means without
	// limit.
	Age func(kind string) time.Duration
}

// WithRefs returns blobs with contents on another system, and refs in the main store.
func (p *OpenParams) WithRefs(contents blobdriver.Contents) (*blobdriver.Blobs, error) {
	refs := blobsql.RefsOf(p.Main)
	if refs == nil {
		return nil, a2a.Errorf(a2a.CodeUnsupported, "the main storage has no store of refs")
	}
	return blobdriver.New(blob.Config{}, refs, contents), nil
}

// OpenedContracts are the contracts of one place.
type OpenedContracts struct {
	// Stores has one store per contract that the place can keep.
	Stores []contract.Store
	// Ping returns an error if the place does not respond, for /health.
	Ping func(ctx context.Context) error
	// Close releases the place.
	Close func() error
}

// backends returns all kinds of storage, the default first, with the openers of the build.
func (p *Parts) backends() []backend {
	all := backends()
	for i := range all {
		b := &all[i]
		if b.open != nil {
			continue
		}
		opener, ok := p.Stores[b.kind]
		if !ok {
			opener.Check = func(string) error {
				return fmt.Errorf("needs a build with stores of the kind %s: use the command %s", b.kind, fullBuild)
			}
		}
		b.check, b.connect = opener.Check, opener.Open
	}
	return all
}
