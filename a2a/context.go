package a2a

import "time"

// ContextStatus is the status of a context, an extension. The empty status means active.
type ContextStatus string

// The statuses of contexts.
const (
	// ContextActive contexts accept new tasks.
	ContextActive ContextStatus = "active"
	// ContextPaused contexts accept no new tasks; running ones continue.
	ContextPaused ContextStatus = "paused"
	// ContextCompleted contexts accept no new tasks.
	ContextCompleted ContextStatus = "completed"
	// ContextArchived contexts are permanently read-only.
	ContextArchived ContextStatus = "archived"
)

// EnumValues returns the accepted values.
func (ContextStatus) EnumValues() []string {
	return []string{"active", "paused", "completed", "archived"}
}

// Context is a conversation: a group of related tasks, an extension.
type Context struct {
	_  struct{} `wire:"const=kind:context,required"`
	ID string   `json:"contextId" wire:"required"`
	// Tasks are the ids of the context's tasks, oldest first; of many tasks only the newest.
	Tasks []string `json:"tasks,omitzero"`
	// TaskCount, an extension of Holdfast, is the number of all tasks of the context.
	TaskCount int `json:"taskCount,omitempty"`
	// History, an extension of Holdfast, has messages of the context's tasks, oldest first, if
	// requested.
	History     []Message `json:"history,omitempty"`
	Name        string    `json:"name,omitempty"`
	Description string    `json:"description,omitempty"`
	// Role is the agent's role in the conversation as free text, such as analyst.
	Role      string    `json:"role" wire:"required"`
	CreatedAt time.Time `json:"createdAt" wire:"required"`
	// UpdatedAt is not before CreatedAt.
	UpdatedAt time.Time      `json:"updatedAt" wire:"required"`
	Status    ContextStatus  `json:"status,omitempty"`
	Tags      []string       `json:"tags,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	// ParentID is the enclosing context. Parents form no cycle.
	ParentID string `json:"parentContextId,omitempty"`
	// ReferenceIDs are related contexts.
	ReferenceIDs []string `json:"referenceContextIds,omitempty"`
	// Extensions is free-form, unlike the URIs of [Message].
	Extensions map[string]any `json:"extensions,omitempty"`
}

// ContextIDParams identify a context, an extension: the minimal params of contexts/clear.
type ContextIDParams struct {
	ContextID string         `json:"contextId" wire:"required"`
	Metadata  map[string]any `json:"metadata,omitzero"`
}

// ContextQueryParams identify a context to read, an extension. HistoryLength is the maximum number
// of the newest messages of each task; nil means all messages.
type ContextQueryParams struct {
	ContextID     string         `json:"contextId" wire:"required"`
	HistoryLength *int           `json:"historyLength,omitempty"`
	Metadata      map[string]any `json:"metadata,omitzero"`
}

// ListContextsParams are the params of contexts/list, an extension. Metadata has the
// filters: status, tags (all of them), role, createdAfter, createdBefore, limit, offset,
// sortBy, sortOrder and pageToken. HistoryLength, if positive, requests the newest messages
// of each task. PageSize and PageToken, extensions of Holdfast, work as in tasks/list.
type ListContextsParams struct {
	HistoryLength *int           `json:"historyLength,omitempty"`
	PageSize      *int           `json:"pageSize,omitempty" wire:"alias=limit"`
	PageToken     string         `json:"pageToken,omitempty"`
	Offset        *int           `json:"offset,omitempty"` // number of contexts to skip; not with PageToken
	Metadata      map[string]any `json:"metadata,omitzero"`
}

// ListContextsResult is the result of contexts/list.
type ListContextsResult struct {
	Contexts []Context `json:"contexts" wire:"required"`
	// Total is the number of contexts that match the filters.
	Total int `json:"total" wire:"required"`
	// TotalCapped is set if more contexts match than Total counts.
	TotalCapped bool `json:"totalCapped,omitempty"`
	// Page is the number of the page, starting at 1, also for pages requested by token.
	Page int `json:"page" wire:"required"`
	// PageSize is the page size that was used.
	PageSize int `json:"pageSize" wire:"required"`
	// NextPageToken requests the next page; "" on the last page.
	NextPageToken string `json:"nextPageToken"`
	// TruncatedBySize is set if the page has fewer than PageSize contexts because it reached
	// the maximum content size. NextPageToken continues the list.
	TruncatedBySize bool `json:"truncatedBySize,omitempty"`
}

// CreateContextParams are the params of contexts/create, an extension. All are optional. By
// default the server generates the id, and the role is assistant.
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

// UpdateContextParams are the params of contexts/update, an extension. A field that is set
// replaces the context's field; an empty value clears it; nil leaves it unchanged. Metadata
// is instead applied as a JSON merge patch (RFC 7396).
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
	// Force cancels unfinished tasks if the new status requires that.
	Force bool `json:"force,omitempty"`
}

// DeleteTaskParams are the params of tasks/delete, an extension. Force may also be a member
// of Metadata.
type DeleteTaskParams struct {
	ID string `json:"id" wire:"required,alias=taskId,alias=task_id"`
	// Force drops webhook events that are not delivered yet.
	Force    bool           `json:"force,omitempty"`
	Metadata map[string]any `json:"metadata,omitzero"`
}

// DeleteTaskResult is the result of tasks/delete.
type DeleteTaskResult struct {
	TaskID  string `json:"taskId"`
	Message string `json:"message"` // for people
}

// ClearContextParams are the params of contexts/clear, an extension. Force may also be a
// member of Metadata.
type ClearContextParams struct {
	ContextID string `json:"contextId" wire:"required"`
	// Force cancels running tasks first, and also clears archived contexts.
	Force    bool           `json:"force,omitempty"`
	Metadata map[string]any `json:"metadata,omitzero"`
}

// ClearContextResult is the result of contexts/clear.
type ClearContextResult struct {
	ContextID string `json:"contextId"`
	Message   string `json:"message"` // for people
	Tasks     int    `json:"tasks"`   // number of tasks that were deleted
}
