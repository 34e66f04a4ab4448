package engine

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// A context in a list has the ids of at most listedTaskIDs of its newest tasks. A context that
// is read alone has at most shownTaskIDs.
const (
	listedTaskIDs = 100
	shownTaskIDs  = 1000
)

// CreateContext creates a context without tasks. The defaults are a generated id, role
// assistant and status active. An Idempotency-Key makes the call repeatable; a repeated call
// returns the current context. Errors: invalid_params naming the field, context_not_found for a
// parent or reference that does not exist, conflict for an existing id or the key of another
// request.
func (e *Engine) CreateContext(ctx context.Context, p a2a.Principal, params a2a.CreateContextParams, opts SendOptions) (store.Context, error) {
	if err := checkKey(opts.IdempotencyKey); err != nil {
		return store.Context{}, err
	}
	now := store.Time(e.cfg.clock())
	c := store.Context{
		Key: store.ContextKey{Owner: p.ID, ID: params.ContextID}, Name: params.Name, Description: params.Description,
		Role: params.Role, Status: params.Status, Tags: params.Tags, Metadata: params.Metadata,
		ParentID: params.ParentID, ReferenceIDs: params.ReferenceIDs, Extensions: params.Extensions,
		CreatedAt: now, UpdatedAt: now,
	}
	c.Role = cmp.Or(c.Role, store.DefaultContextRole)
	c.Status = cmp.Or(c.Status, a2a.ContextActive)
	if c.Key.ID == "" {
		c.Key.ID = e.cfg.NewID()
	}
	if err := a2a.CheckID("contextId", c.Key.ID); err != nil {
		return store.Context{}, err
	}
	if c.Status != a2a.ContextActive && c.Status != a2a.ContextPaused {
		return store.Context{}, a2a.Invalid("status", "is %s, want active or paused", a2a.Quote(string(c.Status)))
	}
	if err := e.checkContext(&c); err != nil {
		return store.Context{}, err
	}
	w := &contextWrite{e: e, key: c.Key, identity: e.idempotency(p.ID, opts)}
	if earlier, err := w.identity.previous(ctx); earlier != nil || err != nil {
		return w.answerRepeat(ctx, earlier, err)
	}
	if err := e.checkReferenceContexts(ctx, &c); err != nil {
		return store.Context{}, err
	}
	return w.create(ctx, c)
}

// contextWrite is one call that creates, changes or clears a context.
type contextWrite struct {
	e        *Engine
	key      store.ContextKey
	identity *idempotency // nil if the call clears the context
}

func (w *contextWrite) create(ctx context.Context, c store.Context) (store.Context, error) {
	for range maxConflicts {
		saved, err := w.save(ctx, store.ContextChange{Context: c, Create: true})
		if !errors.Is(err, store.ErrExists) {
			return saved, err
		}
		switch _, err := w.e.cfg.Store.Context(ctx, w.key.Owner, w.key.ID, 0); {
		case err == nil:
			return store.Context{}, a2a.Errorf(a2a.CodeConflict, "context %s already exists; choose another contextId or update it", a2a.Quote(w.key.ID))
		case !errors.Is(err, store.ErrNotFound):
			return store.Context{}, err
		}
		if _, err := w.e.deletions.finish(ctx, w.key); err != nil {
			return store.Context{}, err
		}
	}
	return store.Context{}, errConflicts("context", w.key.ID)
}

// save stores a change together with the idempotency record of the request.
func (w *contextWrite) save(ctx context.Context, change store.ContextChange) (store.Context, error) {
	if change.Idempotency = w.identity.recordFor(w.key.ID); change.Idempotency != nil {
		change.Idempotency.CreatedAt = store.Time(w.e.cfg.clock())
	}
	saved, err := w.e.cfg.Store.SaveContext(context.WithoutCancel(ctx), change)
	if errors.Is(err, store.ErrDuplicate) {
		record, err := w.identity.previous(ctx)
		if record == nil && err == nil {
			err = errConflicts("context", w.key.ID) // the idempotency record has just expired
		}
		return w.answerRepeat(ctx, record, err)
	}
	return saved, parentError(&change.Context, err)
}

// answerRepeat answers a repeated request with the current context.
func (w *contextWrite) answerRepeat(ctx context.Context, record *store.IdempotencyRecord, err error) (store.Context, error) {
	if err != nil {
		return store.Context{}, err
	}
	if err := w.identity.check(record); err != nil {
		return store.Context{}, err
	}
	return w.e.context(ctx, store.ContextKey{Owner: w.key.Owner, ID: record.TaskID}, shownTaskIDs)
}

// context reads a context of an owner.
func (e *Engine) context(ctx context.Context, key store.ContextKey, tasks int) (store.Context, error) {
	if a2a.CheckID("contextId", key.ID) != nil {
		return store.Context{}, a2a.ContextNotFound(key.ID)
	}
	c, err := e.cfg.Store.Context(ctx, key.Owner, key.ID, tasks)
	if errors.Is(err, store.ErrNotFound) {
		return store.Context{}, a2a.ContextNotFound(key.ID)
	}
	return c, err
}

// UpdateContext changes a context. The status can change between active and
// paused, from both to completed, and from any status to archived. A context can be completed
// or archived only when its tasks have finished. Force pauses the context and cancels them
// first; if that fails, the context stays paused. An archived context cannot be changed, but
// archiving it again succeeds without effect. An Idempotency-Key makes the call repeatable; a
// repeated call returns the current context. Errors: context_not_found, also for a parent or
// reference that does not exist, invalid_params naming the field, context_not_cancelable if the
// status or the tasks do not allow the change, conflict, unavailable.
func (e *Engine) UpdateContext(ctx context.Context, p a2a.Principal, params a2a.UpdateContextParams, opts SendOptions) (store.Context, error) {
	w := &contextWrite{e: e, key: store.ContextKey{Owner: p.ID, ID: params.ContextID}, identity: e.idempotency(p.ID, opts)}
	if err := checkKey(opts.IdempotencyKey); err != nil {
		return store.Context{}, err
	}
	if earlier, err := w.identity.previous(ctx); earlier != nil || err != nil {
		return w.answerRepeat(ctx, earlier, err)
	}
	for range maxConflicts {
		base, err := e.context(ctx, w.key, 0)
		if err != nil {
			return store.Context{}, err
		}
		if base.Status == a2a.ContextArchived {
			return w.updateArchived(ctx, params)
		}
		saved, err := w.update(ctx, p, base, params)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return store.Context{}, a2a.ContextNotFound(w.key.ID)
		case !errors.Is(err, store.ErrConflict):
			return saved, err
		}
	}
	return store.Context{}, errConflicts("context", w.key.ID)
}

// updateArchived handles an update of an archived context. It accepts only a request to archive
// the context and nothing else.
func (w *contextWrite) updateArchived(ctx context.Context, params a2a.UpdateContextParams) (store.Context, error) {
	archived := params.Status != nil && *params.Status == a2a.ContextArchived
	params.ContextID, params.Status, params.Force = "", nil, false
	if !archived || params != (a2a.UpdateContextParams{}) {
		return store.Context{}, contextForbids(w.key.ID, "is archived and cannot be changed; start a new context")
	}
	return w.e.context(ctx, w.key, shownTaskIDs)
}

// update makes one attempt to change the context base. It returns store.ErrConflict if the
// attempt must be repeated.
func (w *contextWrite) update(ctx context.Context, p a2a.Principal, base store.Context, params a2a.UpdateContextParams) (store.Context, error) {
	next := applyUpdate(base, params)
	if now := store.Time(w.e.cfg.clock()); now.After(next.UpdatedAt) {
		next.UpdatedAt = now
	}
	if err := checkTransition(w.key.ID, base.Status, next.Status); err != nil {
		return store.Context{}, err
	}
	if err := w.e.checkContext(&next); err != nil {
		return store.Context{}, err
	}
	if params.ReferenceIDs != nil {
		if err := w.e.checkReferenceContexts(ctx, &next); err != nil {
			return store.Context{}, err
		}
	}
	change := store.ContextChange{Context: next, Version: base.Version, RequireFinished: requiresFinishedTasks(next.Status) && base.Status != next.Status}
	saved, err := w.save(ctx, change)
	if err == nil {
		return w.e.context(ctx, w.key, shownTaskIDs)
	}
	if !errors.Is(err, store.ErrBusy) {
		return saved, err
	}
	if !params.Force {
		return saved, w.busyError(ctx, "cannot change to "+string(next.Status), unfinished)
	}
	// Save the other fields first, so that no task is canceled for a change that is rejected.
	change.RequireFinished, change.Context.Status = false, base.Status
	if base.Status == a2a.ContextActive {
		change.Context.Status = a2a.ContextPaused
	}
	if _, err := w.e.cfg.Store.SaveContext(ctx, change); err != nil {
		return store.Context{}, parentError(&change.Context, err)
	}
	if err := w.cancelAll(ctx, p); err != nil {
		return store.Context{}, err
	}
	return store.Context{}, store.ErrConflict
}

// applyUpdate returns c with the changes of params.
func applyUpdate(c store.Context, params a2a.UpdateContextParams) store.Context {
	replace(&c.Name, params.Name)
	replace(&c.Description, params.Description)
	replace(&c.Role, params.Role)
	replace(&c.Status, params.Status)
	replace(&c.Tags, params.Tags)
	if params.Metadata != nil {
		c.Metadata = store.MergePatch(c.Metadata, *params.Metadata)
	}
	replace(&c.ParentID, params.ParentID)
	replace(&c.ReferenceIDs, params.ReferenceIDs)
	replace(&c.Extensions, params.Extensions)
	c.Role = cmp.Or(c.Role, store.DefaultContextRole)
	c.Status = cmp.Or(c.Status, a2a.ContextActive)
	return c
}

func replace[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}
