package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
)

// ErrNoAGE is part of the errors of Open if Config.AGE is set and the database lacks the extension, the
// extension cannot be loaded, or the user has no right to use it.
var ErrNoAGE = errors.New("postgres: Apache AGE cannot be used")

// AGE has the graphs of a store with a copy of each in Apache AGE, which executes queries in openCypher.
// [Store.Graph] returns it with Config.AGE.
//
// The tables of the store contain the graphs with all versions of relationships, and serve all calls but
// queries. Each write changes the copy in its transaction. A copy has the newest version of each
// relationship, in a graph of AGE with a label for each label of entities and type of
// relationships. The names of labels and types must differ within a graph.
//
// The first write of a graph copies what it contains. A store without Config.AGE makes no copies and
// executes queries itself, but changes the copies that existed when it was opened, so that they stay equal
// and no deleted data remains in them. Copies of writes that it has made before are made again by
// [AGE.Rebuild].
type AGE struct {
	graph.Complete
	database *database
	now      func() time.Time
	// writing serializes the writes of this process to a graph, by the hash of its name.
	writing [64]sync.Mutex
	seed    maphash.Seed
}

var (
	_ graph.Complete      = (*AGE)(nil)
	_ graph.CypherCapable = (*AGE)(nil)
)

// Graph returns the graphs of the store, an [*AGE] if they have copies in Apache AGE. now returns the
// current time; nil means time.Now.
func (s *Store) Graph(now func() time.Time) graph.Complete {
	if now == nil {
		now = time.Now
	}
	graphs := graphsql.New(&kit{s.database}, now)
	if !s.copiesGraphs {
		return graphs
	}
	return &AGE{Complete: graphs, database: s.database, now: now, seed: maphash.MakeSeed()}
}

const (
	sqlAGE = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE pg_catalog.starts_with(nspname::text, $1::text)),
		EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'age'),
		EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'ag_catalog' AND pg_catalog.has_schema_privilege(oid, 'USAGE')),
		pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')`
	// sqlLoadAGE loads the library of AGE, because queries need its hooks. Only superusers may use LOAD.
	sqlLoadAGE = `SELECT '0'::ag_catalog.agtype::text`
)

// findAGE finds whether graphs have copies in Apache AGE, and checks that it can be used if Config.AGE is
// set.
func (s *database) findAGE(ctx context.Context, c *pgx.Conn) error {
	var copies, installed, usage, create bool
	if err := c.QueryRow(ctx, sqlAGE, pgx.QueryExecModeExec, GraphPrefix(s.cfg.Schema)).Scan(&copies, &installed, &usage, &create); err != nil {
		return err
	}
	s.copiesGraphs = copies || s.cfg.AGE
	role := pgx.Identifier{c.Config().User}.Sanitize()
	switch {
	case !s.cfg.AGE:
		return nil
	case !installed:
		return noAGE(nil, "is not in the database: install Apache AGE on the server and run CREATE EXTENSION age as superuser")
	case !usage:
		return noAGE(nil, "cannot be used by the user: run GRANT USAGE ON SCHEMA ag_catalog TO "+role)
	case !create:
		return noAGE(nil, "cannot be used by the user: run GRANT CREATE ON DATABASE "+pgx.Identifier{c.Config().Database}.Sanitize()+" TO "+role)
	}
	_, err := c.PgConn().Exec(ctx, sqlLoadAGE).ReadAll()
	var rejected *pgconn.PgError
	if errors.As(err, &rejected) && !transient(err) {
		return noAGE(err, "cannot be loaded: "+rejected.Message)
	}
	return err
}

func noAGE(err error, problem string) error {
	return a2a.Wrap(a2a.CodeInternal, errors.Join(ErrNoAGE, err), "extension age %s, or turn off copies of graphs", problem)
}

// Name returns the name of the graph of AGE that has the copy of a graph: [GraphPrefix] and 32 digits for
// owner and graph.
func (a *AGE) Name(k graph.Key) string {
	return GraphPrefix(a.database.cfg.Schema) + digest(k.Owner+"\x00"+cmp.Or(k.Graph, graph.DefaultGraph), 32)
}

// GraphPrefix returns the prefix of the names of all graphs of AGE that have copies of a store's graphs:
// "holdfast_", 8 digits for the schema and "_".
func GraphPrefix(schema string) string { return "holdfast_" + digest(schema, 8) + "_" }

func digest(text string, digits int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digits]
}

// ageDB is a kit that also changes the copy of a graph in its transactions.
type ageDB struct {
	*kit
	age   *AGE
	key   graph.Key
	after func(g *ageGraph) error
}

// Write implements sqlkit.DB.
func (d *ageDB) Write(ctx context.Context, f func(tx sqlkit.Tx) error) error {
	mutex := &d.age.writing[maphash.String(d.age.seed, d.age.Name(d.key))%uint64(len(d.age.writing))]
	mutex.Lock()
	defer mutex.Unlock()
	return d.kit.Write(ctx, func(tx sqlkit.Tx) error {
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

// changing returns the graphs with transactions that call after at their end.
func (a *AGE) changing(k graph.Key, after func(g *ageGraph) error) *graphsql.Graphs {
	return graphsql.New(&ageDB{&kit{a.database}, a, k, after}, a.now)
}

const sqlLockAGE = `SELECT 1 FROM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1::text, 0))`

// lock excludes other transactions that change the copy of a graph.
func (a *AGE) lock(tx sqlkit.Tx, k graph.Key) (*ageGraph, error) {
	g := &ageGraph{kitWrite: tx.(*kitWrite), key: k, name: a.Name(k)} // of this database
	g.key.Graph = cmp.Or(k.Graph, graph.DefaultGraph)
	return g, g.Query(sqlLockAGE, func(sqlkit.Row) error { return nil }, g.name)
}

// AddEntities implements graph.Writer.
func (a *AGE) AddEntities(ctx context.Context, k graph.Key, entities []graph.Entity) ([]string, error) {
	result, err := a.Write(ctx, k, graph.Batch{Entities: entities})
	return result.Entities, err
}

// AddRelationships implements graph.Writer.
func (a *AGE) AddRelationships(ctx context.Context, k graph.Key, relationships []graph.Relationship) ([]string, error) {
	result, err := a.Write(ctx, k, graph.Batch{Relationships: relationships})
	return result.Relationships, err
}

// DeleteEntity implements graph.Writer.
func (a *AGE) DeleteEntity(ctx context.Context, k graph.Key, id string) (bool, error) {
	result, err := a.Write(ctx, k, graph.Batch{DeleteEntities: []string{id}})
	return result.DeletedEntities > 0, err
}

// DeleteRelationship implements graph.Writer.
func (a *AGE) DeleteRelationship(ctx context.Context, k graph.Key, id string) (bool, error) {
	result, err := a.Write(ctx, k, graph.Batch{DeleteRelationships: []string{id}})
	return result.DeletedRelationships > 0, err
}

// Write implements graph.Writer.
func (a *AGE) Write(ctx context.Context, k graph.Key, b graph.Batch) (graph.Result, error) {
	b = graphdriver.WithIDs(b)
	w, err := graphdriver.NewWrite(k, b, a.now())
	if err != nil {
		return graph.Result{}, err
	}
	return a.changing(k, func(g *ageGraph) error { return g.apply(w) }).Write(ctx, k, b)
}

// WriteEffect implements graph.Transactional.
func (a *AGE) WriteEffect(k graph.Key, b graph.Batch) (store.Effect, error) {
	b = graphdriver.WithIDs(b)
	w, err := graphdriver.NewWrite(k, b, a.now())
	if err != nil {
		return nil, err
	}
	effect, err := a.Complete.WriteEffect(k, b)
	if err != nil {
		return nil, err
	}
	return sqlkit.NewEffect(&kit{a.database}, func(tx sqlkit.Tx) error {
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
func (a *AGE) Restore(ctx context.Context, k graph.Key, entities []graph.Entity, versions []graph.Relationship) error {
	r, err := graphdriver.NewRestored(k, entities, versions)
	if err != nil {
		return err
	}
	w := &graphdriver.Write{Key: r.Key, Entities: r.Entities}
	for _, rows := range r.Relationships {
		w.Relationships = append(w.Relationships, rows[len(rows)-1])
	}
	return a.changing(k, func(g *ageGraph) error { return g.apply(w) }).Restore(ctx, k, entities, versions)
}

// Rebuild makes the copy of a graph again.
func (a *AGE) Rebuild(ctx context.Context, k graph.Key) error {
	if _, err := graphdriver.CheckKey(k); err != nil {
		return err
	}
	db := &ageDB{&kit{a.database}, a, k, (*ageGraph).rebuild}
	return db.Write(ctx, func(sqlkit.Tx) error { return nil })
}

// DeleteGraph implements graph.Forgetter. It empties the copy first, so that queries find nothing. The
// names of its labels remain in AGE.
func (a *AGE) DeleteGraph(ctx context.Context, k graph.Key) (graph.ForgetReport, error) {
	if _, err := graphdriver.CheckKey(k); err != nil {
		return graph.ForgetReport{}, err
	}
	db := &ageDB{&kit{a.database}, a, k, func(g *ageGraph) error {
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
	db.after = (*ageGraph).rebuild
	return report, db.Write(ctx, func(sqlkit.Tx) error { return nil })
}

// ForgetOwner implements graph.Forgetter.
func (a *AGE) ForgetOwner(ctx context.Context, owner string) (report graph.ForgetReport, err error) {
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
