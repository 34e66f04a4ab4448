package cli

import (
	"context"
	"errors"
	"strings"
	"time"
)

// migrateCmd has the commands about the schema of a store.
type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply pending migrations, and build missing indexes of documents with embeddings."`
	Status migrateStatusCmd `cmd:"" help:"List applied and pending migrations."`
	Plan   migratePlanCmd   `cmd:"" help:"Print the SQL of pending migrations."`
}

// migrateFlags select the store.
type migrateFlags struct {
	Data string `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" group:"Storage:" help:"SQLite data directory."`

	storageFlags
}

// migration is a schema migration of SQLite or PostgreSQL.
type migration struct {
	Name, Script string
	Applied      time.Time
}

// load reads the migrations of the selected store with their status.
func (c *migrateFlags) load(ctx context.Context, a *app) (s storage, all []migration, err error) {
	s, err = c.resolve(a, c.Data)
	if err = errors.Join(err, s.requirePersistent()); err != nil {
		return s, nil, err
	}
	s.printNotes(a)
	all, err = s.migrations(ctx, &s)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return s, all, local(err)
}

func pending(all []migration) []migration {
	var list []migration
	for _, m := range all {
		if m.Applied.IsZero() {
			list = append(list, m)
		}
	}
	return list
}

type migrateUpCmd struct{ migrateFlags }

// Run applies pending migrations.
func (c *migrateUpCmd) Run(ctx context.Context, a *app) error {
	s, all, err := c.load(ctx, a)
	if err != nil {
		return err
	}
	todo := pending(all)
	if len(todo) > 0 || s.cfg.Vectors {
		s.cfg.Migrate = true
		st, err := s.open(ctx, a, nil)
		if err != nil {
			return err
		}
		if indexer, ok := st.(interface {
			IndexVectors(ctx context.Context) error
		}); ok {
			err = indexer.IndexVectors(ctx)
		}
		if err = errors.Join(err, st.Close()); err != nil { // closed also when ctx is done
			return err
		}
	}
	if a.JSON {
		return a.WriteResult(map[string]any{"store": s.location(), "applied": names(todo)})
	}
	for _, m := range todo {
		a.Out.Line("applied %s", m.Name)
	}
	a.Out.Line("up to date: %s", s.location())
	return nil
}

type migrateStatusCmd struct{ migrateFlags }

// Run lists the migrations.
func (c *migrateStatusCmd) Run(ctx context.Context, a *app) error {
	s, all, err := c.load(ctx, a)
	if err != nil {
		return err
	}
	todo := pending(all)
	if a.JSON {
		type row struct {
			Name    string     `json:"name"`
			Applied *time.Time `json:"applied"`
		}
		rows := make([]row, len(all))
		for i, m := range all {
			if rows[i].Name = m.Name; !m.Applied.IsZero() {
				rows[i].Applied = &all[i].Applied
			}
		}
		return a.WriteResult(map[string]any{"store": s.location(), "migrations": rows, "pending": names(todo)})
	}
	a.Out.Line("%s", s.location())
	for _, m := range all {
		if m.Applied.IsZero() {
			a.Out.Line("  pending               %s", a.Out.Bold(m.Name))
		} else {
			a.Out.Line("  applied %s  %s", m.Applied.UTC().Format("2006-01-02"), m.Name)
		}
	}
	if len(todo) == 0 {
		a.Out.Line("up to date")
		return nil
	}
	a.Out.Line("%d of %d pending; apply them: %s", len(todo), len(all), a.withStorageFlags("migrate up"))
	return nil
}

type migratePlanCmd struct{ migrateFlags }

// Run prints the SQL.
func (c *migratePlanCmd) Run(ctx context.Context, a *app) error {
	s, all, err := c.load(ctx, a)
	if err != nil {
		return err
	}
	todo := pending(all)
	if a.JSON {
		type row struct {
			Name string `json:"name"`
			SQL  string `json:"sql"`
		}
		rows := make([]row, len(todo))
		for i, m := range todo {
			rows[i] = row{m.Name, m.Script}
		}
		return a.WriteResult(map[string]any{"store": s.location(), "plan": rows})
	}
	if len(todo) == 0 {
		a.Info("nothing to do: %s is up to date", s.location())
	}
	for i, m := range todo {
		if i > 0 {
			a.Out.Line("")
		}
		a.Out.Line("%s", strings.TrimRight(m.Script, "\n"))
	}
	return nil
}

func names(all []migration) []string {
	list := make([]string, len(all))
	for i, m := range all {
		list[i] = m.Name
	}
	return list
}
