package store

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// System is the owner of the server's own records. No principal has this id: it contains a control character.
const System = "\x1fholdfast"

// Limits of records, in bytes.
const (
	MaxRecordNamespace = 64
	MaxRecordKey       = 512
	MaxRecordValue     = 1 << 20
)

// Records stores values that belong to an owner and not to a task: session state, keys,
// ledgers. A namespace belongs to one feature, which also removes its records; deleting a
// task or a context leaves them.
type Records interface {
	// Record returns a record, or ErrNotFound.
	Record(ctx context.Context, key RecordKey) (Record, error)
	// Records returns a page of the owner's records, by namespace and key in the order of
	// their bytes.
	Records(ctx context.Context, q RecordQuery) (RecordPage, error)
	// SaveRecords changes records of an owner, all or none, without a task. It returns
	// ErrRecordConflict like Commit. Records that belong to a change of a task are part of
	// it; see Change.Records.
	SaveRecords(ctx context.Context, owner string, changes ...RecordChange) error
}

// RecordKey identifies a record.
type RecordKey struct {
	Owner, Namespace, Key string
}

// Record is a value under a key. Version is 1 after its creation, and each change increments
// it. A record that is deleted and created again starts at 1. If the readers of a namespace
// must notice this, keep the record and save a value that marks it as removed.
type Record struct {
	Key     RecordKey
	Version int64
	Value   []byte
	// Expires is when the record may be removed; the zero time means never. A store returns
	// a record until [Maintenance.ExpireRecords] removes it, because stores read no clock.
	// Readers treat a record that has expired as not found, and replace it by its version.
	Expires time.Time
}

// Expired reports whether the record has expired at a time.
func (r *Record) Expired(now time.Time) bool { return !r.Expires.IsZero() && !r.Expires.After(now) }

// RecordChange creates, replaces or deletes a record.
type RecordChange struct {
	Namespace, Key string
	// Version must equal the version of the record, or be 0 if the record must not exist.
	Version int64
	// Value is the new value. Delete removes the record instead.
	Value  []byte
	Delete bool
	// Expires is when the record expires, in milliseconds; the zero time means never. Each
	// change sets it anew.
	Expires time.Time
	// System changes a record of [System] instead of a record of the owner.
	System bool
}

// Record returns the key of the changed record. owner is the owner of the change.
func (c *RecordChange) Record(owner string) RecordKey {
	if c.System {
		owner = System
	}
	return RecordKey{Owner: owner, Namespace: c.Namespace, Key: c.Key}
}

// RecordQuery selects records of an owner.
type RecordQuery struct {
	Owner string
	// Namespace selects the records of one namespace; "" selects all.
	Namespace string
	// After continues after a record with this namespace and key; the zero value starts the
	// list. Its owner is ignored.
	After RecordKey
	// Limit is the maximum size of the page, at least 1.
	Limit int
}

// RecordPage is a page of records.
type RecordPage struct {
	Records []Record
	// More reports that more records follow.
	More bool
}

// CheckRecords returns an error if changes of records are malformed, so that no store can
// apply them. One call changes a record at most once.
func CheckRecords(owner string, changes []RecordChange) error {
	if owner == "" {
		return fmt.Errorf("change of records has no owner")
	}
	seen := make(map[RecordKey]bool, len(changes))
	for i := range changes {
		c := &changes[i]
		k := c.Record(owner)
		switch {
		case seen[k]:
			return fmt.Errorf("record %q of namespace %q is changed twice", c.Key, c.Namespace)
		case c.Version < 0 || c.Delete && c.Version == 0:
			return fmt.Errorf("record %q of namespace %q: version is %d, want that of the record to delete or replace", c.Key, c.Namespace, c.Version)
		case len(c.Value) > MaxRecordValue:
			return fmt.Errorf("record %q of namespace %q: value has %d bytes, limit is %d", c.Key, c.Namespace, len(c.Value), MaxRecordValue)
		}
		if err := checkRecordName("namespace", c.Namespace, MaxRecordNamespace); err != nil {
			return err
		}
		if err := checkRecordName("key", c.Key, MaxRecordKey); err != nil {
			return err
		}
		seen[k] = true
	}
	return nil
}

func checkRecordName(field, name string, limit int) error {
	switch {
	case name == "" || strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return fmt.Errorf("record %s: must be UTF-8, not empty and without NUL", field)
	case len(name) > limit:
		return fmt.Errorf("record %s: has %d bytes, limit is %d", field, len(name), limit)
	}
	return nil
}
