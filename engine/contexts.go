package engine

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// How many ids of a context's tasks are told: of the newest.
const (
	listedTasks = 100
	shownTasks  = 1000
)

// errContextRace is told when others were always faster.
func errContextRace(id string) error {
	return a2a.Errorf(a2a.CodeUnavailable, "context %s changes too fast; try again", a2a.Quote(id))
}

// CreateContext makes a context before its first task. The id is made up unless
// the params name one, the role is assistant and the status active unless they
// say otherwise. An Idempotency-Key makes the call repeatable: it is then answered
// with the context as it stands. Errors: invalid_params naming the field,
// context_not_found naming the relative that is not there, conflict for an id that
// is taken or the key of another request.
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
	orDefault(&c.Role, store.DefaultContextRole)
	orDefault(&c.Status, a2a.ContextActive)
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
	w := &contextWrite{e: e, key: c.Key, opts: opts}
	if earlier, err := w.earlier(ctx); earlier != nil || err != nil {
		return w.repeat(ctx, earlier, err)
	}
	if err := e.checkReferenceContexts(ctx, &c); err != nil {
		return store.Context{}, err
	}
	return w.create(ctx, c)
}

// contextWrite is one call that writes the record of a context.
type contextWrite struct {
	e    *Engine
	key  store.ContextKey
	opts SendOptions
}

func (w *contextWrite) create(ctx context.Context, c store.Context) (store.Context, error) {
	for range maxConflicts {
		saved, err := w.save(ctx, store.ContextChange{Context: c, Create: true})
		if !errors.Is(err, store.ErrExists) {
			return saved, err
		}
		switch _, err := w.e.cfg.Store.Context(ctx, w.key.Owner, w.key.ID, 0); {
		case err == nil:
			return store.Context{}, a2a.Errorf(a2a.CodeConflict, "context %s exists already; choose another contextId or update it", a2a.Quote(w.key.ID))
		case !errors.Is(err, store.ErrNotFound):
			return store.Context{}, err
		}
		if _, err := w.e.finishDeletion(ctx, w.key); err != nil {
			return store.Context{}, err
		}
	}
	return store.Context{}, errContextRace(w.key.ID)
}

// save writes a change with the idempotency record that the client asked for.
func (w *contextWrite) save(ctx context.Context, change store.ContextChange) (store.Context, error) {
	change.Idempotency = w.record()
	saved, err := w.e.cfg.Store.SaveContext(context.WithoutCancel(ctx), change)
	if errors.Is(err, store.ErrDuplicate) {
		record, err := w.earlier(ctx)
		if record == nil && err == nil {
			err = errContextRace(w.key.ID) // it has just expired
		}
		return w.repeat(ctx, record, err)
	}
	return saved, relativesError(&change.Context, err)
}

func (w *contextWrite) record() *store.IdempotencyRecord {
	record := keyRecord(w.key.Owner, w.opts)
	if record != nil {
		record.TaskID, record.CreatedAt = w.key.ID, store.Time(w.e.cfg.clock())
	}
	return record
}

// earlier returns the record of the request that this one repeats, nil when it
// repeats none.
func (w *contextWrite) earlier(ctx context.Context) (*store.IdempotencyRecord, error) {
	return w.e.recorded(ctx, keyRecord(w.key.Owner, w.opts))
}

// repeat answers a request that was made before with the context as it stands.
func (w *contextWrite) repeat(ctx context.Context, record *store.IdempotencyRecord, err error) (store.Context, error) {
	if err != nil {
		return store.Context{}, err
	}
	if record.Hash != w.opts.RequestHash {
		return store.Context{}, keyTaken(w.opts.IdempotencyKey)
	}
	return w.e.context(ctx, store.ContextKey{Owner: w.key.Owner, ID: record.TaskID}, shownTasks)
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

// UpdateContext changes the record of a context. Its status moves from active to
// paused and back, from both to completed, and from any to archived. To be
// completed or archived its tasks must be over; Force pauses it and cancels them
// first, and leaves it paused if that cannot be brought to its end. An archived
// context is not changed any more, save that archiving it again is answered as if
// it had been done. An Idempotency-Key makes the call repeatable: it is then
// answered with the context as it stands. Errors: context_not_found, also for a
// relative that is not there, invalid_params naming the field,
// context_not_cancelable for what the status or the tasks forbid, conflict,
// unavailable.
func (e *Engine) UpdateContext(ctx context.Context, p a2a.Principal, params a2a.UpdateContextParams, opts SendOptions) (store.Context, error) {
	w := &contextWrite{e: e, key: store.ContextKey{Owner: p.ID, ID: params.ContextID}, opts: opts}
	if err := checkKey(opts.IdempotencyKey); err != nil {
		return store.Context{}, err
	}
	if earlier, err := w.earlier(ctx); earlier != nil || err != nil {
		return w.repeat(ctx, earlier, err)
	}
	for range maxConflicts {
		base, err := e.context(ctx, w.key, 0)
		if err != nil {
			return store.Context{}, err
		}
		if base.Status == a2a.ContextArchived {
			return w.unchanged(ctx, params)
		}
		saved, err := w.update(ctx, p, base, params)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return store.Context{}, a2a.ContextNotFound(w.key.ID)
		case !errors.Is(err, store.ErrConflict):
			return saved, err
		}
	}
	return store.Context{}, errContextRace(w.key.ID)
}

// unchanged answers an update of an archived context: only what asks for nothing
// but that it be archived is not refused.
func (w *contextWrite) unchanged(ctx context.Context, params a2a.UpdateContextParams) (store.Context, error) {
	archived := params.Status != nil && *params.Status == a2a.ContextArchived
	params.ContextID, params.Status, params.Force = "", nil, false
	if !archived || params != (a2a.UpdateContextParams{}) {
		return store.Context{}, forbidden(w.key.ID, "is archived and cannot be changed; begin another context")
	}
	return w.e.context(ctx, w.key, shownTasks)
}

// update makes one attempt to change a context that stands at base. It fails with
// store.ErrConflict when it is to be made again.
func (w *contextWrite) update(ctx context.Context, p a2a.Principal, base store.Context, params a2a.UpdateContextParams) (store.Context, error) {
	next := amend(base, params)
	if now := store.Time(w.e.cfg.clock()); now.After(next.UpdatedAt) {
		next.UpdatedAt = now
	}
	if err := checkMove(w.key.ID, base.Status, next.Status); err != nil {
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
	change := store.ContextChange{Context: next, Version: base.Version, TasksOver: closes(next.Status) && base.Status != next.Status}
	saved, err := w.save(ctx, change)
	if err == nil {
		return w.e.context(ctx, w.key, shownTasks)
	}
	if !errors.Is(err, store.ErrBusy) {
		return saved, err
	}
	if !params.Force {
		return saved, w.e.busy(ctx, w.key, "cannot become "+string(next.Status), unfinished)
	}
	// The other fields come first, so that nothing is cancelled for a change that is
	// refused.
	change.TasksOver, change.Context.Status = false, base.Status
	if base.Status == a2a.ContextActive {
		change.Context.Status = a2a.ContextPaused
	}
	if _, err := w.e.cfg.Store.SaveContext(ctx, change); err != nil {
		return store.Context{}, relativesError(&change.Context, err)
	}
	if err := w.e.cancelAll(ctx, p, w.key); err != nil {
		return store.Context{}, err
	}
	return store.Context{}, store.ErrConflict
}

// amend returns c with what the params change.
func amend(c store.Context, params a2a.UpdateContextParams) store.Context {
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
	orDefault(&c.Role, store.DefaultContextRole)
	orDefault(&c.Status, a2a.ContextActive)
	return c
}

func replace[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}
