package memorysql

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
)

const (
	sqlRemoveFact      = `DELETE FROM {s}.memory_facts AS f WHERE` + whereFact + ` AND f.expires_at <= $5::bigint`
	sqlRemoveFactKey   = `DELETE FROM {s}.memory_keys AS f WHERE` + whereFact
	sqlRemoveFactsUpTo = `DELETE FROM {s}.memory_facts AS f WHERE` + whereScope + ` AND f.id <= $4::text`
	sqlRemoveKeysUpTo  = `DELETE FROM {s}.memory_keys AS f WHERE` + whereScope + ` AND f.id <= $4::text`
	sqlLastID          = `SELECT f.id FROM {s}.memory_facts f WHERE` + whereScope + ` AND f.head = 1 ORDER BY f.id LIMIT $4::bigint`
	sqlCountUpTo       = `SELECT coalesce(sum(f.head), 0), count(*) FROM {s}.memory_facts f WHERE` + whereScope + ` AND f.id <= $4::text AND f.expires_at > $5::bigint`
	sqlFirstScope      = `SELECT f.agent, f.namespace FROM {s}.memory_facts f WHERE f.owner = $1::text ORDER BY f.agent, f.namespace LIMIT 1`
	sqlExpired         = `SELECT f.owner, f.agent, f.namespace, f.id FROM {s}.memory_facts f
		WHERE f.head = 1 AND f.expires_at < 9223372036854775807 AND f.expires_at <= $1::bigint ORDER BY f.expires_at LIMIT $2::bigint`
	sqlNextNamespace = `SELECT f.namespace FROM {s}.memory_facts f WHERE f.owner = $1::text AND f.agent = $2::text AND f.namespace > $3::text
		AND f.namespace >= $4::text AND f.namespace < $5::text AND f.head = 1 AND f.expires_at > $6::bigint ORDER BY f.namespace LIMIT 1`
)

// removeBatch is the number of facts that one transaction removes.
const removeBatch = 200

// removeVersions removes the versions of a fact if it expires at or before a time. It repeats the statement until it finds none,
// because a transaction that it waited for may have added one.
func (l *LongTerm) removeVersions(tx sqlkit.Tx, scope memory.Scope, id string, before int64) (removed int64, err error) {
	args := factArgs(scope, id, before)
	for {
		if l.text.remove != "" {
			if _, err := tx.Exec(l.text.remove, args...); err != nil {
				return removed, err
			}
		}
		n, err := tx.Exec(sqlRemoveFact, args...)
		if removed += n; err != nil || n == 0 {
			return removed, err
		}
	}
}

// Delete implements memory.LongTerm.
func (l *LongTerm) Delete(ctx context.Context, scope memory.Scope, id string) (deleted bool, err error) {
	scope, err = memorydriver.CheckGet(scope, id, time.Time{})
	if err != nil {
		return false, err
	}
	now := l.now()
	err = l.db.Write(ctx, func(tx sqlkit.Tx) error {
		var err error
		if _, deleted, err = head(tx, scope, id, now); err != nil {
			return err
		}
		return l.remove(tx, scope, id)
	})
	return deleted && err == nil, err
}

// DeleteEffect implements memory.Transactional.
func (l *LongTerm) DeleteEffect(scope memory.Scope, id string) (store.Effect, error) {
	scope, err := memorydriver.CheckGet(scope, id, time.Time{})
	if err != nil {
		return nil, err
	}
	return sqlkit.NewEffect(l.db, func(tx sqlkit.Tx) error { return l.remove(tx, scope, id) }), nil
}

// remove removes a fact with its key.
func (l *LongTerm) remove(tx sqlkit.Tx, scope memory.Scope, id string) error {
	if _, err := l.removeVersions(tx, scope, id, sqlkit.NoBound); err != nil {
		return err
	}
	_, err := tx.Exec(sqlRemoveFactKey, factArgs(scope, id)...)
	return err
}

// Clear implements memory.LongTerm.
func (l *LongTerm) Clear(ctx context.Context, scope memory.Scope) (int, error) {
	scope, err := memorydriver.CheckScope(scope)
	if err != nil {
		return 0, err
	}
	var report memory.ForgetReport
	for {
		more, err := l.clearBatch(ctx, scope, l.now().UnixMilli(), &report)
		if err != nil || !more {
			return report.Facts, err
		}
	}
}

// clearBatch removes facts of a scope and adds those that expire after a time to the report. It
// returns whether more may exist.
func (l *LongTerm) clearBatch(ctx context.Context, scope memory.Scope, after int64, report *memory.ForgetReport) (more bool, err error) {
	var batch memory.ForgetReport
	err = l.db.Write(ctx, func(tx sqlkit.Tx) error {
		batch, more = memory.ForgetReport{}, false
		last, found := "", 0
		err := tx.Query(sqlLastID, func(r sqlkit.Row) error {
			last, found = r.Text(0), found+1
			return nil
		}, scope.Owner, scope.Agent, scope.Namespace, removeBatch)
		if err != nil || found == 0 {
			return err
		}
		more = found == removeBatch
		err = tx.Query(sqlCountUpTo, func(r sqlkit.Row) error {
			batch = memory.ForgetReport{Facts: int(r.Int(0)), Versions: int(r.Int(1))}
			return nil
		}, factArgs(scope, last, after)...)
		for _, text := range []string{sqlRemoveKeysUpTo, l.text.removeUpTo, sqlRemoveFactsUpTo} {
			if err == nil && text != "" {
				_, err = tx.Exec(text, factArgs(scope, last)...)
			}
		}
		return err
	})
	if err != nil {
		return false, err
	}
	report.Facts += batch.Facts
	report.Versions += batch.Versions
	return more, nil
}

// ForgetSubject implements memory.Forgetter.
func (l *LongTerm) ForgetSubject(ctx context.Context, owner string) (report memory.ForgetReport, err error) {
	if err := memorydriver.CheckOwner(owner); err != nil {
		return report, err
	}
	for {
		scope := memory.Scope{Owner: owner}
		err := l.db.Read(ctx, func(q sqlkit.Querier) error {
			scope.Agent = ""
			return q.Query(sqlFirstScope, func(r sqlkit.Row) error {
				scope.Agent, scope.Namespace = r.Text(0), r.Text(1)
				return nil
			}, owner)
		})
		if err != nil || scope.Agent == "" {
			return report, err
		}
		if _, err := l.clearBatch(ctx, scope, 0, &report); err != nil {
			return report, err
		}
	}
}

// Expire implements memory.Expirer.
func (l *LongTerm) Expire(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	before := now.UnixMilli()
	for removed < limit {
		batch := min(limit-removed, removeBatch)
		found, n := 0, 0
		err := l.db.Write(ctx, func(tx sqlkit.Tx) (err error) {
			found, n, err = l.expireBatch(tx, before, batch)
			return err
		})
		if err != nil {
			return removed, err
		}
		if removed += n; found < batch {
			break
		}
	}
	return removed, nil
}

// expireBatch removes facts that expire at or before a time.
func (l *LongTerm) expireBatch(tx sqlkit.Tx, before int64, limit int) (found, removed int, err error) {
	var expired []memory.Memory
	err = tx.Query(sqlExpired, func(r sqlkit.Row) error {
		expired = append(expired, memory.Memory{Scope: memory.Scope{Owner: r.Text(0), Agent: r.Text(1), Namespace: r.Text(2)}, ID: r.Text(3)})
		return nil
	}, before, limit)
	if err != nil {
		return 0, 0, err
	}
	for _, m := range expired {
		n, err := l.removeVersions(tx, m.Scope, m.ID, before)
		if err != nil {
			return 0, 0, err
		}
		if n == 0 {
			continue // its expiry was set anew meanwhile
		}
		removed++
		if _, err := tx.Exec(sqlRemoveFactKey, factArgs(m.Scope, m.ID)...); err != nil {
			return 0, 0, err
		}
	}
	return len(expired), removed, nil
}

// Namespaces implements memory.NamespaceLister. Each step reads one index entry, however many
// facts a namespace has.
func (l *LongTerm) Namespaces(ctx context.Context, q memory.NamespaceQuery) (all []string, err error) {
	q, err = memorydriver.CheckNamespaces(q)
	if err != nil {
		return nil, err
	}
	const last = "\U0010ffff" // after each namespace
	ranges := [][2]string{{"", last}}
	if q.Prefix != "" {
		ranges = [][2]string{{q.Prefix, q.Prefix + "\x01"}, {q.Prefix + "/", q.Prefix + "0"}}
	}
	now := l.now().UnixMilli()
	err = l.db.Read(ctx, func(on sqlkit.Querier) error {
		all = nil
		for _, r := range ranges {
			after := q.After
			for found := true; found && len(all) < q.Limit; {
				found = false
				err := on.Query(sqlNextNamespace, func(row sqlkit.Row) error {
					after, found = row.Text(0), true
					all = append(all, after)
					return nil
				}, q.Owner, q.Agent, after, r[0], r[1], now)
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	return all, err
}
