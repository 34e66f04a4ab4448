package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// StateNamespace is the namespace of the records that contain states.
const StateNamespace = "state"

// ShortTermConfig configures [NewShortTerm].
type ShortTermConfig struct {
	// Records reads and changes the records of a store; see store.NewUpdater. Required.
	Records store.RecordUpdater
	// Now returns the current time, which expiry is based on. Default: time.Now.
	Now func() time.Time
	// TTL is how long a state is stored after its last write. 0 stores it without limit.
	TTL time.Duration
	// MaxBytes limits the JSON of a state. Default [MaxStateBytes], maximum
	// store.MaxRecordValue.
	MaxBytes int
}

// ShortTermRecords is a [ShortTerm] that stores each state as a record.
type ShortTermRecords struct{ cfg ShortTermConfig }

// NewShortTerm returns a [ShortTerm] over the records of a store.
func NewShortTerm(cfg ShortTermConfig) (*ShortTermRecords, error) {
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, MaxStateBytes)
	switch {
	case cfg.Records == nil:
		return nil, a2a.Errorf(a2a.CodeInvalid, "memory: Records: is required")
	case cfg.TTL < 0:
		return nil, a2a.Errorf(a2a.CodeInvalid, "memory: TTL: is %s, must not be negative", cfg.TTL)
	case cfg.MaxBytes < 2 || cfg.MaxBytes > store.MaxRecordValue:
		return nil, a2a.Errorf(a2a.CodeInvalid, "memory: MaxBytes: is %d, must be 2 to %d", cfg.MaxBytes, store.MaxRecordValue)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &ShortTermRecords{cfg}, nil
}

// RecordKey returns the key of the record that contains the state, or the error of Check. The length of the agent's name makes it unique.
func (k Key) RecordKey() (store.RecordKey, error) {
	name := strconv.Itoa(len(k.Agent)) + ":" + k.Agent + k.Session
	return store.RecordKey{Owner: k.Owner, Namespace: StateNamespace, Key: name}, k.Check()
}

// Get implements [ShortTerm].
func (s *ShortTermRecords) Get(ctx context.Context, key Key) (State, error) {
	k, err := key.RecordKey()
	if err != nil {
		return State{}, err
	}
	r, err := s.cfg.Records.ReadRecord(ctx, k)
	if err != nil {
		return State{}, err
	}
	return s.decode(r)
}

// Set implements [ShortTerm].
func (s *ShortTermRecords) Set(ctx context.Context, key Key, values map[string]any, version int64) (State, error) {
	raw, err := encode("values", values)
	if err != nil {
		return State{}, err
	}
	return s.write(ctx, key, version, func(State) ([]byte, error) { return raw, nil })
}

// Update implements [ShortTerm].
func (s *ShortTermRecords) Update(ctx context.Context, key Key, patch map[string]any, version int64) (State, error) {
	raw, err := encode("patch", patch)
	if err != nil {
		return State{}, err
	}
	removes := bytes.Contains(raw, []byte("null"))
	return s.write(ctx, key, version, func(before State) ([]byte, error) {
		if len(before.Values) == 0 && !removes { // the patch is the result
			return raw, wire.Valid(raw)
		}
		var patch map[string]any // decoded each time, because the merged values share it
		if err := wire.Unmarshal(raw, &patch); err != nil {
			return nil, err
		}
		return encode("patch", store.MergePatch(before.Values, patch))
	})
}

// Clear implements [ShortTerm]. It stores an empty value that has expired, so that versions
// are not used again until the record is removed.
func (s *ShortTermRecords) Clear(ctx context.Context, key Key) error {
	k, err := key.RecordKey()
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	_, err = s.cfg.Records.UpdateRecord(ctx, k, func(r store.Record) (*store.RecordChange, error) {
		if absent(r, now) {
			return nil, nil // no change
		}
		return &store.RecordChange{Expires: now}, nil
	})
	return err
}

// write replaces a state by the JSON that change returns for the state before.
func (s *ShortTermRecords) write(ctx context.Context, key Key, version int64, change func(State) ([]byte, error)) (State, error) {
	k, err := key.RecordKey()
	if err != nil {
		return State{}, err
	}
	if version < AnyVersion {
		return State{}, a2a.Errorf(a2a.CodeInvalid, "memory: version: is %d, must be that of a state or AnyVersion", version)
	}
	var expires time.Time
	if s.cfg.TTL > 0 {
		expires = s.cfg.Now().Add(s.cfg.TTL)
	}
	r, err := s.cfg.Records.UpdateRecord(ctx, k, func(r store.Record) (*store.RecordChange, error) {
		before, err := s.decode(r)
		switch {
		case err != nil:
			return nil, err
		case version != AnyVersion && version != before.Version:
			return nil, fmt.Errorf("memory: state is at version %d, want %d: %w", before.Version, version, ErrStateConflict)
		}
		value, err := change(before)
		switch {
		case err != nil:
			return nil, err
		case len(value) > s.cfg.MaxBytes:
			return nil, fmt.Errorf("memory: state would have %d bytes, limit is %d: %w", len(value), s.cfg.MaxBytes, ErrStateTooLarge)
		}
		return &store.RecordChange{Value: value, Expires: expires}, nil
	})
	if err != nil {
		return State{}, err
	}
	return s.decode(r)
}

// absent reports whether a record contains no state.
func absent(r store.Record, now time.Time) bool { return len(r.Value) == 0 || r.Expired(now) }

func (s *ShortTermRecords) decode(r store.Record) (State, error) {
	if absent(r, s.cfg.Now()) {
		return State{}, nil
	}
	st := State{Version: r.Version, Expires: r.Expires}
	if err := wire.Unmarshal(r.Value, &st.Values); err != nil {
		return State{}, a2a.Wrap(a2a.CodeInternal, err, "memory: stored state cannot be read")
	}
	return st, nil
}

// encode returns the JSON of an object. A nil map is an empty object.
func encode(field string, values map[string]any) ([]byte, error) {
	if values == nil {
		values = map[string]any{}
	}
	if err := jsonobject.Check(values, maxDepth); err != nil {
		return nil, a2a.Errorf(a2a.CodeInvalid, "memory: %s: %v", field, err)
	}
	raw, err := wire.Marshal(values)
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "memory: %s: cannot be stored as JSON: %v", field, err)
	}
	return raw, nil
}

// maxDepth limits the nesting of values. It also rejects values that contain themselves.
const maxDepth = 100
