package holdfast

import (
	"context"

	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/vector/documents"
)

// Contracts returns the turn for the methods of contracts that are not part of Holdfast.
// [Config].Contracts lists them.
func (t *Turn) Contracts() contract.Turn { return t.turn.Contracts() }

// State returns the state of the conversation: a JSON object that belongs to the task's owner
// and context and to the agent, and that all tasks of the context share. Changes are part of
// the turn's commits: they are applied exactly once, or not at all if the task is canceled
// first. Every attempt must make the same calls in the same order; see [states.State].
func (t *Turn) State() *states.State { return states.For(t.turn.Contracts()) }

// Board returns the task boards of the conversation: the agent's plan as a list of tasks with
// states and retries. Changes are applied exactly once, as with [Turn.State].
func (t *Turn) Board() *boards.Boards { return boards.For(t.turn.Contracts()) }

// Transcript returns the transcript of the conversation: messages as JSON that the agent keeps,
// such as those that it exchanges with a model. Appends are committed with the turn, exactly once.
// Every attempt must make the same calls in the same order; see [transcripts.Transcript].
func (t *Turn) Transcript() *transcripts.Transcript { return transcripts.For(t.turn.Contracts()) }

// Remember stores a fact that later tasks of the same owner can recall, in all conversations. It is
// committed with the turn, exactly once, as with [Turn.State]; see [facts.Facts.Remember].
func (t *Turn) Remember(ctx context.Context, content string, p facts.RememberParams) error {
	return facts.For(t.turn.Contracts()).Remember(ctx, content, p)
}

// Recall returns the facts that match a query, by falling score. An empty query returns the newest
// facts. A later attempt of the turn gets the same result if it was followed by a commit.
func (t *Turn) Recall(ctx context.Context, query string, p facts.RecallParams) ([]memory.Memory, error) {
	return facts.For(t.turn.Contracts()).Recall(ctx, query, p)
}

// Forget removes facts of a namespace, "" for the default one. It is committed like Remember.
func (t *Turn) Forget(ctx context.Context, namespace string, ids ...string) error {
	return facts.For(t.turn.Contracts()).Forget(ctx, namespace, ids...)
}

// Blobs returns the blobs of the task's owner: files that are stored once and read as streams. A
// blob that the handler stores is kept as long as the task; see [blobs.Blobs].
func (t *Turn) Blobs() *blobs.Blobs { return blobs.For(t.turn.Contracts()) }

// Documents returns a collection of documents of the task's owner, "" for the default one. They are
// found by meaning if the agent has an embedder ([Config].Contracts), otherwise by words. Writes are
// committed with the turn, exactly once, as with [Turn.State]; see [documents.Documents].
func (t *Turn) Documents(collection string) *documents.Documents {
	return documents.For(t.turn.Contracts(), collection)
}

// Graph returns a graph of the task's owner, "" for the default one. Writes are committed with the turn,
// exactly once, as with [Turn.State]; see [graphs.Graph].
func (t *Turn) Graph(name string) *graphs.Graph { return graphs.For(t.turn.Contracts(), name) }
