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
	// Tasks are the ids of its tasks.
	Tasks       []string `json:"tasks,omitzero"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
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

// ContextIDParams name a context, an extension: the params of contexts/clear.
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
// holds the filters: status, tags, role, createdAfter, createdBefore, limit,
// offset, sortBy and sortOrder.
type ListContextsParams struct {
	HistoryLength *int           `json:"historyLength,omitempty"`
	Metadata      map[string]any `json:"metadata,omitzero"`
}
