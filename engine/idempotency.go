package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// requestContent is the part of a send request that identifies it when it is sent again. It
// excludes the configuration, because a client may request the answer in another form.
type requestContent struct {
	Message  *a2a.Message   `json:"message"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// requestRecord returns the idempotency record of a request. The record has the client's key,
// or else identifies the message if that starts a task and has a unique id. Otherwise
// requestRecord returns nil. It must be called before ids are filled in.
func (s *sendCall) requestRecord() *store.IdempotencyRecord {
	m := &s.params.Message
	if s.opts.IdempotencyKey != "" || m.TaskID != "" || !isUnique(m.ID) {
		return keyRecord(s.owner, s.opts)
	}
	buffer := contentBuffers.Get().(*[]byte)
	defer contentBuffers.Put(buffer)
	raw, err := wire.Append((*buffer)[:0], requestContent{m, s.params.Metadata})
	if err != nil {
		return nil // the store rejects the message
	}
	if cap(raw) <= maxPooledContent {
		*buffer = raw
	}
	return &store.IdempotencyRecord{Owner: s.owner, Key: messageKey(m.ID, sha256.Sum256(raw))}
}

// contentBuffers pools buffers for encoded messages, up to maxPooledContent bytes each.
var contentBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxPooledContent = 64 << 10

// sortableBase64 preserves the order of the encoded bytes.
var sortableBase64 = base64.NewEncoding("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz").WithPadding(base64.NoPadding)

// messageKey returns the key of a message, made from its id, a UUID, and a hash of its content.
// Another message with the same id has another key, so the record needs no further hash. The
// key is short and starts with the timestamp if the id is a UUIDv7. That keeps index inserts
// local; random keys would cost each send a page write.
func messageKey(id string, content [32]byte) string {
	var name [21]byte
	digits := [12]byte([]byte(id[:8] + id[9:13]))
	_, _ = hex.Decode(name[:], digits[:]) // a UUID has hexadecimal digits there
	copy(name[6:], content[:])
	var key [29]byte
	key[0] = 'm'
	sortableBase64.Encode(key[1:], name[:])
	return string(key[:])
}

// keyRecord returns the record of a request with an Idempotency-Key, or nil without one.
func keyRecord(owner string, opts SendOptions) *store.IdempotencyRecord {
	if opts.IdempotencyKey == "" {
		return nil
	}
	return &store.IdempotencyRecord{Owner: owner, Key: "key:" + opts.IdempotencyKey, Hash: opts.RequestHash}
}

// recordToStore returns the record to store with the request's change, without its time.
func (s *sendCall) recordToStore() *store.IdempotencyRecord {
	if s.record == nil {
		return nil
	}
	record := *s.record
	record.TaskID = s.params.Message.TaskID
	return &record
}

// previousRecord returns the record of the request that this one repeats, or nil.
func (s *sendCall) previousRecord(ctx context.Context) (*store.IdempotencyRecord, error) {
	return s.e.storedRecord(ctx, s.record)
}

// storedRecord returns the stored record with the key of another record, or nil.
func (e *Engine) storedRecord(ctx context.Context, of *store.IdempotencyRecord) (*store.IdempotencyRecord, error) {
	if of == nil {
		return nil, nil
	}
	record, err := e.cfg.Store.Idempotency(ctx, of.Owner, of.Key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &record, nil
}

// refuse returns the reason why the message is rejected now. If the message was accepted
// before, it returns a *duplicateError instead: a repeated request gets its first answer.
func (s *sendCall) refuse(ctx context.Context, reason error) error {
	if record, err := s.previousRecord(ctx); err == nil && record != nil {
		return &duplicateError{record: record}
	}
	s.wasRefused = true
	return reason
}

// appendedBefore returns a record, without a key, of an earlier append of the message to the
// task, or nil. Message ids are unique within a task; appendedBefore rejects another message
// with the same id.
func (s *sendCall) appendedBefore(ctx context.Context, t *store.Task) (*store.IdempotencyRecord, error) {
	m := s.params.Message
	m.ContextID = t.ContextID
	taken := false
	for i := range t.History {
		entry := &t.History[i]
		if !entry.Received || entry.Message.ID != m.ID {
			continue
		}
		same, err := s.matchesEvent(ctx, t.Key, entry.Seq, &m)
		if err != nil {
			return nil, err
		}
		if same {
			return &store.IdempotencyRecord{Owner: s.owner, TaskID: t.Key.ID, Seq: entry.Seq}, nil
		}
		taken = true
	}
	if taken {
		return nil, a2a.Invalid("message.messageId", "is the id of another message of task %s", a2a.Quote(t.Key.ID))
	}
	return nil, nil
}

// matchesEvent reports whether the event at seq received message m with the metadata of this
// request.
func (s *sendCall) matchesEvent(ctx context.Context, task store.Key, seq int64, m *a2a.Message) (bool, error) {
	events, err := s.e.cfg.Store.Events(ctx, task, seq-1, 1)
	if err != nil || len(events) == 0 {
		return false, err
	}
	want, err := wire.Marshal(requestContent{events[0].Received, events[0].Metadata})
	if err != nil {
		return false, err
	}
	got, err := wire.Marshal(requestContent{m, s.params.Metadata})
	return bytes.Equal(got, want), err
}

// answerRepeat answers a repeated request like the first one. The first commit may have had an
// unknown outcome. Therefore a record is acknowledged only after a write, which a database
// confirms only together with all earlier commits.
func (s *sendCall) answerRepeat(ctx context.Context, record *store.IdempotencyRecord) (*Sent, error) {
	if key := s.opts.IdempotencyKey; key != "" && record.Key != "" && record.Hash != s.opts.RequestHash {
		return nil, keyConflict(key)
	}
	if !s.e.exclusive() {
		if err := s.e.cfg.Store.Ping(context.WithoutCancel(ctx)); err != nil { // has its own timeout
			return nil, err
		}
	}
	if s.opts.OnStored != nil {
		s.opts.OnStored()
	}
	s.params = nil // do not hold content while waiting
	sent, err := s.replayAnswer(ctx, store.Key{Owner: s.owner, ID: record.TaskID}, record.Seq)
	return sent, taskError(record.TaskID, err)
}

// replayAnswer returns the answer to a change that left the task at seq: the task at that
// version or, with Wait, at its next final state. It waits only for events that are not yet in
// the log.
func (s *sendCall) replayAnswer(ctx context.Context, key store.Key, seq int64) (*Sent, error) {
	l := s.e.hub.acquire(key)
	defer s.e.hub.release(l)
	for {
		out, err := s.readAnswer(context.WithoutCancel(ctx), key, seq) // the deadline ends the wait, not the answer
		if err != nil {
			return nil, err
		}
		if !s.opts.Wait || ctx.Err() != nil || out.Task.Seq >= seq && out.Task.Status.State.Final() {
			return out, nil
		}
		last := max(seq, out.Task.Seq)
		out = nil //nolint:ineffassign,wastedassign // do not hold content while waiting
		if err := s.holdMemory(ctx, 0); err != nil {
			return nil, err
		}
		if _, err := s.e.wait(ctx, l, last); err != nil {
			return nil, err
		}
	}
}

// readAnswer applies the task's log up to seq or, with Wait, to the next final state or the end
// of the log.
func (s *sendCall) readAnswer(ctx context.Context, key store.Key, seq int64) (*Sent, error) {
	outline, err := s.e.cfg.Store.Task(ctx, key, store.TaskOptions{Outline: true})
	if err != nil {
		return nil, err
	}
	if err := s.holdMemory(ctx, outline.Bytes); err != nil {
		return nil, err
	}
	t := &store.Task{Key: key, ContextID: outline.ContextID}
	out := &Sent{Task: t}
	err = store.WalkLog(ctx, s.e.cfg.Store, nil, key, 0, math.MaxInt64, func(page []store.Event) bool {
		for i := range page {
			t.Apply(page[i])
			if page[i].Received != nil && t.Seq <= seq {
				out.First = t.Clone()
			}
			if t.Seq >= seq && (!s.opts.Wait || t.Status.State.Final()) {
				return false
			}
		}
		return true
	})
	return out, err
}

// holdMemory calls the caller's Hold for the memory of the answer.
func (s *sendCall) holdMemory(ctx context.Context, bytes int64) error {
	if s.opts.ReserveMemory == nil {
		return nil
	}
	return s.opts.ReserveMemory(ctx, bytes)
}

func keyConflict(key string) error {
	return a2a.Errorf(a2a.CodeConflict, "Idempotency-Key %s was used for another request", a2a.Quote(key))
}

// isUnique reports whether an id is unique by construction: a UUID other than the nil UUID.
func isUnique(id string) bool { return isUUID(id) && strings.Trim(id, "0-") != "" }
