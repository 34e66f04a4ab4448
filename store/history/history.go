package history

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Errors of stores. Test for them with errors.Is.
var (
	// ErrConflict: the newest message is not the expected one. The error is a [ConflictError].
	ErrConflict error = a2a.Errorf(a2a.CodeConflict, "history: session has changed")
	// ErrFenced: a newer attempt of the run has written to the session.
	ErrFenced error = a2a.Errorf(a2a.CodeConflict, "history: run is fenced by a newer attempt")
	// ErrNotFound: the session does not exist, has expired, or belongs to another owner.
	ErrNotFound error = a2a.Errorf(a2a.CodeNotFound, "history: session not found")
	// ErrExists: the session exists.
	ErrExists error = a2a.Errorf(a2a.CodeConflict, "history: session already exists")
)

// ConflictError is the error of an append that expects another sequence than the newest
// message has. It is [ErrConflict].
type ConflictError struct {
	Expected int64
	// Newest is the sequence of the newest message, 0 if there is none.
	Newest int64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%v: newest message is %d, expected %d", ErrConflict, e.Newest, e.Expected)
}

// Unwrap returns [ErrConflict].
func (e *ConflictError) Unwrap() error { return ErrConflict }

// Key identifies a session. All parts are non-empty UTF-8 without NUL, up to [MaxName] bytes.
type Key struct {
	// Owner is the tenant or principal that the session belongs to.
	Owner string
	Agent string
	// Session is the conversation. It is unique per owner and agent.
	Session string
}

// Message is an entry of a session.
type Message struct {
	// Seq is the position in the session. The store assigns it; Append ignores it.
	Seq int64
	// Run is the execution of the agent that wrote the message, "" if there is none. Append
	// ignores it and uses the Run of its params.
	Run string
	// Role is the author's role, such as "user" or "assistant". It may be empty.
	Role string
	// CreatedAt is the time of the message. The store sets it if it is zero.
	CreatedAt time.Time
	// Body is the message as JSON, up to [MaxBody] bytes.
	Body json.RawMessage
	// ToolCalls are the ids of the tool calls that the message makes.
	ToolCalls []string
	// ToolResults are the ids of tool calls. The message contains their results.
	ToolResults []string
}

// Provider stores the transcripts of sessions. It reads and writes; it never summarizes or trims
// by itself.
type Provider interface {
	// Append adds messages to a session and creates the session if it does not exist. It adds
	// all of them or none. It returns [ErrFenced] or [ErrConflict] if p does not permit the
	// append.
	Append(ctx context.Context, k Key, p AppendParams) (AppendResult, error)
	// Messages returns up to limit messages, whatever their size, oldest first, after skipping offset of
	// them. It returns less than limit only at the end of the session. Limit 0 means all. Its cost grows
	// with the offset; to page through a session, or to limit the bytes, use Page or [All].
	Messages(ctx context.Context, k Key, limit, offset int) ([]Message, error)
	// Page returns the messages that q selects, oldest first. The bodies of a page have up to
	// [MaxPageBytes], so it may have less than q.Limit messages although more follow; it has at least
	// one if q matches any. Its cost does not depend on the length of the session.
	Page(ctx context.Context, k Key, q Query) (Page, error)
	// Count returns the number of messages.
	Count(ctx context.Context, k Key) (int64, error)
	// Clear removes a session with all its messages, fences and idempotency keys. If it fails,
	// the session may be cleared nevertheless; Expire then removes remaining rows.
	Clear(ctx context.Context, k Key) error
	// ClearRun removes the messages and the idempotency keys of a run and returns the number of
	// messages. A fence above 0 raises the fence of the run, so that an earlier attempt cannot
	// append afterwards. It returns [ErrFenced] if the run has a higher fence.
	ClearRun(ctx context.Context, k Key, run string, fence int64) (int64, error)
	// Expire removes up to limit sessions that expired by now and returns their number. A store
	// removes nothing if its server expires data by itself.
	Expire(ctx context.Context, now time.Time, limit int) (int, error)
}

// NoTTL is the TTL of an append after which the session does not expire.
const NoTTL time.Duration = -1

// AppendParams are the messages of an append and its conditions. Zero conditions are not checked.
type AppendParams struct {
	// Messages are 1 to [MaxAppend] messages with up to [MaxAppendBytes] of bodies in total.
	Messages []Message
	// Run is the execution of the agent that writes the messages.
	Run string
	// Fence is the number of the run's attempt, such as the fence of its lease. It only grows:
	// the store rejects an append with a lower fence than the run has. It needs a Run.
	Fence int64
	// Expected is the sequence of the newest message that the caller knows, 0 for a session
	// without messages.
	Expected *int64
	// IdempotencyKey identifies the append within the session. Appending again with the same key
	// changes nothing and returns the first result, whatever the messages are.
	IdempotencyKey string
	// TTL is the time after each append until the session expires. 0 keeps the TTL of the
	// session; a new session has none. [NoTTL] removes it.
	TTL time.Duration
}

// AppendResult is the result of an append.
type AppendResult struct {
	// First and Last are the sequences of the first and the last message.
	First, Last int64
	// Repeated reports that an earlier append had the same idempotency key.
	Repeated bool
}

// Query selects messages of a session.
type Query struct {
	// After selects messages with a greater sequence, Before those with a lower one. 0 means no
	// bound.
	After, Before int64
	// Newest selects the newest of these messages instead of the oldest.
	Newest bool
	// Limit is the maximum number of messages, up to [MaxPage]. 0 means [DefaultPage].
	Limit int
	// KeepToolPairs returns whole groups of tool calls and results. The limit may then be
	// exceeded by a group that is alone in the page. A group that exceeds [MaxPageBytes] is split.
	KeepToolPairs bool
}

// Tail returns the query for the newest limit messages.
func Tail(limit int) Query { return Query{Newest: true, Limit: limit} }

// Before returns the query for the newest limit messages before a sequence.
func Before(seq int64, limit int) Query { return Query{Before: seq, Newest: true, Limit: limit} }

// After returns the query for the oldest limit messages after a sequence; 0 starts at the first.
func After(seq int64, limit int) Query { return Query{After: seq, Limit: limit} }

// Page is a page of messages, oldest first.
type Page struct {
	Messages []Message
	// More reports that the query matches more messages: older ones with Newest, else newer ones.
	// A page with less than Limit messages may have more.
	More bool
}
