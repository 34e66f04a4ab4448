package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// messageOverhead is what a message costs beside its content.
const messageOverhead = 128

// historyPage is how many tasks' messages are read at a time.
const historyPage = 100

// Conversation is a context with messages of its tasks.
type Conversation struct {
	store.Context
	// History is as much as was asked for and fits, oldest task first and in the
	// order of the log within a task.
	History []a2a.Message
}

// Context returns a context of the principal with the ids of its newest 1,000
// tasks. historyLength keeps the newest messages of each task; nil keeps all, as
// far as Limits.PageBytes go: what is newest comes first. Errors:
// context_not_found, invalid_params.
func (e *Engine) Context(ctx context.Context, p a2a.Principal, id string, historyLength *int) (*Conversation, error) {
	if err := checkHistoryLength("historyLength", historyLength); err != nil {
		return nil, err
	}
	c, err := e.context(ctx, store.ContextKey{Owner: p.ID, ID: id}, shownTasks)
	if err != nil {
		return nil, err
	}
	out := &Conversation{Context: c}
	if historyLength != nil && *historyLength == 0 {
		return out, nil
	}
	h := history{e: e, perTask: historyLength, bytes: e.cfg.Limits.PageBytes}
	out.History, err = h.read(ctx, store.Query{Owner: p.ID, ContextID: id})
	return out, err
}

// history gathers the newest messages of a context's tasks. Its limits are those
// that are left.
type history struct {
	e       *Engine
	perTask *int // the limit for each task; nil is all
	tasks   int  // the limit of tasks; 0 is none
	limit   int  // the limit of messages; 0 is none
	bytes   int  // at most so much content, but one message in any case
	used    int
	full    bool // something was left out because of bytes
	newest  []a2a.Message
}

// read takes messages from the tasks that q selects, newest task first, until
// something is used up, and returns what was taken, oldest first.
func (h *history) read(ctx context.Context, q store.Query) ([]a2a.Message, error) {
	q.ByCreated = true
	for {
		q.Limit = historyPage
		if h.tasks > 0 {
			q.Limit = min(q.Limit, h.tasks)
		}
		if h.limit > 0 { // each task has a message
			q.Limit = min(q.Limit, h.limit-len(h.newest))
		}
		q.Bytes = max(h.bytes-h.used, 1)
		q.Options = store.TaskOptions{History: h.perTask, OmitArtifacts: true}
		if left := h.limit - len(h.newest); h.limit > 0 && (h.perTask == nil || left < *h.perTask) {
			q.Options.History = &left
		}
		page, err := h.e.cfg.Store.Tasks(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tasks {
			if !h.take(t.History) {
				return h.messages(), nil
			}
		}
		if h.tasks > 0 {
			if h.tasks -= len(page.Tasks); h.tasks <= 0 {
				return h.messages(), nil
			}
		}
		if q.Cursor = page.Next; q.Cursor == nil {
			return h.messages(), nil
		}
	}
}

// take takes the entries of a task, newest first, and reports whether there may be
// more.
func (h *history) take(entries []store.Entry) bool {
	for _, entry := range slices.Backward(entries) {
		if h.limit > 0 && len(h.newest) >= h.limit {
			return false
		}
		size := messageSize(&entry.Message)
		if len(h.newest) > 0 && h.used+size > h.bytes {
			h.full = true
			return false
		}
		h.used += size
		h.newest = append(h.newest, entry.Message)
	}
	return h.limit == 0 || len(h.newest) < h.limit
}

// messages returns what was taken, oldest first.
func (h *history) messages() []a2a.Message {
	slices.Reverse(h.newest)
	return h.newest
}

func messageSize(m *a2a.Message) int {
	return messageOverhead + store.PartsSize(m.Parts) + mapSize(m.Metadata)
}

// mapSize is roughly how many bytes a free-form map takes.
func mapSize(m map[string]any) int {
	if len(m) == 0 {
		return 0
	}
	raw, _ := wire.Marshal(m) // what cannot be encoded is refused elsewhere
	return len(raw)
}

// Bounds of Turn.History.
const (
	defaultHistory = 100
	maxHistory     = 1000
)

// History returns the conversation before this turn: the messages of those tasks
// of the context that were created before this one, in the order of their
// creation, then those of this task before this turn. It is the newest limit of
// them, oldest first: 100 when limit is 0, at most 1,000, and no more content than
// Limits.PageBytes. What earlier tasks that still run have said so far is part of
// it. It reads the store no further than needed. As Turn.Reserve does, it holds
// Config.Memory: Limits.PageBytes while it reads, then, until the handler returns, what
// the largest of its results takes.
func (t *Turn) History(ctx context.Context, limit int) ([]a2a.Message, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, a2a.Invalid("limit", "is %d, want 0 or more", limit)
	}
	e := t.r.e
	h := history{e: e, limit: min(cmp.Or(limit, defaultHistory), maxHistory), bytes: int(min(int64(e.cfg.Limits.PageBytes), e.cfg.Memory.Share()/2))}
	hold := t.hold()
	if err := grow(ctx, &hold, int64(h.bytes)); err != nil {
		return nil, err
	}
	messages, err := t.history(ctx, &h)
	hold.Shrink(hold.Bytes() - int64(h.used))
	if err := t.reserved.keep("History", &hold); err != nil {
		return nil, err
	}
	return messages, handlerError(ctx, err)
}

func (t *Turn) history(ctx context.Context, h *history) ([]a2a.Message, error) {
	var own []store.Entry
	for _, m := range t.TaskHistory() {
		own = append(own, store.Entry{Message: m})
	}
	if !h.take(own) {
		return h.messages(), nil
	}
	return h.read(ctx, store.Query{
		Owner: t.Owner(), ContextID: t.ContextID(),
		Cursor: &store.Cursor{Time: t.task.CreatedAt, ID: t.TaskID()},
	})
}

// handlerError returns an error of the store as a handler may see it.
func handlerError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return unstored(err)
}

// Context returns the record of the context that the task belongs to, with the
// ids of its newest 1,000 tasks.
func (t *Turn) Context(ctx context.Context) (store.Context, error) {
	if err := t.usable(); err != nil {
		return store.Context{}, err
	}
	c, err := t.r.e.context(ctx, store.ContextKey{Owner: t.Owner(), ID: t.ContextID()}, shownTasks)
	if a2a.CodeOf(err) == a2a.CodeContextNotFound {
		return c, err
	}
	return c, handlerError(ctx, err)
}

// Reference is a task that a message refers to, as it stood when it was read. It
// must not be changed.
type Reference struct {
	TaskID    string
	ContextID string
	State     a2a.TaskState
	History   []a2a.Message
	Artifacts []a2a.Artifact
}

// References returns the tasks that the messages of this turn and the earlier
// ones of its task name in referenceTaskIds, each once, in the order in which they
// were first named: of the same owner, and at most Limits.References, those named
// last. Tasks that are no more are left out. Together they may hold
// Limits.ArtifactBytes; more is an error. They draw from
// Config.Memory until the handler returns, as with Turn.Reserve.
func (t *Turn) References(ctx context.Context) ([]Reference, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	ids := t.referenceIDs()
	hold, err := t.holdTasks(ctx, ids)
	if err != nil {
		return nil, err
	}
	if err := t.reserved.keep("References", &hold); err != nil {
		return nil, err
	}
	var refs []Reference
	size, limit := 0, t.r.e.cfg.Limits.ArtifactBytes
	for _, id := range ids {
		task, err := t.r.e.Task(ctx, a2a.Principal{ID: t.Owner()}, id, nil)
		if a2a.CodeOf(err) == a2a.CodeTaskNotFound {
			continue
		}
		if err != nil {
			return nil, handlerError(ctx, err)
		}
		if size += task.Size(); size > limit {
			return nil, a2a.Errorf(a2a.CodeTooLarge, "the tasks referred to hold more than %d bytes", limit)
		}
		ref := Reference{TaskID: id, ContextID: task.ContextID, State: task.Status.State, Artifacts: task.Artifacts}
		for _, entry := range task.History {
			ref.History = append(ref.History, entry.Message)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// holdTasks holds memory for tasks that are about to be read.
func (t *Turn) holdTasks(ctx context.Context, ids []string) (memory.Hold, error) {
	hold := t.hold()
	if len(ids) == 0 {
		return hold, nil
	}
	keys := make([]store.Key, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, store.Key{Owner: t.Owner(), ID: id})
	}
	versions, err := t.r.e.cfg.Store.Versions(ctx, keys)
	if err != nil {
		return hold, handlerError(ctx, err)
	}
	var bytes int64
	for _, v := range versions {
		bytes += v.Bytes
	}
	return hold, grow(ctx, &hold, min(bytes, int64(t.r.e.cfg.Limits.ArtifactBytes)))
}

// referenceIDs are the ids of the tasks referred to.
func (t *Turn) referenceIDs() []string {
	var ids []string
	for _, m := range slices.Concat(t.TaskHistory(), t.messages) {
		for _, id := range m.ReferenceTaskIDs {
			if m.Role != a2a.RoleAgent && id != t.TaskID() && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids[max(0, len(ids)-t.r.e.cfg.Limits.References):]
}
