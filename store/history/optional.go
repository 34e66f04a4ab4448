package history

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Transactional is implemented by stores that can write as part of a change of a task; see
// [store.Effect]. The methods return an error if their arguments are invalid. Applying an effect
// fails with the other errors of the method that it is named after.
type Transactional interface {
	AppendEffect(k Key, p AppendParams) (store.Effect, error)
	// ClearEffect makes the session invisible. [Provider.Expire] removes its rows later.
	ClearEffect(k Key) (store.Effect, error)
	ClearRunEffect(k Key, run string, fence int64) (store.Effect, error)
}

// Editor is implemented by stores that can copy and shorten sessions.
type Editor interface {
	// Fork copies a session to a new one. Copies keep their sequences; fences and idempotency
	// keys are not copied. It returns the number of messages, [ErrNotFound] if there is no
	// session to copy, or [ErrExists] if the new session exists. It is one transaction, and
	// its cost grows with the number of messages.
	Fork(ctx context.Context, p ForkParams) (int64, error)
	// Rewind removes the messages after a sequence and returns their number. 0 removes all
	// messages and keeps the session. Sequences of removed messages are not assigned again.
	Rewind(ctx context.Context, k Key, seq int64) (int64, error)
}

// ForkParams are the params of a fork.
type ForkParams struct {
	From Key
	// To is the new session. It has the same owner.
	To Key
	// Through is the sequence of the last message to copy, 0 for all messages.
	Through int64
	// TTL is the TTL of the new session, 0 if it does not expire.
	TTL time.Duration
}

// Pruner is implemented by stores that can remove the oldest messages of a session.
type Pruner interface {
	// Prune removes the oldest messages until the session complies with a policy, as far as whole
	// groups of tool calls permit. It removes messages in batches: if it fails, it returns the
	// number removed so far.
	Prune(ctx context.Context, k Key, p Policy) (Pruned, error)
}

// Policy limits a session. Zero fields set no limit; at least one must be set.
type Policy struct {
	// MaxMessages is the number of messages to keep.
	MaxMessages int64
	// MaxBytes is the total size of their bodies.
	MaxBytes int64
	// CreatedBefore removes messages that are older, until the first one that is not.
	CreatedBefore time.Time
}

// Pruned counts removed messages and the bytes of their bodies.
type Pruned struct{ Messages, Bytes int64 }

// Searcher is implemented by stores that can search messages.
type Searcher interface {
	// Search returns messages of the scope that contain a text. One call examines up to
	// [SearchScan] messages and returns up to [MaxPageBytes] of bodies, so that a page may be short
	// or empty although more pages follow.
	Search(ctx context.Context, q SearchQuery) (SearchPage, error)
}

// SearchQuery selects messages by their text.
type SearchQuery struct {
	// Owner, Agent and Session are the scope. "" for Session means all sessions of the agent, and
	// "" for Agent means all agents of the owner.
	Owner, Agent, Session string
	// Text is what messages contain, without regard to case, up to [MaxSearchQuery] bytes.
	Text string
	// Words matches messages with all words of Text in any order, instead of Text as it is. A word
	// is a sequence of letters, marks and digits.
	Words bool
	// Limit is the maximum number of messages, up to [MaxPage]. 0 means [DefaultPage].
	Limit int
	// Next continues after an earlier page with the same query.
	Next *SearchCursor
}

// SearchCursor is the message at which a page of results ended.
type SearchCursor struct {
	Agent, Session string
	Seq            int64
}

// SearchPage is a page of results: by agent, session and sequence, all descending. So within a
// session newer messages are first.
type SearchPage struct {
	Hits []Hit
	// Next is the cursor of the next page, nil if there is none.
	Next *SearchCursor
}

// Hit is a message that matches a search.
type Hit struct {
	Key     Key
	Message Message
}

// SessionLister is implemented by stores that can list sessions.
type SessionLister interface {
	// Session returns a session, or [ErrNotFound].
	Session(ctx context.Context, k Key) (Session, error)
	// Sessions returns a page of the sessions of an owner, the one with the newest write first.
	Sessions(ctx context.Context, q SessionQuery) (SessionPage, error)
}

// Session describes a session.
type Session struct {
	Key Key
	// Messages and Bytes are the number of messages and the size of their bodies.
	Messages, Bytes int64
	// Newest is the sequence of the newest message, 0 if there is none.
	Newest int64
	// CreatedAt and UpdatedAt are the times of the first and the last append.
	CreatedAt, UpdatedAt time.Time
	// ExpiresAt is when the session expires, zero if it does not.
	ExpiresAt time.Time
}

// SessionQuery selects sessions.
type SessionQuery struct {
	Owner string
	// Agent selects the sessions of one agent; "" selects all.
	Agent string
	// Limit is the maximum number of sessions, up to [MaxPage]. 0 means [DefaultPage].
	Limit int
	// Next continues after an earlier page. A session that was written to since then may be
	// missing from later pages, but none is repeated.
	Next *SessionCursor
}

// SessionCursor is the session at which a page ended.
type SessionCursor struct {
	UpdatedAt      time.Time
	Agent, Session string
}

// SessionPage is a page of sessions: by time of the last append, agent and session, all descending.
type SessionPage struct {
	Sessions []Session
	// Next is the cursor of the next page, nil if there is none.
	Next *SessionCursor
}
