package holdfast

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// Handler does the work of an agent.
type Handler interface {
	// Handle runs one turn of a task. It returns nil when the task is completed,
	// or what one of the turn's ending methods returns ([Turn.Reply],
	// [Turn.RequireInput], [Turn.Reject], [Turn.Fail]), or a plain error, which
	// fails the task with its text. It must return soon after ctx is done: that
	// the task was cancelled, has run too long, or that the process stops is told
	// by [context.Cause].
	Handle(ctx context.Context, t *Turn) error
}

// HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, t *Turn) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, t *Turn) error { return f(ctx, t) }

// Causes with which a handler's context ends, by [context.Cause].
var (
	// ErrCanceled: the client cancelled the task.
	ErrCanceled = engine.ErrCanceled
	// ErrTimeout: the turn ran longer than [Config.TaskTimeout].
	ErrTimeout = engine.ErrTimeout
	// ErrStopping: the process stops; the turn will be run again.
	ErrStopping = engine.ErrStopping
	// ErrLeaseLost: another process runs the task, or may run it since the store did not
	// renew the lease in time.
	ErrLeaseLost = engine.ErrLeaseLost
)

// ErrEnded is returned by the methods of a Turn whose handler has returned.
var ErrEnded = engine.ErrEnded

// Retry marks an error as passing: the turn is run again after a pause that
// grows with each attempt, and the task fails after [Config.MaxAttempts]. Retry(nil)
// is nil.
func Retry(err error) error { return engine.Retry(err) }

// Step runs fn once per turn, however often the turn is begun: its result is
// stored as JSON, and a later attempt reads it back instead of calling fn. The
// same name used again in one attempt is another step, distinguished by its order;
// use names in the same order in every attempt. A result may have 4 MiB. An
// error of fn is returned and not stored.
//
// What is written to artifacts while fn runs belongs to the step: a later attempt that
// reads the result back writes it again, too. Give a step within fn the context that fn
// got. Write artifacts outside of steps that run at the same time: such writes are
// refused, since it is not known whose they are.
func Step[T any](ctx context.Context, t *Turn, name string, fn func(context.Context) (T, error)) (T, error) {
	var result T
	raw, err := t.turn.Step(ctx, name, func(ctx context.Context) ([]byte, error) {
		v, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("step %s: result: %w", a2a.Quote(name), err)
		}
		return raw, nil
	})
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return result, fmt.Errorf("step %s: stored result: %w", a2a.Quote(name), err)
	}
	return result, nil
}

// Turn is what a handler is given: the messages that call for work, and the
// means to answer. It is safe for concurrent use and ends when the handler
// returns; its methods then return [ErrEnded].
type Turn struct {
	turn  *engine.Turn
	files *fileReader
}

// TaskID is the task's id.
func (t *Turn) TaskID() string { return t.turn.TaskID() }

// ContextID is the id of the conversation the task belongs to.
func (t *Turn) ContextID() string { return t.turn.ContextID() }

// Owner is the id of the principal whose task it is.
func (t *Turn) Owner() string { return t.turn.Owner() }

// Number counts the task's turns, from 1.
func (t *Turn) Number() int { return t.turn.Number() }

// Attempt counts how often this turn has begun, from 1. Above 1, an earlier
// attempt ended with its process or asked for another by [Retry]; a turn that a
// stopping process handed back has not been counted.
func (t *Turn) Attempt() int { return t.turn.Attempt() }

// Message is the newest of the messages that this turn is to answer.
func (t *Turn) Message() a2a.Message {
	messages := t.turn.Messages()
	return messages[len(messages)-1]
}

// Messages are the messages that this turn is to answer, oldest first: one, or
// more when several came while the task could not take them.
func (t *Turn) Messages() []a2a.Message { return t.turn.Messages() }

// Text is the text of the turn's messages, joined by line breaks.
func (t *Turn) Text() string {
	text := ""
	for _, m := range t.turn.Messages() {
		if part := m.Text(); part != "" {
			if text != "" {
				text += "\n"
			}
			text += part
		}
	}
	return text
}

// Files are the file parts of the turn's messages. [Turn.ReadFile] reads them.
func (t *Turn) Files() []a2a.FilePart {
	var files []a2a.FilePart
	for _, m := range t.turn.Messages() {
		files = append(files, m.Files()...)
	}
	return files
}

// Data are the data parts of the turn's messages.
func (t *Turn) Data() []a2a.DataPart {
	var data []a2a.DataPart
	for _, m := range t.turn.Messages() {
		data = append(data, m.Data()...)
	}
	return data
}

// History returns the conversation before this turn: the messages of the context's
// tasks that were created before this one, in the order of their creation, then
// those of this task. It is the newest limit of them, oldest first: 100 when limit
// is 0, at most 1,000 and about 8 MiB ([engine.Limits.PageBytes]). Each call reads
// the store. It holds [Config.Memory] as Reserve does, until the handler returns, for the
// largest of its results.
func (t *Turn) History(ctx context.Context, limit int) ([]a2a.Message, error) {
	return t.turn.History(ctx, limit)
}

// TaskHistory are the messages of this task before this turn, oldest first.
func (t *Turn) TaskHistory() []a2a.Message { return t.turn.TaskHistory() }

// Context returns the record of the conversation the task belongs to: its name,
// status, tags, metadata and the ids of its newest 1,000 tasks. Each call reads
// the store.
func (t *Turn) Context(ctx context.Context) (store.Context, error) { return t.turn.Context(ctx) }

// Reference is a task that the client's messages refer to.
type Reference = engine.Reference

// References returns the tasks that the messages of this turn, or earlier ones of
// the task, name in referenceTaskIds: with history, artifacts and state as they
// stand, in the order in which they were first named. Tasks that are no more are
// left out; at most 32 are read ([engine.Limits.References]), those named last. It
// is an error when they hold more than 64 MiB ([engine.Limits.ArtifactBytes]). What they hold
// comes out of [Config.Memory], as with Reserve, until the handler returns.
func (t *Turn) References(ctx context.Context) ([]Reference, error) { return t.turn.References(ctx) }

// Artifacts returns the task's artifacts as the turn started, in every attempt: without
// those of an attempt that was interrupted. They must not be changed.
func (t *Turn) Artifacts() []a2a.Artifact { return t.turn.Artifacts() }

// Metadata is the task's metadata as the turn began. It must not be changed.
func (t *Turn) Metadata() map[string]any { return t.turn.Metadata() }

// SetMetadata changes the task's metadata by a JSON merge patch (RFC 7396): nil removes a
// member, objects (map[string]any) merge recursively, any other value replaces. It returns an
// error if the metadata would exceed 64 KiB of JSON.
func (t *Turn) SetMetadata(patch map[string]any) error { return t.turn.SetMetadata(patch) }

// Inbox returns the messages that have arrived since the turn began or Inbox was
// last called, and takes them: the turn answers them too. Messages not taken
// begin a turn of their own before the task can end.
func (t *Turn) Inbox() []a2a.Message { return t.turn.Inbox() }

// Receive waits for messages as [Turn.Inbox] returns them, until ctx is done.
func (t *Turn) Receive(ctx context.Context) ([]a2a.Message, error) { return t.turn.Receive(ctx) }

// Reserve holds bytes of [Config.Memory] for content that the handler is about to keep in
// memory, such as what it downloads: until release is called, or the handler returns. While
// they are not free it waits up to 10 s and until ctx is done; then it returns an error with
// [a2a.CodeExhausted], or ctx's cause. The code is [a2a.CodeTooLarge] if one owner can never
// hold that much. [Turn.ReadFile] does this by itself.
func (t *Turn) Reserve(ctx context.Context, bytes int64) (release func(), err error) {
	return t.turn.Reserve(ctx, bytes)
}

// Status tells progress, such as "reading page 3 of 200": a working event, shown
// to those who follow the task.
func (t *Turn) Status(text string) error { return t.turn.Status(text) }

// Artifact begins an artifact that is written in chunks. It is complete when the turn
// ends, if not closed before. The artifacts at the end of a turn are those that its final
// attempt wrote, as if nothing had been interrupted: see [ArtifactWriter].
func (t *Turn) Artifact(name string) *ArtifactWriter { return t.turn.Artifact(name) }

// OpenArtifact returns the artifact of a name that [Turn.Artifact] or OpenArtifact began
// and that is not complete, or begins one. Use it for an artifact that is written both
// within steps and outside of them: when a recorded step began it, it is open as if the
// step had run again.
func (t *Turn) OpenArtifact(name string) *ArtifactWriter { return t.turn.OpenArtifact(name) }

// ArtifactWriter streams one artifact. Each write is a chunk, sent soon after to those
// who follow; together the chunks are one artifact.
type ArtifactWriter = engine.ArtifactWriter

// AddArtifact adds a whole artifact. An empty ID is made from the name.
func (t *Turn) AddArtifact(a a2a.Artifact) error { return t.turn.AddArtifact(a) }

// Flush commits what has been told so far and returns when it is stored.
func (t *Turn) Flush() error { return t.turn.Flush() }

// Reply completes the task with a message: return t.Reply("...").
func (t *Turn) Reply(text string, more ...a2a.Part) error {
	return t.turn.Reply(parts(text, more)...)
}

// RequireInput pauses the task with a question. The client's next message begins
// a new turn: return t.RequireInput("Which date range?").
func (t *Turn) RequireInput(text string, more ...a2a.Part) error {
	return t.turn.RequireInput(parts(text, more)...)
}

// RequireAuth pauses the task until the client has authorised what the text says
// and sends another message.
func (t *Turn) RequireAuth(text string, more ...a2a.Part) error {
	return t.turn.RequireAuth(parts(text, more)...)
}

// Reject ends the task: the agent will not do it, and why.
func (t *Turn) Reject(why string, more ...a2a.Part) error {
	return t.turn.Reject(parts(why, more)...)
}

// Fail ends the task: the agent could not do it. Returning err itself does the
// same.
func (t *Turn) Fail(err error) error {
	return t.turn.Fail(parts(err.Error(), nil)...)
}

func parts(text string, more []a2a.Part) []a2a.Part {
	var all []a2a.Part
	if text != "" {
		all = append(all, a2a.TextPart{Text: text})
	}
	return append(all, more...)
}
