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
	// NextPageToken requests the next page; empty on the last page.
	NextPageToken string
	// Page is the number of the page, starting at 1.
	Page int
	// PageSize is the page size that was applied.
	PageSize int
	// Total is the number of matching tasks, -1 if it was not requested. TotalCapped reports
	// that there are or may be more; see Limits.ListTotal.
	Total       int
	TotalCapped bool
	// TruncatedBySize is set if Limits.PageBytes ended the page before PageSize.
	TruncatedBySize bool
	// Options specify which parts of each task were read.
	Options store.TaskOptions
}

// Cached reports whether the caller has a task's content already, as in [store.Query.Cached].
// read specifies which parts of each task the list would read.
type Cached func(outline *store.Task, read store.TaskOptions) (size int, ok bool)

// taskFilters are the filters that tasks/list accepts in its metadata.
var taskFilters = []string{"status", "contextId", "createdAfter", "createdBefore", "limit", "offset", "sortBy", "sortOrder", "historyLength", "pageToken"}

// List returns a page of the principal's tasks, newest status first unless the params say
// otherwise. Zero fields of the params take the documented defaults: pages of 50, no messages,
// no artifacts. Filters in the metadata also request the total. Errors: invalid_params naming
// the field.
func (e *Engine) List(ctx context.Context, p a2a.Principal, params a2a.ListTasksParams) (*List, error) {
	return e.ListUncached(ctx, p, params, nil)
}

// ListUncached is like List, but tasks for which cached returns true are returned as outlines.
func (e *Engine) ListUncached(ctx context.Context, p a2a.Principal, params a2a.ListTasksParams, cached Cached) (*List, error) {
	q, token, err := e.query(p, params)
	if err != nil {
		return nil, err
	}
	if cached != nil {
		q.Cached = func(outline *store.Task) (int, bool) { return cached(outline, q.Options) }
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

func (s *settings) query(p a2a.Principal, params a2a.ListTasksParams) (store.Query, *pageToken, error) {
	f := newFilters("tasks/list", taskFilters, params.Metadata)
	states := params.States
	if params.Status != "" {
		if len(states) > 0 {
			return store.Query{}, nil, a2a.Invalid("status", "and states must not both be given")
		}
		states = []a2a.TaskState{params.Status}
	}
	f.exclusiveWith("status", "status or states", len(states) > 0)
	f.exclusiveWith("contextId", "contextId", params.ContextID != "")
	f.exclusiveWith("limit", "pageSize", params.PageSize != nil)
	f.exclusiveWith("historyLength", "historyLength", params.HistoryLength != nil)
	f.exclusiveWith("pageToken", "pageToken", params.PageToken != "")
	f.exclusiveWith("offset", "offset", params.Offset != nil)
	if err := s.checkListParams(params); err != nil {
		return store.Query{}, nil, err
	}
	q := store.Query{
		Owner: p.ID, ContextID: params.ContextID, States: states,
		After: ceil(params.StatusAfter), Before: ceil(params.StatusBefore),
		MaxBytes: s.cfg.Limits.PageBytes, Total: params.IncludeTotal, TotalLimit: s.cfg.Limits.ListTotal,
		Options: store.TaskOptions{History: params.HistoryLength, OmitArtifacts: !params.IncludeArtifacts},
	}
	token, field := params.PageToken, "pageToken"
	if f.hasAny() {
		q.Total = true
		if in := f.text("pageToken"); in != "" {
			token, field = in, "metadata.pageToken"
		}
	}
	s.filterTasks(&q, f, token)
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

// checkListParams checks the members that are not filters in the metadata.
func (s *settings) checkListParams(params a2a.ListTasksParams) error {
	if err := s.checkPageSize(params.PageSize); err != nil {
		return err
	}
	if err := checkHistoryLength("historyLength", params.HistoryLength); err != nil {
		return err
	}
	if params.States != nil && len(params.States) == 0 {
		return a2a.Invalid("states", "must not be empty") // otherwise no state would mean every state
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

func (s *settings) checkPageSize(n *int) error {
	if n != nil && (*n < 1 || *n > s.cfg.Limits.PageSize) {
		return a2a.Invalid("pageSize", "is %d, want 1 to %d", *n, s.cfg.Limits.PageSize)
	}
	return nil
}

// filterTasks adds the filters of the metadata to q.
func (s *settings) filterTasks(q *store.Query, f *filters, token string) {
	for _, s := range f.enum("status", a2a.TaskState("").EnumValues()) {
		q.States = append(q.States, a2a.TaskState(s))
	}
	if id := f.text("contextId"); id != "" {
		f.setErr(a2a.CheckID("metadata.contextId", id))
		q.ContextID = id
	}
	q.CreatedAfter, q.CreatedBefore = f.created()
	q.ByCreated = f.choice("sortBy", "updatedAt", "createdAt") == "createdAt"
	q.Ascending = f.ascending(false)
	q.Limit = s.pageLimit(f.number("limit", 1))
	if n := f.number("historyLength", 0); n != nil {
		q.Options.History = n
	}
	if q.Options.History == nil {
		q.Options.History = new(int)
	}
}

// pageLimit returns the page size for a requested size n, limited to Limits.PageSize.
func (s *settings) pageLimit(n *int) int {
	if n == nil {
		return min(50, s.cfg.Limits.PageSize)
	}
	return min(max(*n, 1), s.cfg.Limits.PageSize)
}

// tasksHash returns the hash that ties page tokens to a list of tasks.
func tasksHash(q store.Query) []byte {
	q.Cursor, q.Offset, q.Limit, q.MaxBytes, q.Total, q.TotalLimit, q.Options = nil, 0, 0, 0, false, 0, store.TaskOptions{}
	return filterHash("tasks", q)
}

// ceil rounds up to the millisecond, the resolution of stored times.
func ceil(t time.Time) time.Time {
	if s := store.Time(t); s.Before(t) {
		return s.Add(time.Millisecond)
	}
	return t
}
