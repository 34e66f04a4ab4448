// Package memorysql stores facts in SQLite and PostgreSQL.
package memorysql

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
	"github.com/holdfast-dev/holdfast/store/memory/recall/recallsql"
)

const (
	// The condition of sqlFactAt on replaced_at is written so that memory_facts_recent, which has
	// the versions of a scope by time, does not serve it.
	sqlFactHead    = `SELECT` + factColumns + `, f.model, f.embedding FROM {s}.memory_facts f WHERE` + whereFact + ` AND f.head = 1`
	sqlFactAt      = `SELECT` + factColumns + ` FROM {s}.memory_facts f WHERE` + whereFact + ` AND f.replaced_at <= 0 AND f.expires_at > $5::bigint AND f.valid_from <= $6::bigint AND f.valid_to > $6::bigint`
	sqlFactHistory = `SELECT` + factColumns + ` FROM {s}.memory_facts f WHERE` + whereFact + ` AND f.expires_at > $5::bigint ORDER BY f.version`
	sqlEndValidity = `UPDATE {s}.memory_facts AS f SET head = 0, valid_to = $6::bigint WHERE` + whereNewest
	sqlSetExpiry   = `UPDATE {s}.memory_facts AS f SET expires_at = $5::bigint WHERE` + whereFact
	// sqlClaimKey locks the row of a key.
	sqlClaimKey = `INSERT INTO {s}.memory_keys (owner, agent, namespace, key, id) VALUES ($1::text, $2::text, $3::text, $4::text, $5::text)
		ON CONFLICT (owner, agent, namespace, key) DO UPDATE SET id = memory_keys.id RETURNING id`
	sqlSetKey = `INSERT INTO {s}.memory_keys (owner, agent, namespace, key, id) VALUES ($1::text, $2::text, $3::text, $4::text, $5::text)
		ON CONFLICT (owner, agent, namespace, key) DO UPDATE SET id = excluded.id`
)

// LongTerm is the long-term memory of a database.
type LongTerm struct {
	db         sqlkit.DB
	now        func() time.Time
	text       *textIndex
	embeddings *memorydriver.Embeddings
	cache      *embeddingCache
	// IndexOnly makes searches use the index in small scopes too, for tests. Set it before use.
	IndexOnly bool
}

var (
	_ memory.LongTermStore = (*LongTerm)(nil)
	_ memory.Transactional = (*LongTerm)(nil)
)

// Of returns the long-term memory in the database of a store of tasks, nil if the store has none. The memories of one
// store share their facts.
func Of(tasks any, cfg memory.LongTermConfig) memory.LongTermStore {
	if db := sqlkit.Of(tasks); db != nil {
		return New(db, cfg)
	}
	return nil
}

// New returns the long-term memory of a database. All memories of a database share a cache.
func New(db sqlkit.DB, cfg memory.LongTermConfig) *LongTerm {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	text := &sqliteIndex
	if db.Dialect() == sqlkit.PostgreSQL {
		text = &postgresIndex
	}
	return &LongTerm{db: db, now: cfg.Now, text: text, embeddings: memorydriver.NewEmbeddings(cfg), cache: cacheOf(db)}
}

// factRow is a version of a fact with the JSON of its metadata.
type factRow struct {
	memory.Memory
	metadata  string
	embedding memorydriver.Embedding // not read by scanFact
}

func scanFact(scope memory.Scope, r sqlkit.Row) factRow {
	scope.Namespace = r.Text(0)
	f := factRow{Memory: memory.Memory{
		Scope: scope, ID: r.Text(1), Key: r.Text(2), Content: r.Text(3), Metadata: jsonobject.Decode(r.Text(4)), Version: r.Int(5),
		CreatedAt: sqlkit.Time(r.Int(6)), UpdatedAt: sqlkit.Time(r.Int(7)),
		ValidFrom: sqlkit.Time(r.Int(9)), ValidTo: sqlkit.Time(r.Int(10)), ExpiresAt: sqlkit.Time(r.Int(11)), Entities: decodeEntities(r.Text(12)),
	}, metadata: r.Text(4)}
	if at := r.Int(8); at != 0 {
		f.ReplacedAt = sqlkit.Time(at)
	}
	return f
}

func (f *factRow) expired(now time.Time) bool {
	return !f.ExpiresAt.IsZero() && !f.ExpiresAt.After(now)
}

// factArgs returns the arguments of whereFact, and more.
func factArgs(scope memory.Scope, id string, more ...any) []any {
	return append([]any{scope.Owner, scope.Agent, scope.Namespace, id}, more...)
}

// head reads the newest version of a fact. found is false if it has none or has expired.
func head(q sqlkit.Querier, scope memory.Scope, id string, now time.Time) (f factRow, found bool, err error) {
	err = q.Query(sqlFactHead, func(r sqlkit.Row) error {
		f, found = scanFact(scope, r), true
		f.embedding = memorydriver.Embedding{Model: r.Text(13), Vector: memorydriver.DecodeVector(r.Bytes(14))}
		return nil
	}, factArgs(scope, id)...)
	return f, found && !f.expired(now), err
}

// insert adds a version.
func (l *LongTerm) insert(tx sqlkit.Tx, f factRow) error {
	text := recall.Analyze(f.Content)
	terms := recallsql.Document(l.db.Dialect(), scopePrefix(f.Scope), text, f.Entities)
	args := factArgs(f.Scope, f.ID, f.Version, f.Key, f.Content, f.metadata, f.CreatedAt.UnixMilli(), f.UpdatedAt.UnixMilli(), 0,
		sqlkit.LowerBound(f.ValidFrom), sqlkit.UpperBound(f.ValidTo), sqlkit.UpperBound(f.ExpiresAt), encodeEntities(f.Entities), f.embedding.Model, memorydriver.EncodeVector(f.embedding.Vector))
	if l.text.index == "" {
		_, err := tx.Exec(l.text.insert, append(args, terms)...)
		return err
	}
	if _, err := tx.Exec(l.text.insert, append(args, len(text.Words))...); err != nil {
		return err
	}
	_, err := tx.Exec(l.text.index, factArgs(f.Scope, f.ID, f.Version, terms)...)
	return err
}

// Save implements memory.LongTerm.
func (l *LongTerm) Save(ctx context.Context, scope memory.Scope, content string, p memory.SaveParams) (id string, err error) {
	first, err := l.newFact(ctx, scope, content, p)
	if err != nil {
		return "", err
	}
	err = l.db.Write(ctx, func(tx sqlkit.Tx) (err error) {
		id, err = l.save(tx, first)
		return err
	})
	return id, err
}

// SaveEffect implements memory.Transactional.
func (l *LongTerm) SaveEffect(ctx context.Context, scope memory.Scope, content string, p memory.SaveParams) (store.Effect, error) {
	first, err := l.newFact(ctx, scope, content, p)
	if err != nil {
		return nil, err
	}
	var calls func() (order string, calls []sqlkit.Call)
	if first.Key == "" {
		calls = func() (order string, calls []sqlkit.Call) {
			planned := new(sqlkit.PlannedCalls) // insert reads nothing
			_ = l.insert(planned, first)
			return "", planned.Calls
		}
	}
	return sqlkit.NewPipelinedEffect(l.db, func(tx sqlkit.Tx) error {
		_, err := l.save(tx, first)
		return err
	}, calls), nil
}

// newFact checks the parameters of Save and returns the first version of the fact, with its embedding.
func (l *LongTerm) newFact(ctx context.Context, scope memory.Scope, content string, p memory.SaveParams) (f factRow, err error) {
	if f.Memory, f.metadata, err = memorydriver.NewFact(scope, content, p, l.now()); err != nil {
		return f, err
	}
	if f.embedding, err = l.embeddings.Content(ctx, content); err != nil {
		return f, err
	}
	id, err := uuid.NewV7()
	f.ID = id.String()
	return f, err
}

// save adds a fact, or replaces the newest version of the one with its key.
func (l *LongTerm) save(tx sqlkit.Tx, next factRow) (id string, err error) {
	if next.Key == "" {
		return next.ID, l.insert(tx, next)
	}
	key := []any{next.Scope.Owner, next.Scope.Agent, next.Scope.Namespace, next.Key, next.ID}
	err = tx.Query(sqlClaimKey, func(r sqlkit.Row) error {
		id = r.Text(0)
		return nil
	}, key...)
	if err != nil || id == next.ID {
		return id, errorOr(err, func() error { return l.insert(tx, next) })
	}
	for range sqlkit.MaxConflicts {
		old, found, err := head(tx, next.Scope, id, next.UpdatedAt)
		if err != nil {
			return "", err
		}
		if !found {
			if _, err := l.removeVersions(tx, next.Scope, id, sqlkit.NoBound); err != nil {
				return "", err
			}
			if _, err := tx.Exec(sqlSetKey, key...); err != nil {
				return "", err
			}
			return next.ID, l.insert(tx, next)
		}
		done, err := l.saveOver(tx, old, next)
		if err != nil || done {
			return id, err
		}
	}
	return "", memory.ErrFactConflict
}

// errorOr returns err, or if it is nil the result of f.
func errorOr(err error, f func() error) error {
	if err != nil {
		return err
	}
	return f()
}

// saveOver replaces old, the newest version of a fact, unless next says the same. done is false
// if another transaction has changed the fact.
func (l *LongTerm) saveOver(tx sqlkit.Tx, old, next factRow) (done bool, err error) {
	replacement, changed, err := memorydriver.Replacement(old.Memory, next.Memory)
	if err != nil {
		return false, err
	}
	if changed || old.metadata != next.metadata {
		if done, err = l.succeed(tx, l.text.replace, old, factRow{replacement, next.metadata, next.embedding}, replacement.UpdatedAt); !done {
			return false, err
		}
	}
	if !old.ExpiresAt.Equal(next.ExpiresAt) {
		_, err = tx.Exec(sqlSetExpiry, factArgs(old.Scope, old.ID, sqlkit.UpperBound(next.ExpiresAt))...)
	}
	return err == nil, err
}

// succeed ends the newest version of a fact with a statement and adds the next one. done is
// false if another transaction has changed the fact.
func (l *LongTerm) succeed(tx sqlkit.Tx, end string, old, next factRow, at time.Time) (done bool, err error) {
	if end == l.text.replace && l.text.unindex != "" {
		if _, err := tx.Exec(l.text.unindex, factArgs(old.Scope, old.ID, old.Version)...); err != nil {
			return false, err
		}
	}
	n, err := tx.Exec(end, factArgs(old.Scope, old.ID, old.Version, at.UnixMilli())...)
	if err != nil || n == 0 {
		return false, err
	}
	return true, l.insert(tx, next)
}

// edit applies a change to the newest version of a fact. end is the statement that ends it, at a
// time that apply returns with the next version.
func (l *LongTerm) edit(ctx context.Context, scope memory.Scope, id string, p memory.UpdateParams, end string,
	apply func(next memory.Memory) (memory.Memory, time.Time, error),
) (result memory.Memory, err error) {
	scope, metadata, err := memorydriver.CheckUpdate(scope, id, p)
	if err != nil {
		return memory.Memory{}, err
	}
	var embedding memorydriver.Embedding
	if p.Content != "" {
		if embedding, err = l.embeddings.Content(ctx, p.Content); err != nil {
			return memory.Memory{}, err
		}
	}
	now := store.Time(l.now())
	err = l.db.Write(ctx, func(tx sqlkit.Tx) error {
		for range sqlkit.MaxConflicts {
			old, found, err := head(tx, scope, id, now)
			if err != nil {
				return err
			}
			if !found {
				return memory.ErrFactNotFound
			}
			next := factRow{metadata: metadata, embedding: embedding}
			if p.Metadata == nil {
				next.metadata = old.metadata
			}
			if p.Content == "" {
				next.embedding = old.embedding
			}
			if next.Memory, err = memorydriver.NextVersion(old.Memory, p, now); err != nil {
				return err
			}
			var at time.Time
			if next.Memory, at, err = apply(next.Memory); err != nil {
				return err
			}
			done, err := l.succeed(tx, end, old, next, at)
			if err != nil {
				return err
			}
			if done {
				result = next.Memory
				result.Metadata = jsonobject.Decode(next.metadata)
				return nil
			}
		}
		return memory.ErrFactConflict
	})
	if err != nil {
		return memory.Memory{}, err
	}
	return result, nil
}

// Update implements memory.Editor.
func (l *LongTerm) Update(ctx context.Context, scope memory.Scope, id string, p memory.UpdateParams) (memory.Memory, error) {
	return l.edit(ctx, scope, id, p, l.text.replace, func(next memory.Memory) (memory.Memory, time.Time, error) {
		return next, next.UpdatedAt, nil
	})
}

// Supersede implements memory.Editor.
func (l *LongTerm) Supersede(ctx context.Context, scope memory.Scope, id string, at time.Time, p memory.UpdateParams) (memory.Memory, error) {
	return l.edit(ctx, scope, id, p, sqlEndValidity, func(next memory.Memory) (memory.Memory, time.Time, error) {
		next, err := memorydriver.Succession(next, at)
		return next, next.ValidFrom, err
	})
}

// Get implements memory.LongTerm.
func (l *LongTerm) Get(ctx context.Context, scope memory.Scope, id string) (memory.Memory, error) {
	return l.GetAsOf(ctx, scope, id, time.Time{})
}

// GetAsOf implements memory.Historian.
func (l *LongTerm) GetAsOf(ctx context.Context, scope memory.Scope, id string, at time.Time) (memory.Memory, error) {
	if at.IsZero() {
		at = l.now()
	}
	all, err := l.versions(ctx, sqlFactAt, scope, id, at, at.UnixMilli())
	if err != nil {
		return memory.Memory{}, err
	}
	return all[0], nil
}

// History implements memory.Historian.
func (l *LongTerm) History(ctx context.Context, scope memory.Scope, id string) ([]memory.Memory, error) {
	return l.versions(ctx, sqlFactHistory, scope, id, time.Time{})
}

// versions reads versions of a fact, at least one.
func (l *LongTerm) versions(ctx context.Context, text string, scope memory.Scope, id string, at time.Time, more ...any) (all []memory.Memory, err error) {
	scope, err = memorydriver.CheckGet(scope, id, at)
	if err != nil {
		return nil, err
	}
	args := factArgs(scope, id, append([]any{l.now().UnixMilli()}, more...)...)
	err = l.db.Read(ctx, func(q sqlkit.Querier) error {
		all = nil
		return q.Query(text, func(r sqlkit.Row) error {
			all = append(all, scanFact(scope, r).Memory)
			return nil
		}, args...)
	})
	if err == nil && len(all) == 0 {
		err = memory.ErrFactNotFound
	}
	return all, err
}
