package holdfast

import (
	"context"

	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// Transcript is the transcript of a turn's conversation. See [Turn.Transcript].
type Transcript = engine.Transcript

// RememberParams are the arguments of [Turn.Remember].
type RememberParams = engine.RememberParams

// RecallParams are the arguments of [Turn.Recall].
type RecallParams = engine.RecallParams

// Blobs are the blobs of a turn's owner. See [Turn.Blobs].
type Blobs = engine.Blobs

// BlobParams describe a new blob. See [Blobs.Put].
type BlobParams = engine.BlobParams

// Documents is a collection of documents that are found by meaning. See [Turn.Documents].
type Documents = engine.Documents

// Graph has entities and relationships between them. See [Turn.Graph].
type Graph = engine.Graph

// Transcript returns the transcript of the conversation: messages as JSON that the agent keeps,
// such as those that it exchanges with a model. Appends are committed with the turn, exactly once.
// Every attempt must make the same calls in the same order; see [Transcript].
func (t *Turn) Transcript() *Transcript { return t.turn.Transcript() }

// Remember stores a fact that later tasks of the same owner can recall, in all conversations. It is
// committed with the turn, exactly once, as with [Turn.State]; see [engine.Turn.Remember].
func (t *Turn) Remember(ctx context.Context, content string, p RememberParams) error {
	return t.turn.Remember(ctx, content, p)
}

// Recall returns the facts that match a query, by falling score. An empty query returns the newest
// facts. A later attempt of the turn gets the same result if it was followed by a commit.
func (t *Turn) Recall(ctx context.Context, query string, p RecallParams) ([]memory.Memory, error) {
	return t.turn.Recall(ctx, query, p)
}

// Forget removes facts of a namespace, "" for the default one. It is committed like Remember.
func (t *Turn) Forget(ctx context.Context, namespace string, ids ...string) error {
	return t.turn.Forget(ctx, namespace, ids...)
}

// Blobs returns the blobs of the task's owner: files that are stored once and read as streams. A
// blob that the handler stores is kept as long as the task; see [Blobs].
func (t *Turn) Blobs() *Blobs { return t.turn.Blobs() }

// Documents returns a collection of documents of the task's owner, "" for the default one. They are
// found by meaning if the agent has an embedder ([Config].Contracts), otherwise by words. Writes are
// committed with the turn, exactly once, as with [Turn.State]; see [Documents].
func (t *Turn) Documents(collection string) *Documents { return t.turn.Documents(collection) }

// Graph returns a graph of the task's owner, "" for the default one. Writes are committed with the turn,
// exactly once, as with [Turn.State]; see [Graph].
func (t *Turn) Graph(name string) *Graph { return t.turn.Graph(name) }
