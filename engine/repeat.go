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

// content is the part of a request to send that makes it the same request when it is sent
// again. The configuration is not in it: a client may ask for the answer in another way.
type content struct {
	Message  *a2a.Message   `json:"message"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// requestRecord returns the idempotency record of a request: by the key that the client
// set, else by the message if that starts a task and has an id that is unique by
// construction, else nil. It is called before ids are filled in.
func (s *sending) requestRecord() *store.IdempotencyRecord {
	m := &s.params.Message
	if s.opts.IdempotencyKey != "" || m.TaskID != "" || !isUnique(m.ID) {
		return keyRecord(s.owner, s.opts)
	}
	buffer := contents.Get().(*[]byte)
	defer contents.Put(buffer)
	raw, err := wire.Append((*buffer)[:0], content{m, s.params.Metadata})
	if err != nil {
		return nil // the store rejects the message
	}
	if cap(raw) <= maxContent {
		*buffer = raw
	}
	return &store.IdempotencyRecord{Owner: s.owner, Key: messageKey(m.ID, sha256.Sum256(raw))}
}

// contents are buffers for the content of messages, up to maxContent bytes each.
var contents = sync.Pool{New: func() any { return new([]byte) }}

const maxContent = 64 << 10

// ascending encodes bytes so that the texts sort as the bytes do.
var ascending = base64.NewEncoding("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz").WithPadding(base64.NoPadding)

// messageKey names a message by its id, a UUID, and a hash of its content: another message of
// the same id has another key, so a record needs no hash besides. The key is short, and starts
// as the id does, which is its time if the client makes UUIDv7: an index that grows in places
// all over costs each send a page.
func messageKey(id string, content [32]byte) string {
	var name [21]byte
	digits := [12]byte([]byte(id[:8] + id[9:13]))
	_, _ = hex.Decode(name[:], digits[:]) // a UUID has hexadecimal digits there
	copy(name[6:], content[:])
	var key [29]byte
	key[0] = 'm'
	ascending.Encode(key[1:], name[:])
	return string(key[:])
}

// keyRecord returns the record of a request with an Idempotency-Key, nil without one.
func keyRecord(owner string, opts SendOptions) *store.IdempotencyRecord {
	if opts.IdempotencyKey == "" {
		return nil
	}
	return &store.IdempotencyRecord{Owner: owner, Key: "key:" + opts.IdempotencyKey, Hash: opts.RequestHash}
}

// stamped returns the record, without its time, to store with the change that the request makes.
func (s *sending) stamped() *store.IdempotencyRecord {
	if s.record == nil {
		return nil
	}
	record := *s.record
	record.TaskID = s.params.Message.TaskID
	return &record
}

// earlier returns the record of a request that this one repeats, nil if it repeats none.
func (s *sending) earlier(ctx context.Context) (*store.IdempotencyRecord, error) {
	return s.e.recorded(ctx, s.record)
}

// recorded returns the stored record that has the key of another, nil if there is none.
func (e *Engine) recorded(ctx context.Context, of *store.IdempotencyRecord) (*store.IdempotencyRecord, error) {
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

// refused returns the reason for which the message is refused now: a *duplicate if it was
// accepted before, since a repeated request is answered as the first time.
func (s *sending) refused(ctx context.Context, why error) error {
	if record, err := s.earlier(ctx); err == nil && record != nil {
		return &duplicate{record: record}
	}
	s.turnedAway = true
	return why
}

// joined returns where the message has joined the task before, as a record without a key;
// nil if it has not. The id of a message is unique in its task: another message of the same
// id is refused.
func (s *sending) joined(ctx context.Context, t *store.Task) (*store.IdempotencyRecord, error) {
	m := s.params.Message
	m.ContextID = t.ContextID
	taken := false
	for i := range t.History {
		entry := &t.History[i]
		if !entry.Received || entry.Message.ID != m.ID {
			continue
		}
		same, err := s.isEvent(ctx, t.Key, entry.Seq, &m)
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

// isEvent reports whether the event at seq received the message m with the metadata of this
// request.
func (s *sending) isEvent(ctx context.Context, task store.Key, seq int64, m *a2a.Message) (bool, error) {
	events, err := s.e.cfg.Store.Events(ctx, task, seq-1, 1)
	if err != nil || len(events) == 0 {
		return false, err
	}
	want, err := wire.Marshal(content{events[0].Received, events[0].Metadata})
	if err != nil {
		return false, err
	}
	got, err := wire.Marshal(content{m, s.params.Metadata})
	return bytes.Equal(got, want), err
}

// repeat answers a request that was made before as it was answered then. The first answer
// may have been that the outcome is unknown, so a record that was read is acknowledged only after a
// write: a database confirms that only together with all that was committed before it.
func (s *sending) repeat(ctx context.Context, record *store.IdempotencyRecord) (*Sent, error) {
	if key := s.opts.IdempotencyKey; key != "" && record.Key != "" && record.Hash != s.opts.RequestHash {
		return nil, keyTaken(key)
	}
	if !s.e.cfg.Store.Info().Exclusive {
		if err := s.e.cfg.Store.Ping(context.WithoutCancel(ctx)); err != nil { // bounds itself
			return nil, err
		}
	}
	if s.opts.Stored != nil {
		s.opts.Stored()
	}
	s.params = nil // who waits holds no content
	sent, err := s.replay(ctx, store.Key{Owner: s.owner, ID: record.TaskID}, record.Seq)
	return sent, taskError(record.TaskID, err)
}

// replay returns the answer that was given when a change had left the task at
// seq: as it stood then or, for who waits, at its next final state. It waits only for
// what the log does not have yet.
func (s *sending) replay(ctx context.Context, key store.Key, seq int64) (*Sent, error) {
	l := s.e.hub.acquire(key)
	defer s.e.hub.release(l)
	for {
		out, err := s.read(context.WithoutCancel(ctx), key, seq) // the time to wait may end, not the time to answer
		if err != nil {
			return nil, err
		}
		if !s.opts.Wait || ctx.Err() != nil || out.Task.Seq >= seq && out.Task.Status.State.Final() {
			return out, nil
		}
		last := max(seq, out.Task.Seq)
		out = nil //nolint:ineffassign,wastedassign // who waits holds no content
		if err := s.hold(ctx, 0); err != nil {
			return nil, err
		}
		if _, err := s.e.wait(ctx, l, last); err != nil {
			return nil, err
		}
	}
}

// read returns the task as its log has it up to seq, or to the next final state for who waits, or to
// the end.
func (s *sending) read(ctx context.Context, key store.Key, seq int64) (*Sent, error) {
	outline, err := s.e.cfg.Store.Task(ctx, key, store.TaskOptions{Outline: true})
	if err != nil {
		return nil, err
	}
	if err := s.hold(ctx, outline.Bytes); err != nil {
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

// hold has the caller hold memory for the answer.
func (s *sending) hold(ctx context.Context, bytes int64) error {
	if s.opts.Hold == nil {
		return nil
	}
	return s.opts.Hold(ctx, bytes)
}

func keyTaken(key string) error {
	return a2a.Errorf(a2a.CodeConflict, "Idempotency-Key %s was used for another request", a2a.Quote(key))
}

// isUnique reports whether an id is unique by construction: a UUID, but not the one of
// zeros that stands for none.
func isUnique(id string) bool { return isUUID(id) && strings.Trim(id, "0-") != "" }
