package a2a

import "time"

// ContextStatus is where a context is in its life, an extension. The empty status
// means active.
type ContextStatus string

// The statuses of contexts.
const (
	// ContextActive contexts take new tasks.
	ContextActive ContextStatus = "active"
	// ContextPaused contexts take no new tasks; running ones go on.
	ContextPaused ContextStatus = "paused"
	// ContextCompleted contexts take no new tasks.
	ContextCompleted ContextStatus = "completed"
	// ContextArchived contexts are read-only for ever.
	ContextArchived ContextStatus = "archived"
)

// EnumValues lists the values accepted on input.
func (ContextStatus) EnumValues() []string {
	return []string{"active", "paused", "completed", "archived"}
}

// Context is a conversation: the tasks that belong together, an extension.
type Context struct {
	_  struct{} `wire:"const=kind:context,required"`
	ID string   `json:"contextId" wire:"required"`
	// Tasks are the ids of its tasks, oldest first: of the newest when there are many.
	Tasks []string `json:"tasks,omitzero"`
	// TaskCount, an addition of ours, is how many tasks it has.
	TaskCount int `json:"taskCount,omitempty"`
	// History, an addition of ours, are messages of its tasks, oldest first, where
	// they were asked for.
	History     []Message `json:"history,omitempty"`
	Name        string    `json:"name,omitempty"`
	Description string    `json:"description,omitempty"`
	// Role is the part played in the conversation, in free text such as analyst.
	Role      string    `json:"role" wire:"required"`
	CreatedAt time.Time `json:"createdAt" wire:"required"`
	// UpdatedAt is not before CreatedAt.
	UpdatedAt time.Time      `json:"updatedAt" wire:"required"`
	Status    ContextStatus  `json:"status,omitempty"`
	Tags      []string       `json:"tags,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	// ParentID is the context around this one; parents form no cycle.
	ParentID string `json:"parentContextId,omitempty"`
	// ReferenceIDs are related contexts.
	ReferenceIDs []string `json:"referenceContextIds,omitempty"`
	// Extensions is free-form, other than the URIs of [Message].
	Extensions map[string]any `json:"extensions,omitempty"`
}

// ContextIDParams name a context, an extension: what contexts/clear needs at least.
type ContextIDParams struct {
	ContextID string         `json:"contextId" wire:"required"`
	Metadata  map[string]any `json:"metadata,omitzero"`
}

// ContextQueryParams ask for a context, an extension. A nil HistoryLength means
// the whole history of each task, N at most the newest N messages.
type ContextQueryParams struct {
	ContextID     string         `json:"contextId" wire:"required"`
	HistoryLength *int           `json:"historyLength,omitempty"`
	Metadata      map[string]any `json:"metadata,omitzero"`
}

// ListContextsParams are the params of contexts/list, an extension. Metadata
// holds the filters: status, tags (all of them), role, createdAfter,
// createdBefore, limit, offset, sortBy, sortOrder and pageToken. HistoryLength, if
// positive, asks for the newest messages of each task. PageSize and PageToken,
// additions of ours, page as in tasks/list.
type ListContextsParams struct {
	HistoryLength *int           `json:"historyLength,omitempty"`
	PageSize      *int           `json:"pageSize,omitempty" wire:"alias=limit"`
	PageToken     string         `json:"pageToken,omitempty"`
	Offset        *int           `json:"offset,omitempty"` // how many to skip; not with PageToken
	Metadata      map[string]any `json:"metadata,omitzero"`
}

// ListContextsResult is the result of contexts/list.
type ListContextsResult struct {
	Contexts []Context `json:"contexts" wire:"required"`
	// Total is how many contexts match the filters.
	Total int `json:"total" wire:"required"`
	// TotalCapped is set when more contexts match than were counted for Total.
	TotalCapped bool `json:"totalCapped,omitempty"`
	// Page counts from 1; pages that a token asks for are counted too.
	Page int `json:"page" wire:"required"`
	// PageSize is the size that was applied.
	PageSize int `json:"pageSize" wire:"required"`
	// NextPageToken asks for the page after; "" on the last.
	NextPageToken string `json:"nextPageToken"`
	// TruncatedBySize is set when the page has fewer than PageSize contexts because their
	// content reached the limit of a page; NextPageToken continues.
	TruncatedBySize bool `json:"truncatedBySize,omitempty"`
}

// CreateContextParams are the params of contexts/create, an extension. All are
// optional: the id is made up, the role is assistant.
type CreateContextParams struct {
	ContextID    string         `json:"contextId,omitempty"`
	Name         string         `json:"name,omitempty"`
	Description  string         `json:"description,omitempty"`
	Role         string         `json:"role,omitempty"`
	Status       ContextStatus  `json:"status,omitempty"` // active or paused
	Tags         []string       `json:"tags,omitempty"`
	Metadata     map[string]any `json:"metadata,omitzero"`
	ParentID     string         `json:"parentContextId,omitempty"`
	ReferenceIDs []string       `json:"referenceContextIds,omitempty"`
	Extensions   map[string]any `json:"extensions,omitzero"`
}

// UpdateContextParams are the params of contexts/update, an extension. A field
// that is given replaces the one of the context, an empty one clears it; nil leaves
// it. Metadata instead changes that of the context by a JSON merge patch (RFC 7396).
type UpdateContextParams struct {
	ContextID    string          `json:"contextId" wire:"required"`
	Name         *string         `json:"name,omitempty"`
	Description  *string         `json:"description,omitempty"`
	Role         *string         `json:"role,omitempty"`
	Status       *ContextStatus  `json:"status,omitempty"`
	Tags         *[]string       `json:"tags,omitempty"`
	Metadata     *map[string]any `json:"metadata,omitempty"`
	ParentID     *string         `json:"parentContextId,omitempty"`
	ReferenceIDs *[]string       `json:"referenceContextIds,omitempty"`
	Extensions   *map[string]any `json:"extensions,omitempty"`
	// Force cancels the tasks that are not over, when the new status asks for that.
	Force bool `json:"force,omitempty"`
}

// DeleteTaskParams are the params of tasks/delete, an extension. Force may stand in
// Metadata too.
type DeleteTaskParams struct {
	ID string `json:"id" wire:"required"`
	// Force drops webhook events that are not delivered yet.
	Force    bool           `json:"force,omitempty"`
	Metadata map[string]any `json:"metadata,omitzero"`
}

// ClearContextParams are the params of contexts/clear, an extension. Force may
// stand in Metadata too.
type ClearContextParams struct {
	ContextID string `json:"contextId" wire:"required"`
	// Force cancels what runs first, and clears archived contexts too.
	Force    bool           `json:"force,omitempty"`
	Metadata map[string]any `json:"metadata,omitzero"`
}
