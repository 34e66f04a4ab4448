package engine

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
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

// idempotency recognizes a request that is sent again, so that it gets the same answer.
type idempotency struct {
	store Store
	key   string // Idempotency-Key of the request; may be empty
	// record identifies the request; nil if only the task's history can identify it.
	record *store.IdempotencyRecord
}

// idempotency returns the identity of a request by its Idempotency-Key. A request without a key
// is not recognized, unless identifyMessage is called.
func (e *Engine) idempotency(owner string, opts SendOptions) *idempotency {
	i := &idempotency{store: e.cfg.Store, key: opts.IdempotencyKey}
	if i.key != "" {
		i.record = &store.IdempotencyRecord{Owner: owner, Key: "key:" + i.key, Hash: opts.RequestHash}
	}
	return i
}

// identifyMessage identifies a request without a key by its message, if the message starts a
// task and has a unique id. It must be called before Send assigns ids.
func (i *idempotency) identifyMessage(owner string, params *a2a.MessageSendParams) {
	m := &params.Message
	if i.record != nil || m.TaskID != "" || !isUnique(m.ID) {
		return
	}
	buffer := contentBuffers.Get().(*[]byte)
	defer contentBuffers.Put(buffer)
	raw, err := wire.Append((*buffer)[:0], requestContent{m, params.Metadata})
	if err != nil {
		return // the store rejects the message
	}
	if cap(raw) <= maxPooledContent {
		*buffer = raw
	}
	i.record = &store.IdempotencyRecord{Owner: owner, Key: messageKey(m.ID, sha256.Sum256(raw))}
}

// recordFor returns the record to store with the change of a task or context, without its time.
// It returns nil for a request that is not recognized.
func (i *idempotency) recordFor(id string) *store.IdempotencyRecord {
	if i.record == nil {
		return nil
	}
	record := *i.record
	record.TaskID = id
	return &record
}

// previous returns the record of the request that this one repeats, or nil.
func (i *idempotency) previous(ctx context.Context) (*store.IdempotencyRecord, error) {
	if i.record == nil {
		return nil, nil
	}
	record, err := i.store.Idempotency(ctx, i.record.Owner, i.record.Key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &record, nil
}

// check returns an error if the key was used for another request. first is the record of the
// first request.
func (i *idempotency) check(first *store.IdempotencyRecord) error {
	if i.key != "" && first.Key != "" && first.Hash != i.record.Hash {
		return keyConflict(i.key)
	}
	return nil
}

func keyConflict(key string) error {
	return a2a.Errorf(a2a.CodeConflict, "Idempotency-Key %s was used for another request", a2a.Quote(key))
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

// isUnique reports whether an id is unique by construction: a UUID other than the nil UUID.
func isUnique(id string) bool { return isUUID(id) && strings.Trim(id, "0-") != "" }
