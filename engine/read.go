package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Task returns a task of the principal, which is not to be changed. historyLength
// keeps the newest messages; nil keeps all.
func (e *Engine) Task(ctx context.Context, p a2a.Principal, id string, historyLength *int) (*store.Task, error) {
	if err := checkHistoryLength("historyLength", historyLength); err != nil {
		return nil, err
	}
	if checkID("id", id) != nil {
		return nil, a2a.TaskNotFound(id)
	}
	key, opts := store.Key{Owner: p.ID, ID: id}, store.TaskOptions{History: historyLength}
	if e.cfg.Store.Info().Exclusive { // else another process may know better
		if running := e.hub.running(key); running != nil {
			t := running.Clone()
			t.Cut(opts)
			return t, nil
		}
	}
	t, err := e.cfg.Store.Task(ctx, key, opts)
	if errors.Is(err, store.ErrNotFound) {
		return nil, a2a.TaskNotFound(id)
	}
	return t, err
}

// List is a page of tasks, newest status first.
type List struct {
	Tasks []*store.Task
	// NextPageToken asks for the page after; "" on the last.
	NextPageToken string
	// PageSize is the size that was applied.
	PageSize int
	// Total is how many tasks match, -1 when it was not asked for.
	Total int
}

// List returns a page of the principal's tasks. The params' zero fields take the
// documented defaults: pages of 50, whole histories, no artifacts. Errors:
// invalid_params naming the field.
func (e *Engine) List(ctx context.Context, p a2a.Principal, params a2a.ListTasksParams) (*List, error) {
	q, err := e.query(p, params)
	if err != nil {
		return nil, err
	}
	page, err := e.cfg.Store.Tasks(ctx, q)
	if err != nil {
		return nil, err
	}
	return &List{Tasks: page.Tasks, NextPageToken: encodeCursor(page.Next, q), PageSize: q.Limit, Total: page.Total}, nil
}

func (e *Engine) query(p a2a.Principal, params a2a.ListTasksParams) (store.Query, error) {
	var q store.Query
	size, err := e.pageSize(params.PageSize)
	if err != nil {
		return q, err
	}
	if err := checkHistoryLength("historyLength", params.HistoryLength); err != nil {
		return q, err
	}
	if params.ContextID != "" {
		if err := checkID("contextId", params.ContextID); err != nil {
			return q, err
		}
	}
	states := params.States
	if params.Status != "" {
		if len(states) > 0 {
			return q, a2a.Invalid("status", "and states must not both be given")
		}
		states = []a2a.TaskState{params.Status}
	}
	if !params.StatusBefore.IsZero() && !params.StatusAfter.IsZero() && !params.StatusAfter.Before(params.StatusBefore) {
		return q, a2a.Invalid("statusTimestampAfter", "must be before statusTimestampBefore")
	}
	q = store.Query{
		Owner: p.ID, ContextID: params.ContextID, States: states,
		After: ceil(params.StatusAfter), Before: ceil(params.StatusBefore), Limit: size, Bytes: e.cfg.Limits.PageBytes, Total: params.IncludeTotal,
		Options: store.TaskOptions{History: params.HistoryLength, OmitArtifacts: !params.IncludeArtifacts},
	}
	q.Cursor, err = decodeCursor(params.PageToken, q)
	return q, err
}

func (e *Engine) pageSize(n *int) (int, error) {
	if n == nil {
		return min(50, e.cfg.Limits.PageSize), nil
	}
	if *n < 1 || *n > e.cfg.Limits.PageSize {
		return 0, a2a.Invalid("pageSize", "is %d, want 1 to %d", *n, e.cfg.Limits.PageSize)
	}
	return *n, nil
}

// ceil rounds up to the millisecond, the grain of stored times.
func ceil(t time.Time) time.Time {
	if s := store.Time(t); s.Before(t) {
		return s.Add(time.Millisecond)
	}
	return t
}

// pageToken is what a page token carries. Filter ties it to the list it was
// made for.
type pageToken struct {
	Time   int64  `json:"t"`
	ID     string `json:"i"`
	Filter []byte `json:"f"`
}

func filterHash(q store.Query) []byte {
	q.Cursor, q.Limit, q.Bytes, q.Total, q.Options = nil, 0, 0, false, store.TaskOptions{}
	raw, _ := json.Marshal(q) // plain strings and times: cannot fail
	sum := sha256.Sum256(raw)
	return sum[:8]
}

func encodeCursor(next *store.Cursor, q store.Query) string {
	if next == nil {
		return ""
	}
	raw, _ := json.Marshal(pageToken{Time: next.Time.UnixMilli(), ID: next.ID, Filter: filterHash(q)}) // cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

func decodeCursor(token string, q store.Query) (*store.Cursor, error) {
	if token == "" {
		return nil, nil
	}
	var t pageToken
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(raw, &t) != nil || t.ID == "" {
		return nil, a2a.Invalid("pageToken", "is not one that this agent gave out")
	}
	if !bytes.Equal(t.Filter, filterHash(q)) {
		return nil, a2a.Invalid("pageToken", "was given out for a list with other filters")
	}
	return &store.Cursor{Time: store.Time(time.UnixMilli(t.Time)), ID: t.ID}, nil
}
