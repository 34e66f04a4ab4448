package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

const (
	sqlSelectRecord  = `SELECT namespace, key, version, value, expires_at FROM records WHERE owner = ?1 AND namespace = ?2 AND key = ?3`
	sqlRecordVersion = `SELECT version FROM records WHERE owner = ? AND namespace = ? AND key = ?`
	// Changes of a record that does not have the expected version change nothing.
	sqlInsertRecord = `INSERT INTO records (owner, namespace, key, version, value, expires_at) VALUES (?,?,?,1,?,?) ON CONFLICT DO NOTHING`
	sqlUpdateRecord = `UPDATE records SET version = version + 1, value = ?, expires_at = ? WHERE owner = ? AND namespace = ? AND key = ? AND version = ?`
	sqlDeleteRecord = `DELETE FROM records WHERE owner = ? AND namespace = ? AND key = ? AND version = ?`
	// sqlRecords lists records in namespaces below ?4.
	sqlRecords = `SELECT namespace, key, version, value, expires_at FROM records
		WHERE owner = ?1 AND (namespace, key) > (?2, ?3) AND namespace < ?4 ORDER BY namespace, key LIMIT ?5`
	sqlExpireRecords = `DELETE FROM records WHERE (owner, namespace, key) IN
		(SELECT owner, namespace, key FROM records WHERE expires_at > 0 AND expires_at < ? ORDER BY expires_at LIMIT ?)`
)

func scanRecord(owner string, r record) store.Record {
	return store.Record{
		Key: store.RecordKey{Owner: owner, Namespace: r.text(0), Key: r.text(1)}, Version: r.int(2), Value: []byte(r.text(3)), Expires: fromMillis(r.int(4)),
	}
}

// readRecord reads a record. Its version is 0 if it does not exist.
func (c *conn) readRecord(k store.RecordKey) (found store.Record, err error) {
	err = c.query(sqlSelectRecord, func(r record) error {
		found = scanRecord(k.Owner, r)
		return nil
	}, k.Owner, k.Namespace, k.Key)
	return found, err
}

// recordVersions returns the current version of the record of each change.
func (w *writer) recordVersions(owner string, changes []store.RecordChange) ([]int64, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	versions := make([]int64, len(changes))
	for i := range changes {
		k := changes[i].Record(owner)
		err := w.query(sqlRecordVersion, func(r record) error {
			versions[i] = r.int(0)
			return nil
		}, k.Owner, k.Namespace, k.Key)
		if err != nil {
			return nil, err
		}
	}
	return versions, nil
}

// saveRecords applies record changes after their versions were checked. If a version does not
// match, it returns the refusal; the changes before this one were applied.
func (w *writer) saveRecords(owner string, changes []store.RecordChange) (refusal, err error) {
	for i := range changes {
		c, n := &changes[i], int64(0)
		k := c.Record(owner)
		switch {
		case c.Delete:
			n, err = w.exec(sqlDeleteRecord, k.Owner, k.Namespace, k.Key, c.Version)
		case c.Version == 0:
			n, err = w.exec(sqlInsertRecord, k.Owner, k.Namespace, k.Key, c.Value, millis(c.Expires))
		default:
			n, err = w.exec(sqlUpdateRecord, c.Value, millis(c.Expires), k.Owner, k.Namespace, k.Key, c.Version)
		}
		switch {
		case err != nil:
			return nil, err
		case n == 0:
			return store.ErrRecordConflict, nil
		}
	}
	return nil, nil
}

// Record implements store.Records.
func (s *changeWriter) Record(ctx context.Context, key store.RecordKey) (found store.Record, err error) {
	err = s.read(ctx, func(r *reader) error {
		found, err = r.readRecord(key)
		return err
	})
	if err == nil && found.Version == 0 {
		err = store.ErrNotFound
	}
	return found, err
}

// Records implements store.Records.
func (s *changeWriter) Records(ctx context.Context, q store.RecordQuery) (page store.RecordPage, err error) {
	after, end := q.After, "\xff" // sorts after all valid namespaces
	if q.Namespace != "" {
		end = q.Namespace + "\x00"
		if after.Namespace < q.Namespace {
			after = store.RecordKey{Namespace: q.Namespace}
		}
	}
	err = s.readList(ctx, func(r *reader) error {
		return r.query(sqlRecords, func(rec record) error {
			page.Records = append(page.Records, scanRecord(q.Owner, rec))
			return nil
		}, q.Owner, after.Namespace, after.Key, end, int64(q.Limit)+1)
	})
	if err != nil {
		return store.RecordPage{}, err
	}
	if page.More = len(page.Records) > q.Limit; page.More {
		page.Records = page.Records[:q.Limit]
	}
	return page, nil
}

// SaveRecords implements store.Records.
func (s *changeWriter) SaveRecords(ctx context.Context, owner string, changes ...store.RecordChange) error {
	if err := store.CheckRecords(owner, changes); err != nil {
		return err
	}
	var refusal error
	err := s.write(ctx, &request{weight: len(changes), bytes: sqlrow.RecordBytes(changes), apply: func(w *writer) (err error) {
		if len(changes) > 1 { // applied all or none
			versions, err := w.recordVersions(owner, changes)
			if err != nil {
				return err
			}
			if refusal = rules.Records(changes, versions); refusal != nil {
				return nil
			}
		}
		refusal, err = w.saveRecords(owner, changes)
		return err
	}})
	if err != nil {
		return err
	}
	return refusal
}

// ExpireRecords implements store.Maintenance.
func (s *taskStore) ExpireRecords(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = s.write(ctx, &request{weight: max(limit, 1), apply: func(w *writer) error {
		removed, err := w.exec(sqlExpireRecords, millis(before), int64(max(limit, 0)))
		n = int(removed)
		return err
	}})
	return n, err
}
