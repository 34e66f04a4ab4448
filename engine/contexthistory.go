package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// messageOverhead is counted for each message in addition to its content, in bytes.
const messageOverhead = 128

// historyPage is the maximum number of tasks for which one call reads the messages.
const historyPage = 100

// ContextWithHistory is a context with the messages of its tasks.
type ContextWithHistory struct {
	store.Context
	// History has the requested messages that fit the limits, oldest task first, in log order
	// within a task.
	History []a2a.Message
}

// Context returns a context of the principal with the ids of its newest 1,000 tasks.
// historyLength limits the history to the newest messages of each task; nil returns all. The
// history has the newest messages that fit Limits.PageBytes. Errors: context_not_found,
// invalid_params.
func (e *Engine) Context(ctx context.Context, p a2a.Principal, id string, historyLength *int) (*ContextWithHistory, error) {
	if err := checkHistoryLength("historyLength", historyLength); err != nil {
		return nil, err
	}
	c, err := e.context(ctx, store.ContextKey{Owner: p.ID, ID: id}, shownTaskIDs)
	if err != nil {
		return nil, err
	}
	out := &ContextWithHistory{Context: c}
	if historyLength != nil && *historyLength == 0 {
		return out, nil
	}
	h := contextMessages{e: e, perTask: historyLength, bytes: e.cfg.Limits.PageBytes}
	out.History, err = h.read(ctx, store.Query{Owner: p.ID, ContextID: id})
	return out, err
}

// contextMessages collects the newest messages of a context's tasks, up to its limits.
type contextMessages struct {
	e         *Engine
	perTask   *int // limit per task; nil means no limit
	tasks     int  // limit of tasks; 0 means no limit
	limit     int  // limit of messages; 0 means no limit
	bytes     int  // limit of content in bytes; one message is always accepted
	used      int
	truncated bool // messages were omitted because of bytes
	newest    []a2a.Message
}

// read adds messages of the tasks that q selects, newest task first, until a limit is reached.
// It returns the messages oldest first.
func (h *contextMessages) read(ctx context.Context, q store.Query) ([]a2a.Message, error) {
	q.ByCreated = true
	for {
		q.Limit = historyPage
		if h.tasks > 0 {
			q.Limit = min(q.Limit, h.tasks)
		}
		if h.limit > 0 { // each task has at least one message
			q.Limit = min(q.Limit, h.limit-len(h.newest))
		}
		q.MaxBytes = max(h.bytes-h.used, 1)
		q.Options = store.TaskOptions{History: h.perTask, OmitArtifacts: true}
		if left := h.limit - len(h.newest); h.limit > 0 && (h.perTask == nil || left < *h.perTask) {
			q.Options.History = &left
		}
		page, err := h.e.cfg.Store.Tasks(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tasks {
			if !h.add(t.History) {
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

// add adds the entries of a task, newest first, and reports whether more fit.
func (h *contextMessages) add(entries []store.HistoryEntry) bool {
	for _, entry := range slices.Backward(entries) {
		if h.limit > 0 && len(h.newest) >= h.limit {
			return false
		}
		size := messageSize(&entry.Message)
		if len(h.newest) > 0 && h.used+size > h.bytes {
			h.truncated = true
			return false
		}
		h.used += size
		h.newest = append(h.newest, entry.Message)
	}
	return h.limit == 0 || len(h.newest) < h.limit
}

// messages returns the added messages, oldest first.
func (h *contextMessages) messages() []a2a.Message {
	slices.Reverse(h.newest)
	return h.newest
}

func messageSize(m *a2a.Message) int {
	return messageOverhead + store.PartsSize(m.Parts) + mapSize(m.Metadata)
}

// mapSize returns the approximate size of a free-form map in bytes.
func mapSize(m map[string]any) int {
	if len(m) == 0 {
		return 0
	}
	raw, _ := wire.Marshal(m) // other checks reject values that cannot be encoded
	return len(raw)
}

// Limits of Turn.History.
const (
	defaultHistory = 100
	maxHistory     = 1000
)

// History returns the messages before this turn: first the messages of the context's tasks that
// were created before this one, in creation order, then the messages of this task. It returns
// the newest limit messages, oldest first, with at most Limits.PageBytes of content. A limit of
// 0 means 100; the maximum is 1,000. It includes messages of earlier tasks that still run. Like
// Turn.Reserve it holds Config.Memory: Limits.PageBytes during the call, then the size of the
// largest result until the handler returns.
func (t *Turn) History(ctx context.Context, limit int) ([]a2a.Message, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, a2a.Invalid("limit", "is %d, want 0 or more", limit)
	}
	e := t.r.e
	empty := contextMessages{e: e, limit: min(cmp.Or(limit, defaultHistory), maxHistory), bytes: int(min(int64(e.cfg.Limits.PageBytes), e.cfg.Memory.Share()/2))}
	hold := t.memory.newHold()
	if err := growHold(ctx, &hold, int64(empty.bytes)); err != nil {
		return nil, err
	}
	var h contextMessages
	var messages []a2a.Message
	err := t.r.stores.waitOutRead(ctx, "history", func() (err error) {
		h = empty
		messages, err = h.readBefore(ctx, t.task, t.TaskHistory())
		return err
	})
	hold.Shrink(hold.Bytes() - int64(h.used))
	if err := t.memory.keepLargest("History", &hold); err != nil {
		return nil, err
	}
	return messages, err
}

// readBefore is read for messages of a task and of the tasks that were created before it.
func (h *contextMessages) readBefore(ctx context.Context, t *store.Task, own []a2a.Message) ([]a2a.Message, error) {
	var entries []store.HistoryEntry
	for _, m := range own {
		entries = append(entries, store.HistoryEntry{Message: m})
	}
	if !h.add(entries) {
		return h.messages(), nil
	}
	return h.read(ctx, store.Query{
		Owner: t.Key.Owner, ContextID: t.ContextID,
		Cursor: &store.Cursor{Time: t.CreatedAt, ID: t.Key.ID},
	})
}

// Context returns the task's context with the ids of its newest 1,000 tasks.
func (t *Turn) Context(ctx context.Context) (store.Context, error) {
	if err := t.usable(); err != nil {
		return store.Context{}, err
	}
	var c store.Context
	err := t.r.stores.waitOutRead(ctx, "context", func() (err error) {
		c, err = t.r.e.context(ctx, store.ContextKey{Owner: t.Owner(), ID: t.ContextID()}, shownTaskIDs)
		return err
	})
	return c, err
}

// Reference is a task that a message refers to, as of the time of the read. It must not be
// modified.
type Reference struct {
	TaskID    string
	ContextID string
	State     a2a.TaskState
	History   []a2a.Message
	Artifacts []a2a.Artifact
}

// References returns the tasks that the messages of this task name in referenceTaskIds, up to
// this turn. Each task appears once, in the order of its first mention. It returns only
// existing tasks of the same owner, and at most the last Limits.References of them. It returns
// an error if their content exceeds Limits.ArtifactBytes. Like Turn.Reserve it holds
// Config.Memory for them until the handler returns.
func (t *Turn) References(ctx context.Context) ([]Reference, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	ids := referenceIDs(t.TaskID(), slices.Concat(t.TaskHistory(), t.messages))
	ids = ids[max(0, len(ids)-t.r.e.cfg.Limits.References):]
	if len(ids) == 0 {
		return nil, nil
	}
	var bytes int64
	err := t.r.stores.waitOutRead(ctx, "references", func() (err error) {
		bytes, err = t.r.e.contentBytes(ctx, t.Owner(), ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	limit := t.r.e.cfg.Limits.ArtifactBytes
	hold := t.memory.newHold()
	if err := growHold(ctx, &hold, min(bytes, int64(limit))); err != nil {
		return nil, err
	}
	if err := t.memory.keepLargest("References", &hold); err != nil {
		return nil, err
	}
	var refs []Reference
	size := 0
	for _, id := range ids {
		var task *store.Task
		err := t.r.stores.waitOutRead(ctx, "references", func() (err error) {
			task, err = t.r.e.Task(ctx, a2a.Principal{ID: t.Owner()}, id, nil)
			return err
		})
		if a2a.CodeOf(err) == a2a.CodeTaskNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if size += task.Size(); size > limit {
			return nil, a2a.Errorf(a2a.CodeTooLarge, "the referenced tasks have more than %d bytes of content", limit)
		}
		ref := Reference{TaskID: id, ContextID: task.ContextID, State: task.Status.State, Artifacts: task.Artifacts}
		for _, entry := range task.History {
			ref.History = append(ref.History, entry.Message)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// contentBytes returns the size of tasks' content.
func (s *settings) contentBytes(ctx context.Context, owner string, ids []string) (bytes int64, err error) {
	keys := make([]store.Key, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, store.Key{Owner: owner, ID: id})
	}
	versions, err := s.cfg.Store.Versions(ctx, keys)
	for _, v := range versions {
		bytes += v.Bytes
	}
	return bytes, err
}

// referenceIDs returns the ids of other tasks to which a client's messages of a task refer.
func referenceIDs(taskID string, messages []a2a.Message) (ids []string) {
	for _, m := range messages {
		for _, id := range m.ReferenceTaskIDs {
			if m.Role != a2a.RoleAgent && id != taskID && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
