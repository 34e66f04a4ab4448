package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

const (
	sqlReadRecord = `SELECT namespace, key, version, value, expires_at FROM {s}.records
		WHERE owner = $1::text AND namespace = $2::text AND key = $3::text`
	sqlRecordVersions = `SELECT r.owner, r.namespace, r.key, r.version
		FROM unnest($1::text[], $2::text[], $3::text[]) AS u(owner, namespace, key)
		JOIN {s}.records r ON r.owner = u.owner AND r.namespace = u.namespace AND r.key = u.key`
	sqlRecords = `SELECT namespace, key, version, value, expires_at FROM {s}.records
		WHERE owner = $1::text AND %s ORDER BY namespace, key LIMIT $2::bigint`
	sqlExpireRecords = `WITH u AS MATERIALIZED (
			SELECT owner, namespace, key FROM {s}.records WHERE expires_at > 0 AND expires_at < $1::bigint AND expires_at >= $3::bigint
			ORDER BY expires_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED
		), removed AS (
			DELETE FROM {s}.records r USING u WHERE r.owner = u.owner AND r.namespace = u.namespace AND r.key = u.key RETURNING r.expires_at
		)
		SELECT count(*), coalesce(max(expires_at), 0) FROM removed`
)

// stmtRecords changes records, each at most once. It fails if a record does not have the
// expected version.
var stmtRecords = &statement{
	name: "holdfast_records",
	text: `WITH u AS MATERIALIZED (
			SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::boolean[], $7::bigint[])
			AS u(owner, namespace, key, version, value, remove, expires_at)
		), created AS (
			INSERT INTO {s}.records (owner, namespace, key, version, value, expires_at)
			SELECT owner, namespace, key, 1, value, expires_at FROM u WHERE version = 0 ON CONFLICT DO NOTHING RETURNING 1
		), replaced AS (
			UPDATE {s}.records r SET version = r.version + 1, value = u.value, expires_at = u.expires_at FROM u
			WHERE r.owner = u.owner AND r.namespace = u.namespace AND r.key = u.key AND r.version = u.version AND NOT u.remove RETURNING 1
		), removed AS (
			DELETE FROM {s}.records r USING u
			WHERE r.owner = u.owner AND r.namespace = u.namespace AND r.key = u.key AND r.version = u.version AND u.remove RETURNING 1
		)
		SELECT 1 / (CASE WHEN (SELECT count(*) FROM created) + (SELECT count(*) FROM replaced) + (SELECT count(*) FROM removed)
			= (SELECT count(*) FROM u) THEN 1 ELSE 0 END)`,
	arrays: []uint32{oidText, oidText, oidText, oidInt8, oidBytea, oidBool, oidInt8},
}

// stmtReplaceRecord replaces one record. It fails if the record does not have the expected version.
var stmtReplaceRecord = &statement{
	name: "holdfast_replace_record",
	text: `WITH r AS (
			UPDATE {s}.records SET version = version + 1, value = $5::bytea, expires_at = $6::bigint
			WHERE owner = $1::text AND namespace = $2::text AND key = $3::text AND version = $4::bigint RETURNING 1
		)
		SELECT 1 / (SELECT count(*) FROM r)`,
}

// recordCall returns the call that makes changes outside of a commit.
func recordCall(changes []ownedChange) *call {
	if len(changes) == 1 && changes[0].Version > 0 && !changes[0].Delete {
		c := changes[0]
		return &call{statement: stmtReplaceRecord, args: []any{c.Owner, c.RecordKey.Namespace, c.RecordKey.Key, c.Version, c.Value, millis(c.Expires)}}
	}
	return &call{statement: stmtRecords, args: recordColumns(changes)}
}

// ownedChange is a change of a record with its owner.
type ownedChange struct {
	store.RecordKey
	*store.RecordChange
}

func ownedChanges(owner string, changes []store.RecordChange) []ownedChange {
	owned := make([]ownedChange, len(changes))
	for i := range changes {
		c := &changes[i]
		owned[i] = ownedChange{c.Record(owner), c}
	}
	return owned
}

// records returns the calls that change records. The changes of one record are in separate
// calls, in their order.
func (c *committer) records(accepted []*change) (calls []*call) {
	var waves [][]ownedChange
	var nth map[store.RecordKey]int
	for _, ch := range accepted {
		for _, r := range ownedChanges(ch.Key.Owner, ch.Records) {
			if nth == nil {
				nth = make(map[store.RecordKey]int)
			}
			n := nth[r.RecordKey]
			if nth[r.RecordKey]++; n == len(waves) {
				waves = append(waves, nil)
			}
			waves[n] = append(waves[n], r)
		}
	}
	for _, w := range waves {
		k := c.reuseCall(stmtRecords)
		sortChanges(w)
		k.recordChanges(w)
		calls = append(calls, k)
	}
	return calls
}

// recordColumns returns the arguments of stmtRecords for changes outside of a commit.
func recordColumns(changes []ownedChange) []any {
	var owners, namespaces, keys []string
	var versions []int64
	var values [][]byte
	var remove []bool
	var expires []int64
	for _, r := range changes {
		owners, namespaces, keys = append(owners, r.Owner), append(namespaces, r.RecordKey.Namespace), append(keys, r.RecordKey.Key)
		versions, values, remove = append(versions, r.Version), append(values, r.Value), append(remove, r.Delete)
		expires = append(expires, millis(r.Expires))
	}
	return []any{owners, namespaces, keys, versions, values, remove, expires}
}

// sortChanges sorts changes by their keys, so that transactions lock records in this order.
func sortChanges(changes []ownedChange) {
	slices.SortFunc(changes, func(a, b ownedChange) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.RecordKey.Namespace, b.RecordKey.Namespace), cmp.Compare(a.RecordKey.Key, b.RecordKey.Key))
	})
}

// recordChanges adds the arguments of changes.
func (k *call) recordChanges(changes []ownedChange) {
	for _, r := range changes {
		k.columns[0].text(r.Owner)
		k.columns[1].text(r.RecordKey.Namespace)
		k.columns[2].text(r.RecordKey.Key)
		k.columns[3].int(r.Version)
		k.columns[4].bytes(r.Value)
		k.columns[5].bool(r.Delete)
		k.columns[6].int(millis(r.Expires))
	}
}

// readRecordVersions reads the versions of records. It omits records that do not exist.
func (s *changeWriter) readRecordVersions(ctx context.Context, on querier, keys []store.RecordKey) (map[store.RecordKey]int64, error) {
	versions := make(map[store.RecordKey]int64, len(keys))
	if len(keys) == 0 {
		return versions, nil
	}
	columns := make([][]string, 3)
	for _, k := range keys {
		for i, v := range []string{k.Owner, k.Namespace, k.Key} {
			columns[i] = append(columns[i], v)
		}
	}
	err := s.eachRow(ctx, on, sqlRecordVersions, func(r record) error {
		versions[store.RecordKey{Owner: r.text(0), Namespace: r.text(1), Key: r.text(2)}] = r.int(3)
		return nil
	}, columns[0], columns[1], columns[2])
	return versions, err
}

// recordVersions returns the versions of the records that a change names.
func (snap *guardSnapshot) recordVersions(ch *change) []int64 {
	versions := make([]int64, len(ch.Records))
	for i, r := range ownedChanges(ch.Key.Owner, ch.Records) {
		versions[i] = snap.records[r.RecordKey]
	}
	return versions
}

// Record implements [store.Records].
func (s *changeWriter) Record(ctx context.Context, key store.RecordKey) (found store.Record, err error) {
	err = s.readCall(ctx, "read record", func(ctx context.Context, c *pgx.Conn) error {
		found = store.Record{}
		if !storable(key.Owner, key.Namespace, key.Key) {
			return nil
		}
		return s.eachRow(ctx, c, sqlReadRecord, func(r record) error {
			found = scanRecord(key.Owner, r)
			return nil
		}, key.Owner, key.Namespace, key.Key)
	})
	if err == nil && found.Version == 0 {
		err = store.ErrNotFound
	}
	return found, err
}

func scanRecord(owner string, r record) store.Record {
	return store.Record{
		Key: store.RecordKey{Owner: owner, Namespace: r.text(0), Key: r.text(1)}, Version: r.int(2), Value: slices.Clone(r[3]),
		Expires: fromMillis(r.int(4)),
	}
}

// recordsText returns the statement of a list and its arguments.
func recordsText(q *store.RecordQuery) (text string, args []any) {
	if q.Namespace == "" {
		return fmt.Sprintf(sqlRecords, "(namespace, key) > ($3::text, $4::text)"), []any{q.Owner, q.Limit + 1, q.After.Namespace, q.After.Key}
	}
	after := ""
	switch cmp.Compare(q.After.Namespace, q.Namespace) {
	case 0:
		after = q.After.Key
	case 1:
		return fmt.Sprintf(sqlRecords, "false"), []any{q.Owner, q.Limit + 1}
	}
	return fmt.Sprintf(sqlRecords, "namespace = $3::text AND key > $4::text"), []any{q.Owner, q.Limit + 1, q.Namespace, after}
}

// Records implements [store.Records].
func (s *changeWriter) Records(ctx context.Context, q store.RecordQuery) (page store.RecordPage, err error) {
	text, args := recordsText(&q)
	err = s.readList(ctx, "list records", func(ctx context.Context, c *pgx.Conn) error {
		page = store.RecordPage{}
		if !storable(q.Owner, q.Namespace, q.After.Namespace, q.After.Key) {
			return nil
		}
		return s.eachRow(ctx, c, text, func(r record) error {
			page.Records = append(page.Records, scanRecord(q.Owner, r))
			return nil
		}, args...)
	})
	if err != nil {
		return store.RecordPage{}, err
	}
	if page.More = len(page.Records) > q.Limit; page.More {
		page.Records = page.Records[:q.Limit]
	}
	return page, nil
}

// maxGroupedRecord is the size in bytes up to which SaveRecords commits a value together with the
// values of other callers.
const maxGroupedRecord = 64 << 10

// SaveRecords implements [store.Records].
func (s *changeWriter) SaveRecords(ctx context.Context, owner string, changes ...store.RecordChange) error {
	if err := store.CheckRecords(owner, changes); err != nil {
		return err
	}
	owned := ownedChanges(owner, changes)
	sortChanges(owned)
	keys, named := make([]store.RecordKey, len(owned)), make([]store.RecordChange, len(owned))
	for i, r := range owned { // in the order of their keys
		keys[i], named[i] = r.RecordKey, *r.RecordChange
	}
	if !storable(owner) {
		return a2a.Errorf(a2a.CodeInvalid, "owner must be UTF-8 without NUL")
	}
	r := &callRequest{op: "save records", calls: []*call{recordCall(owned)}}
	if len(owned) == 1 && len(owned[0].Value) <= maxGroupedRecord {
		r.order = strings.Join([]string{"records", owner, keys[0].Namespace, keys[0].Key}, "\x00")
	}
	err := s.groups.commit(ctx, r)
	if errors.Is(err, errAnswerLost) { // it has no rows
		return nil
	}
	if !errors.Is(err, errKitRejected) {
		return err
	}
	return s.transact(ctx, "save records", func(ctx context.Context, tx pgx.Tx) error { // returns the reason
		found, err := s.readRecordVersions(ctx, tx, keys)
		if err != nil {
			return err
		}
		versions := make([]int64, len(keys))
		for i := range keys {
			versions[i] = found[keys[i]]
		}
		if err := rules.Records(named, versions); err != nil {
			return err
		}
		_, err = s.exec(ctx, tx, stmtRecords.text, recordColumns(owned)...)
		if guardFailed(err) { // changed since they were read
			err = store.ErrRecordConflict
		}
		return err
	})
}

// ExpireRecords implements [store.Maintenance].
func (s *taskStore) ExpireRecords(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.sweep(ctx, "expire records", sqlExpireRecords, &s.sweptRecords, millis(before), limit)
}
