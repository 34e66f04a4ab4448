package age

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
)

// ErrUnusable is part of the errors of Open if Config.Copy is set and the database lacks the extension, the extension
// cannot be loaded, or the user has no right to use it.
var ErrUnusable = errors.New("postgres: Apache AGE cannot be used")

// Graphs are the graphs of a store with their copies in Apache AGE.
type Graphs struct {
	graph.Complete
	store *Store
	now   func() time.Time
	// writing serializes the writes of this process to a graph, by the hash of its name.
	writing [64]sync.Mutex
	seed    maphash.Seed
}

var (
	_ graph.Complete      = (*Graphs)(nil)
	_ graph.CypherCapable = (*Graphs)(nil)
)

const (
	sqlAGE = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE pg_catalog.starts_with(nspname::text, $1::text)),
		EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'age'),
		EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'ag_catalog' AND pg_catalog.has_schema_privilege(oid, 'USAGE')),
		pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')`
	// sqlLoadAGE loads the library of AGE, because queries need its hooks. Only superusers may use LOAD.
	sqlLoadAGE = `SELECT '0'::ag_catalog.agtype::text`
)

// find sets whether graphs have copies. If Config.Copy is set, it checks that AGE can be used.
func (s *Store) find(ctx context.Context, c *pgx.Conn, prefix string) error {
	var copies, installed, usage, create bool
	if err := c.QueryRow(ctx, sqlAGE, pgx.QueryExecModeExec, prefix).Scan(&copies, &installed, &usage, &create); err != nil {
		return err
	}
	s.copies = copies || s.copy
	role := pgx.Identifier{c.Config().User}.Sanitize()
	switch {
	case !s.copy:
		return nil
	case !installed:
		return unusable(nil, "is not in the database: install Apache AGE on the server and run CREATE EXTENSION age as superuser")
	case !usage:
		return unusable(nil, "cannot be used by the user: run GRANT USAGE ON SCHEMA ag_catalog TO "+role)
	case !create:
		return unusable(nil, "cannot be used by the user: run GRANT CREATE ON DATABASE "+pgx.Identifier{c.Config().Database}.Sanitize()+" TO "+role)
	}
	_, err := c.PgConn().Exec(ctx, sqlLoadAGE).ReadAll()
	var rejected *pgconn.PgError
	if errors.As(err, &rejected) && !strings.Contains("08 40 53 55 57", rejected.Code[:2]) { // classes of temporary errors
		return unusable(err, "cannot be loaded: "+rejected.Message)
	}
	return err
}

func unusable(err error, problem string) error {
	return a2a.Wrap(a2a.CodeInternal, errors.Join(ErrUnusable, err), "extension age %s, or turn off copies of graphs", problem)
}

// Name returns the name of the graph of AGE that has the copy of a graph: [postgres.GraphPrefix] and 32 digits for owner
// and graph.
func (a *Graphs) Name(k graph.Key) string {
	sum := sha256.Sum256([]byte(k.Owner + "\x00" + cmp.Or(k.Graph, graph.DefaultGraph)))
	return postgres.GraphPrefix(a.store.Schema()) + hex.EncodeToString(sum[:])[:32]
}

// copyingDB is a database that also changes the copy of a graph in its transactions.
type copyingDB struct {
	sqlkit.DB
	age   *Graphs
	key   graph.Key
	after func(g *copied) error
}

// Write implements sqlkit.DB.
func (d *copyingDB) Write(ctx context.Context, f func(tx sqlkit.Tx) error) error {
	mutex := &d.age.writing[maphash.String(d.age.seed, d.age.Name(d.key))%uint64(len(d.age.writing))]
	mutex.Lock()
	defer mutex.Unlock()
	return d.DB.Write(ctx, func(tx sqlkit.Tx) error {
		g, err := d.age.lock(tx, d.key)
		if err == nil {
			err = f(tx)
		}
		if err != nil {
			return err
		}
		return d.after(g)
	})
}

// changing returns the graphs of the store. Their transactions call after at their end.
func (a *Graphs) changing(k graph.Key, after func(g *copied) error) *graphsql.Graphs {
	return graphsql.New(&copyingDB{a.store.SQL(), a, k, after}, a.now)
}

const sqlLockAGE = `SELECT 1 FROM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1::text, 0))`

// lock excludes other transactions that change the copy of a graph, and returns the copy.
func (a *Graphs) lock(tx sqlkit.Tx, k graph.Key) (*copied, error) {
	g := &copied{RawTx: tx.(postgres.RawTx), copy: a.store.copy, key: k, name: a.Name(k)} // of this database
	g.key.Graph = cmp.Or(k.Graph, graph.DefaultGraph)
	return g, g.Query(sqlLockAGE, func(sqlkit.Row) error { return nil }, g.name)
}

// AddEntities implements graph.Writer.
func (a *Graphs) AddEntities(ctx context.Context, k graph.Key, entities []graph.Entity) ([]string, error) {
	result, err := a.Write(ctx, k, graph.Batch{Entities: entities})
	return result.Entities, err
}

// AddRelationships implements graph.Writer.
func (a *Graphs) AddRelationships(ctx context.Context, k graph.Key, relationships []graph.Relationship) ([]string, error) {
	result, err := a.Write(ctx, k, graph.Batch{Relationships: relationships})
	return result.Relationships, err
}

// DeleteEntity implements graph.Writer.
func (a *Graphs) DeleteEntity(ctx context.Context, k graph.Key, id string) (bool, error) {
	result, err := a.Write(ctx, k, graph.Batch{DeleteEntities: []string{id}})
	return result.DeletedEntities > 0, err
}

// DeleteRelationship implements graph.Writer.
func (a *Graphs) DeleteRelationship(ctx context.Context, k graph.Key, id string) (bool, error) {
	result, err := a.Write(ctx, k, graph.Batch{DeleteRelationships: []string{id}})
	return result.DeletedRelationships > 0, err
}

// Write implements graph.Writer.
func (a *Graphs) Write(ctx context.Context, k graph.Key, b graph.Batch) (graph.Result, error) {
	b = graphdriver.WithIDs(b)
	w, err := graphdriver.NewWrite(k, b, a.now())
	if err != nil {
		return graph.Result{}, err
	}
	return a.changing(k, func(g *copied) error { return g.apply(w) }).Write(ctx, k, b)
}

// WriteEffect implements graph.Transactional.
func (a *Graphs) WriteEffect(k graph.Key, b graph.Batch) (store.Effect, error) {
	b = graphdriver.WithIDs(b)
	w, err := graphdriver.NewWrite(k, b, a.now())
	if err != nil {
		return nil, err
	}
	effect, err := a.Complete.WriteEffect(k, b)
	if err != nil {
		return nil, err
	}
	return sqlkit.NewEffect(a.store.SQL(), func(tx sqlkit.Tx) error {
		g, err := a.lock(tx, k)
		if err == nil {
			err = effect.Apply(tx)
		}
		if err != nil {
			return err
		}
		return g.apply(w)
	}), nil
}

// Restore implements graph.Restorer.
func (a *Graphs) Restore(ctx context.Context, k graph.Key, entities []graph.Entity, versions []graph.Relationship) error {
	r, err := graphdriver.NewRestored(k, entities, versions)
	if err != nil {
		return err
	}
	w := &graphdriver.Write{Key: r.Key, Entities: r.Entities}
	for _, rows := range r.Relationships {
		w.Relationships = append(w.Relationships, rows[len(rows)-1])
	}
	return a.changing(k, func(g *copied) error { return g.apply(w) }).Restore(ctx, k, entities, versions)
}

// Rebuild makes the copy of a graph again, in one transaction.
func (a *Graphs) Rebuild(ctx context.Context, k graph.Key) error {
	if _, err := graphdriver.CheckKey(k); err != nil {
		return err
	}
	db := &copyingDB{a.store.SQL(), a, k, (*copied).rebuild}
	return db.Write(ctx, func(sqlkit.Tx) error { return nil })
}

// DeleteGraph implements graph.Forgetter. It empties the copy first, so that queries find nothing. The
// names of its labels remain in AGE.
func (a *Graphs) DeleteGraph(ctx context.Context, k graph.Key) (graph.ForgetReport, error) {
	if _, err := graphdriver.CheckKey(k); err != nil {
		return graph.ForgetReport{}, err
	}
	db := &copyingDB{a.store.SQL(), a, k, func(g *copied) error {
		found, err := g.has()
		if err == nil && found {
			err = g.empty()
		}
		return err
	}}
	if err := db.Write(ctx, func(sqlkit.Tx) error { return nil }); err != nil {
		return graph.ForgetReport{}, err
	}
	report, err := a.Complete.DeleteGraph(ctx, k)
	if err != nil {
		return report, err
	}
	// Entities that were added meanwhile may remain.
	db.after = (*copied).rebuild
	return report, db.Write(ctx, func(sqlkit.Tx) error { return nil })
}

// ForgetOwner implements graph.Forgetter.
func (a *Graphs) ForgetOwner(ctx context.Context, owner string) (report graph.ForgetReport, err error) {
	for {
		infos, err := a.Graphs(ctx, graph.ListParams{Owner: owner, Limit: graph.MaxLimit})
		if err != nil { // nothing would find the copies without the graphs
			return report, err
		}
		if len(infos) == 0 {
			break
		}
		for _, info := range infos {
			part, err := a.DeleteGraph(ctx, graph.Key{Owner: owner, Graph: info.Name})
			report.Entities += part.Entities
			report.Relationships += part.Relationships
			if err != nil {
				return report, err
			}
		}
	}
	rest, err := a.Complete.ForgetOwner(ctx, owner)
	report.Entities += rest.Entities
	report.Relationships += rest.Relationships
	return report, err
}
