package engine

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// historyTasks is the maximum number of tasks per context for which a list includes the
// messages. The list takes the newest tasks.
const historyTasks = 20

// contextFilters are the filters that contexts/list accepts in its metadata.
var contextFilters = []string{
	"status", "tags", "role", "createdAfter", "createdBefore", "limit", "offset", "sortBy", "sortOrder", "historyLength", "pageToken",
}

// ContextList is a page of contexts.
type ContextList struct {
	Contexts []ContextWithHistory
	// Total is the number of matching contexts; for TotalCapped see [List].
	Total       int
	TotalCapped bool
	// Page is the number of the page, starting at 1.
	Page int
	// PageSize is the page size that was applied.
	PageSize int
	// NextPageToken requests the next page; empty on the last page.
	NextPageToken string
	// TruncatedBySize is set if Limits.PageBytes ended the page before PageSize.
	TruncatedBySize bool
}

// Contexts returns a page of the principal's contexts, last updated first unless the filters in
// the metadata say otherwise. Each context has the ids of its newest 100 tasks. A history
// length above 0 adds that number of newest messages of each of the newest 20 tasks. A page
// ends early if its contexts exceed Limits.PageBytes. Errors: invalid_params naming the filter.
func (e *Engine) Contexts(ctx context.Context, p a2a.Principal, params a2a.ListContextsParams) (*ContextList, error) {
	q, token, historyLength, err := e.contextQuery(p, params)
	if err != nil {
		return nil, err
	}
	page, err := e.cfg.Store.Contexts(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &ContextList{Total: page.Total, TotalCapped: page.TotalCapped, Page: pageNumber(token, q.Offset, q.Limit), PageSize: q.Limit}
	next, left := page.Next, e.cfg.Limits.PageBytes
	for i := range page.Contexts {
		c, used, err := e.withHistory(ctx, page.Contexts[i], historyLength, left)
		if err != nil {
			return nil, err
		}
		if used > left && i > 0 {
			next = q.Sort.Cursor(&page.Contexts[i-1])
			break
		}
		left = max(0, left-used)
		out.Contexts = append(out.Contexts, c)
	}
	out.TruncatedBySize = next != nil && len(out.Contexts) < q.Limit
	if next != nil {
		t := pageToken{Time: next.Time.UnixMilli(), Name: next.Name, ID: next.ID, Page: out.Page + 1}
		out.NextPageToken = t.next(token, func() []byte { return contextsHash(q) })
	}
	return out, nil
}

// withHistory adds up to perTask messages of each task to a context and returns its size in
// bytes. The size is more than left if not all messages fit.
func (e *Engine) withHistory(ctx context.Context, c store.Context, perTask, left int) (out ContextWithHistory, used int, err error) {
	out.Context = c
	used = contextSize(&c)
	if perTask == 0 || c.TaskCount == 0 {
		return out, used, nil
	}
	h := contextMessages{e: e, perTask: &perTask, tasks: historyTasks, bytes: left - used}
	out.History, err = h.read(ctx, store.Query{Owner: c.Key.Owner, ContextID: c.Key.ID})
	used += h.used
	if h.truncated {
		used = left + 1
	}
	return out, used, err
}

// contextSize returns the approximate size of a context's fields in bytes.
func contextSize(c *store.Context) int {
	size := len(c.Name) + len(c.Description) + len(c.Role) + mapSize(c.Metadata) + mapSize(c.Extensions)
	for _, list := range [][]string{c.Tags, c.ReferenceIDs, c.TaskIDs} {
		for _, s := range list {
			size += len(s)
		}
	}
	return size
}

// contextQuery parses the params. historyLength is 0 if no messages are requested.
func (s *settings) contextQuery(p a2a.Principal, params a2a.ListContextsParams) (q store.ContextQuery, t *pageToken, historyLength int, err error) {
	if err := checkHistoryLength("historyLength", params.HistoryLength); err != nil {
		return q, nil, 0, err
	}
	if err := s.checkPageSize(params.PageSize); err != nil {
		return q, nil, 0, err
	}
	f := newFilters("contexts/list", contextFilters, params.Metadata)
	f.exclusiveWith("historyLength", "historyLength", params.HistoryLength != nil)
	f.exclusiveWith("limit", "pageSize", params.PageSize != nil)
	f.exclusiveWith("pageToken", "pageToken", params.PageToken != "")
	f.exclusiveWith("offset", "offset", params.Offset != nil)
	token, field := params.PageToken, "pageToken"
	if in := f.text("pageToken"); in != "" {
		token, field = in, "metadata.pageToken"
	}
	q = store.ContextQuery{Owner: p.ID, Tags: f.texts("tags", maxTags), Role: f.text("role"), MaxTaskIDs: listedTaskIDs, TotalLimit: s.cfg.Limits.ListTotal}
	for _, s := range f.enum("status", a2a.ContextStatus("").EnumValues()) {
		q.Statuses = append(q.Statuses, a2a.ContextStatus(s))
	}
	for i, tag := range q.Tags {
		field := "metadata.tags"
		if _, one := f.values["tags"].(string); !one {
			field = fmt.Sprintf("metadata.tags[%d]", i)
		}
		f.setErr(checkTag(field, tag))
	}
	f.setErr(checkText("metadata.role", q.Role, maxRole, false))
	q.CreatedAfter, q.CreatedBefore = f.created()
	q.Sort = store.ContextSort(f.choice("sortBy", string(store.ContextsByUpdated), string(store.ContextsByCreated), string(store.ContextsByName)))
	q.Ascending = f.ascending(q.Sort == store.ContextsByName)
	q.Limit = s.pageLimit(f.number("limit", 1))
	if params.PageSize != nil {
		q.Limit = *params.PageSize
	}
	q.Offset = f.offset(params.Offset, token)
	n := f.number("historyLength", 0)
	if n == nil {
		n = params.HistoryLength
	}
	if n != nil {
		historyLength = *n
	}
	if f.err != nil {
		return q, nil, 0, f.err
	}
	if t, err = decodeToken(field, token, func() []byte { return contextsHash(q) }); t != nil {
		q.Cursor = &store.ContextCursor{Time: t.at(), Name: t.Name, ID: t.ID}
	}
	return q, t, historyLength, err
}

// contextsHash returns the hash that ties page tokens to a list of contexts.
func contextsHash(q store.ContextQuery) []byte {
	q.Cursor, q.Offset, q.Limit, q.MaxTaskIDs, q.TotalLimit = nil, 0, 0, 0, 0
	return filterHash("contexts", q)
}
