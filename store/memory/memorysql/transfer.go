package memorysql

import (
	"context"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
)

var (
	_ memory.Lister   = (*LongTerm)(nil)
	_ memory.Restorer = (*LongTerm)(nil)
)

const (
	sqlFactList = `SELECT` + factColumns + `, f.agent FROM {s}.memory_facts f
		WHERE f.owner = $1::text AND (f.agent, f.namespace, f.id) > ($2::text, $3::text, $4::text) AND f.head = 1 AND f.expires_at > $5::bigint
		ORDER BY f.agent, f.namespace, f.id LIMIT $6::bigint`
	sqlFactKey    = `SELECT f.id FROM {s}.memory_keys f WHERE` + whereScope + ` AND f.key = $4::text`
	sqlFactExists = `SELECT 1 FROM {s}.memory_facts f WHERE` + whereFact + ` LIMIT 1`
)

// Facts implements memory.Lister.
func (l *LongTerm) Facts(ctx context.Context, q memory.FactQuery) (page memory.FactPage, err error) {
	if q, err = memorydriver.CheckFacts(q); err != nil {
		return page, err
	}
	agent, namespace, id := memorydriver.PageStart(q)
	err = l.db.Read(ctx, func(on sqlkit.Querier) error {
		page = memory.FactPage{}
		return on.Query(sqlFactList, func(r sqlkit.Row) error {
			m := scanFact(memory.Scope{Owner: q.Owner, Agent: r.Text(13)}, r).Memory
			if !memorydriver.Matches(q, m.Scope) {
				return nil // after the selected ones
			}
			if page.More = len(page.Facts) == q.Limit; !page.More {
				page.Facts = append(page.Facts, m)
			}
			return nil
		}, q.Owner, agent, namespace, id, l.now().UnixMilli(), q.Limit+1)
	})
	return page, err
}

// Restore implements memory.Restorer.
func (l *LongTerm) Restore(ctx context.Context, versions []memory.Memory) error {
	metadata, err := memorydriver.CheckVersions(versions)
	if err != nil {
		return err
	}
	return l.db.Write(ctx, func(tx sqlkit.Tx) error {
		f := factRow{Memory: versions[0], metadata: metadata[0]}
		if err := claimRestored(tx, f); err != nil {
			return err
		}
		if err := l.insert(tx, f); err != nil {
			return err
		}
		for i := range versions[1:] {
			old, next := factRow{Memory: versions[i], metadata: metadata[i]}, factRow{Memory: versions[i+1], metadata: metadata[i+1]}
			end, at := l.text.replace, old.ReplacedAt
			if at.IsZero() {
				end, at = sqlEndValidity, old.ValidTo
			}
			done, err := l.succeed(tx, end, old, next, at)
			if err == nil && !done {
				err = memory.ErrFactConflict
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// claimRestored returns ErrFactConflict if a fact with the id or the key exists.
func claimRestored(tx sqlkit.Tx, f factRow) error {
	exists, err := sqlkit.QueryOne(tx, sqlFactExists, func(sqlkit.Row) {}, factArgs(f.Scope, f.ID)...)
	if err == nil && !exists && f.Key != "" {
		id := ""
		_, err = sqlkit.QueryOne(tx, sqlClaimKey, func(r sqlkit.Row) { id = r.Text(0) }, f.Scope.Owner, f.Scope.Agent, f.Scope.Namespace, f.Key, f.ID)
		exists = id != f.ID
	}
	if err == nil && exists {
		err = memory.ErrFactConflict
	}
	return err
}

// CanRestore implements memory.Restorer.
func (l *LongTerm) CanRestore(ctx context.Context, versions []memory.Memory) error {
	if _, err := memorydriver.CheckVersions(versions); err != nil {
		return err
	}
	m := &versions[0]
	var exists, used bool
	err := l.db.Read(ctx, func(q sqlkit.Querier) (err error) {
		exists, err = sqlkit.QueryOne(q, sqlFactExists, func(sqlkit.Row) {}, factArgs(m.Scope, m.ID)...)
		if err == nil && m.Key != "" {
			used, err = sqlkit.QueryOne(q, sqlFactKey, func(sqlkit.Row) {}, factArgs(m.Scope, m.Key)...)
		}
		return err
	})
	if err == nil && (exists || used) {
		err = memory.ErrFactConflict
	}
	return err
}
