package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// List is a page of tasks.
type List struct {
	Tasks []*store.Task
	// NextPageToken asks for the page after; "" on the last.
	NextPageToken string
	// Page is the number of the page, from 1.
	Page int
	// PageSize is the size that was applied.
	PageSize int
	// Total is how many tasks match, -1 when it was not asked for. If TotalCapped, there
	// are more, or may be: see Limits.ListTotal.
	Total       int
	TotalCapped bool
	// TruncatedBySize is set when Limits.PageBytes ended the page before PageSize.
	TruncatedBySize bool
	// Options are how much of each task was read.
	Options store.TaskOptions
}

// Known is as [store.Query.Known], with how much of each task the list reads.
type Known func(outline *store.Task, read store.TaskOptions) (size int, ok bool)

// taskFilters are the filters that tasks/list takes in its metadata.
var taskFilters = []string{"status", "contextId", "createdAfter", "createdBefore", "limit", "offset", "sortBy", "sortOrder", "historyLength", "pageToken"}

// List returns a page of the principal's tasks, newest status first unless the
// params say otherwise. The params' zero fields take the documented defaults:
// pages of 50, no messages, no artifacts. Filters in the metadata ask for the
// total too. Errors: invalid_params naming the field.
func (e *Engine) List(ctx context.Context, p a2a.Principal, params a2a.ListTasksParams) (*List, error) {
	return e.ListUnknown(ctx, p, params, nil)
}

// ListUnknown is List with outlines of the tasks whose content known reports as known.
func (e *Engine) ListUnknown(ctx context.Context, p a2a.Principal, params a2a.ListTasksParams, known Known) (*List, error) {
	q, token, err := e.query(p, params)
	if err != nil {
		return nil, err
	}
	if known != nil {
		q.Known = func(outline *store.Task) (int, bool) { return known(outline, q.Options) }
	}
	page, err := e.cfg.Store.Tasks(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &List{Tasks: page.Tasks, Page: pageNumber(token, q.Offset, q.Limit), PageSize: q.Limit, Total: page.Total, TotalCapped: page.TotalCapped, Options: q.Options}
	if page.Next != nil {
		next := pageToken{Time: page.Next.Time.UnixMilli(), ID: page.Next.ID, Page: out.Page + 1}
		out.NextPageToken = next.next(token, func() []byte { return tasksHash(q) })
		out.TruncatedBySize = len(page.Tasks) < q.Limit
	}
	return out, nil
}

func (e *Engine) query(p a2a.Principal, params a2a.ListTasksParams) (store.Query, *pageToken, error) {
	f := newFilters("tasks/list", taskFilters, params.Metadata)
	states := params.States
	if params.Status != "" {
		if len(states) > 0 {
			return store.Query{}, nil, a2a.Invalid("status", "and states must not both be given")
		}
		states = []a2a.TaskState{params.Status}
	}
	f.once("status", "status or states", len(states) > 0)
	f.once("contextId", "contextId", params.ContextID != "")
	f.once("limit", "pageSize", params.PageSize != nil)
	f.once("historyLength", "historyLength", params.HistoryLength != nil)
	f.once("pageToken", "pageToken", params.PageToken != "")
	f.once("offset", "offset", params.Offset != nil)
	if err := e.checkListParams(params); err != nil {
		return store.Query{}, nil, err
	}
	q := store.Query{
		Owner: p.ID, ContextID: params.ContextID, States: states,
		After: ceil(params.StatusAfter), Before: ceil(params.StatusBefore),
		Bytes: e.cfg.Limits.PageBytes, Total: params.IncludeTotal, TotalLimit: e.cfg.Limits.ListTotal,
		Options: store.TaskOptions{History: params.HistoryLength, OmitArtifacts: !params.IncludeArtifacts},
	}
	token, field := params.PageToken, "pageToken"
	if f.given() {
		q.Total = true
		if in := f.text("pageToken"); in != "" {
			token, field = in, "metadata.pageToken"
		}
	}
	e.filterTasks(&q, f, token)
	q.Offset = f.offset(params.Offset, token)
	if params.PageSize != nil {
		q.Limit = *params.PageSize
	}
	if f.err != nil {
		return q, nil, f.err
	}
	decoded, err := decodeToken(field, token, func() []byte { return tasksHash(q) })
	if decoded != nil {
		q.Cursor = &store.Cursor{Time: decoded.at(), ID: decoded.ID}
	}
	return q, decoded, err
}

// checkListParams applies the rules of the members that are not filters of the
// metadata.
func (e *Engine) checkListParams(params a2a.ListTasksParams) error {
	if err := e.checkPageSize(params.PageSize); err != nil {
		return err
	}
	if err := checkHistoryLength("historyLength", params.HistoryLength); err != nil {
		return err
	}
	if params.States != nil && len(params.States) == 0 {
		return a2a.Invalid("states", "must not be empty") // else no state would mean every state
	}
	if params.ContextID != "" {
		if err := a2a.CheckID("contextId", params.ContextID); err != nil {
			return err
		}
	}
	if !params.StatusBefore.IsZero() && !params.StatusAfter.IsZero() && !params.StatusAfter.Before(params.StatusBefore) {
		return a2a.Invalid("statusTimestampAfter", "must be before statusTimestampBefore")
	}
	return nil
}

func (e *Engine) checkPageSize(n *int) error {
	if n != nil && (*n < 1 || *n > e.cfg.Limits.PageSize) {
		return a2a.Invalid("pageSize", "is %d, want 1 to %d", *n, e.cfg.Limits.PageSize)
	}
	return nil
}

// filterTasks adds to q what the metadata says.
func (e *Engine) filterTasks(q *store.Query, f *filters, token string) {
	for _, s := range f.enum("status", a2a.TaskState("").EnumValues()) {
		q.States = append(q.States, a2a.TaskState(s))
	}
	if id := f.text("contextId"); id != "" {
		f.keep(a2a.CheckID("metadata.contextId", id))
		q.ContextID = id
	}
	q.CreatedAfter, q.CreatedBefore = f.created()
	q.ByCreated = f.choice("sortBy", "updatedAt", "createdAt") == "createdAt"
	q.Ascending = f.ascending(false)
	q.Limit = e.pageLimit(f.number("limit", 1))
	if n := f.number("historyLength", 0); n != nil {
		q.Options.History = n
	}
	if q.Options.History == nil {
		q.Options.History = new(int)
	}
}

// pageLimit is the size of a page that is to have n: never more than one may
// have.
func (e *Engine) pageLimit(n *int) int {
	if n == nil {
		return min(50, e.cfg.Limits.PageSize)
	}
	return min(max(*n, 1), e.cfg.Limits.PageSize)
}

// tasksHash ties page tokens to a list of tasks.
func tasksHash(q store.Query) []byte {
	q.Cursor, q.Offset, q.Limit, q.Bytes, q.Total, q.TotalLimit, q.Options = nil, 0, 0, 0, false, 0, store.TaskOptions{}
	return filterHash("tasks", q)
}

// ceil rounds up to the millisecond, the grain of stored times.
func ceil(t time.Time) time.Time {
	if s := store.Time(t); s.Before(t) {
		return s.Add(time.Millisecond)
	}
	return t
}
