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
	// Handle runs one turn of a task. A nil error completes the task. The methods that end a
	// turn, such as [Turn.Reply], [Turn.RequireInput], [Turn.Reject] and [Turn.Fail], return
	// the error to return here. Any other error fails the task with its text, unless it is
	// wrapped by [Retry].
	//
	// Handle must return soon after ctx is done. [context.Cause] reports why: the task was
	// canceled, the turn ran too long, or the process stops.
	Handle(ctx context.Context, t *Turn) error
}

// HandlerFunc adapts a function to a [Handler].
type HandlerFunc func(ctx context.Context, t *Turn) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, t *Turn) error { return f(ctx, t) }

// Causes for the end of a handler's context, as reported by [context.Cause].
var (
	// ErrCanceled: a client canceled the task.
	ErrCanceled = engine.ErrCanceled
	// ErrTimeout: the turn ran longer than [engine.Turns.Timeout].
	ErrTimeout = engine.ErrTimeout
	// ErrStopping: the process stops. The turn will run again.
	ErrStopping = engine.ErrStopping
	// ErrLeaseLost: another process runs the task, or may run it because this process could
	// not renew its lease in time.
	ErrLeaseLost = engine.ErrLeaseLost
)

// ErrEnded is returned by the methods of a [Turn] after its handler has returned.
var ErrEnded = engine.ErrEnded

// Retry marks an error as temporary. The turn runs again after a delay that grows with each
// attempt. After [engine.Turns.MaxAttempts] attempts the task fails. Retry(nil) is nil.
func Retry(err error) error { return engine.Retry(err) }

// Step runs fn and stores its result. A later attempt of the turn returns the stored result
// instead of calling fn again. The result is stored as JSON and may have up to 4 MiB. Step
// returns an error of fn without storing it.
//
// Steps are identified by name and, if a name is used more than once, by order. Every
// attempt must use the same names in the same order.
//
// Artifact content that fn writes belongs to the step: if a later attempt reads the stored
// result, the content is written again too. Pass fn's context to steps within fn. Writes to
// artifacts fail while several steps run at the same time, unless they are nested, because
// it is unknown to which step the content belongs.
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

// Turn gives a handler the messages to answer and the means to answer them. It is safe for
// concurrent use. After the handler has returned, its methods return [ErrEnded]. It has many methods,
// because a handler has no other argument.
type Turn struct {
	turn  *engine.Turn
	files *fileReader
}

// TaskID returns the task's ID.
func (t *Turn) TaskID() string { return t.turn.TaskID() }

// ContextID returns the ID of the task's context, that is, of its conversation.
func (t *Turn) ContextID() string { return t.turn.ContextID() }

// Owner returns the ID of the principal that owns the task.
func (t *Turn) Owner() string { return t.turn.Owner() }

// Principal returns the principal that sent the newest message which the handler has received, with the facts that the
// authenticator verified when the message arrived, such as its roles. A principal without facts has only an ID.
func (t *Turn) Principal() a2a.Principal { return t.turn.Principal() }

// Number returns the number of this turn within the task, starting at 1.
func (t *Turn) Number() int { return t.turn.Number() }

// Attempt returns the number of this attempt of the turn, starting at 1. It is greater than
// 1 if an earlier attempt ended with its process or returned an error wrapped by [Retry].
// Turns that a stopping process requeued do not count.
func (t *Turn) Attempt() int { return t.turn.Attempt() }

// Message returns the newest message that this turn is to answer.
func (t *Turn) Message() a2a.Message {
	messages := t.turn.Messages()
	return messages[len(messages)-1]
}

// Messages returns the messages that this turn is to answer, oldest first. There is more
// than one if several arrived before the turn started.
func (t *Turn) Messages() []a2a.Message { return t.turn.Messages() }

// Text returns the text of the turn's messages, joined by line breaks.
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

// Files returns the file parts of the turn's messages. [Turn.ReadFile] reads their content.
func (t *Turn) Files() []a2a.FilePart {
	var files []a2a.FilePart
	for _, m := range t.turn.Messages() {
		files = append(files, m.Files()...)
	}
	return files
}

// Data returns the data parts of the turn's messages.
func (t *Turn) Data() []a2a.DataPart {
	var data []a2a.DataPart
	for _, m := range t.turn.Messages() {
		data = append(data, m.Data()...)
	}
	return data
}

// History returns up to limit of the newest messages of the task's context before this turn,
// oldest first. They are the messages of the context's earlier tasks, in the order in which
// the tasks were created, followed by the messages of this task. If limit is 0, it is 100. The
// result has at most 1,000 messages and about 8 MiB ([engine.Limits.PageBytes]).
//
// Each call reads the store. The memory for the largest result counts toward
// [Config.Memory] until the handler returns, as with [Turn.Reserve].
func (t *Turn) History(ctx context.Context, limit int) ([]a2a.Message, error) {
	return t.turn.History(ctx, limit)
}

// TaskHistory returns the messages of this task before this turn, oldest first. As in
// [Turn.History] and [Turn.Artifacts], files above 64 KiB are references; [Turn.ReadFile]
// and [Turn.OpenFile] read their content.
func (t *Turn) TaskHistory() []a2a.Message { return t.turn.TaskHistory() }

// Context returns the task's context: its name, status, tags, metadata
// and the IDs of its newest 1,000 tasks. Each call reads the store.
func (t *Turn) Context(ctx context.Context) (store.Context, error) { return t.turn.Context(ctx) }

// References returns the tasks that the messages of this task name in referenceTaskIds, in
// the order in which they were first named, with their current history, artifacts and
// state. Deleted tasks are left out. At most 32 tasks are read, those named last
// ([engine.Limits.References]). It returns an error if their content exceeds 64 MiB
// ([engine.Limits.ArtifactBytes]). The memory counts toward [Config.Memory] until the
// handler returns, as with [Turn.Reserve].
func (t *Turn) References(ctx context.Context) ([]engine.Reference, error) {
	return t.turn.References(ctx)
}

// Artifacts returns the task's artifacts at the start of the turn. Every attempt returns the
// same ones, without the output of interrupted attempts. Callers must not modify them.
func (t *Turn) Artifacts() []a2a.Artifact { return t.turn.Artifacts() }

// Metadata returns the task's metadata at the start of the turn, without changes of interrupted
// attempts. Callers must not modify it.
func (t *Turn) Metadata() map[string]any { return t.turn.Metadata() }

// SetMetadata applies a JSON merge patch (RFC 7396) to the task's metadata: nil removes a
// member, objects (map[string]any) merge recursively, any other value replaces. It returns
// an error if the metadata would exceed 64 KiB of JSON.
func (t *Turn) SetMetadata(patch map[string]any) error { return t.turn.SetMetadata(patch) }

// Inbox returns the messages that arrived since the turn started or since the last call of
// Inbox or Receive. The turn then has to answer them too. Messages that are not read this
// way start another turn before the task can end.
func (t *Turn) Inbox() []a2a.Message { return t.turn.Inbox() }

// Receive is like [Turn.Inbox] but waits until a message arrives or ctx is done.
func (t *Turn) Receive(ctx context.Context) ([]a2a.Message, error) { return t.turn.Receive(ctx) }

// Reserve reserves bytes of [Config.Memory] for content that the handler is about to load,
// such as a download. The reservation ends when release is called or the handler returns.
// Reserve waits up to 10 s for free memory. After that it returns an error with
// [a2a.CodeExhausted], or ctx's cause if ctx is done first. A handler that returns this
// error runs again when memory may be free, and the attempt does not count. The code is
// [a2a.CodeTooLarge] if the turn would hold more than the share of one owner.
// [Turn.ReadFile] reserves memory itself.
func (t *Turn) Reserve(ctx context.Context, bytes int64) (release func(), err error) {
	return t.turn.Reserve(ctx, bytes)
}

// Status reports progress, such as "reading page 3 of 200". Clients that follow the task
// receive it as an event with the state working.
func (t *Turn) Status(text string) error { return t.turn.Status(text) }

// Artifact starts an artifact that is written in chunks. Close completes it; otherwise it is
// complete at the end of the turn. The task keeps the artifacts that the turn's final
// attempt wrote, as if the turn had not been interrupted: see [engine.ArtifactWriter].
func (t *Turn) Artifact(name string) *engine.ArtifactWriter { return t.turn.Artifact(name) }

// OpenArtifact returns the incomplete artifact with the given name, or starts one. Use it
// for an artifact that is written both within and outside of steps: an artifact that a
// recorded step started is open as if the step had run again.
func (t *Turn) OpenArtifact(name string) *engine.ArtifactWriter { return t.turn.OpenArtifact(name) }

// AddArtifact adds a complete artifact. If its ID is empty, the ID is derived from the name.
func (t *Turn) AddArtifact(a a2a.Artifact) error { return t.turn.AddArtifact(a) }

// Flush commits the pending progress and chunks and returns when they are stored.
func (t *Turn) Flush() error { return t.turn.Flush() }

// Reply completes the task with a message. Use it as: return t.Reply("...").
func (t *Turn) Reply(text string, more ...a2a.Part) error {
	return t.turn.Reply(parts(text, more)...)
}

// Say completes the task with a message that answers the client in place of the task. Use it for
// answers that need no task, such as: return t.Say("Hello!"). The client gets the message alone if
// its message started the task, it waits for the answer, it registered no webhook, and the
// handler reported nothing else, such as a status or an artifact. A stream also requires
// [server.Requests.MessageWait]. Otherwise, Say is like [Turn.Reply]. The task is stored in any case: a
// repeated request gets the same message, and clients can list and read the task.
func (t *Turn) Say(text string, more ...a2a.Part) error {
	return t.turn.Say(parts(text, more)...)
}

// RequireInput pauses the task with a question. The client's next message starts a new
// turn. Use it as: return t.RequireInput("Which date range?").
func (t *Turn) RequireInput(text string, more ...a2a.Part) error {
	return t.turn.RequireInput(parts(text, more)...)
}

// RequireAuth pauses the task until the client has provided the authorization that text
// describes. The client's next message starts a new turn.
func (t *Turn) RequireAuth(text string, more ...a2a.Part) error {
	return t.turn.RequireAuth(parts(text, more)...)
}

// Reject ends the task as rejected: the agent declines to do it. Clients see the reason.
func (t *Turn) Reject(reason string, more ...a2a.Part) error {
	return t.turn.Reject(parts(reason, more)...)
}

// Fail ends the task as failed. Clients see the text of err. Returning err itself has the
// same effect.
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
