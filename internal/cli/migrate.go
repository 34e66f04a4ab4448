package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
)

// migrateCmd looks after the schema of a store.
type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply what is pending."`
	Status migrateStatusCmd `cmd:"" help:"List what is applied and what is pending."`
	Plan   migratePlanCmd   `cmd:"" help:"Print the SQL that would be run."`
}

// migrateFlags say which store.
type migrateFlags struct {
	Data string `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" group:"Storage:" help:"The data directory of SQLite. Default: ${default}."`

	storageFlags
}

// migration is a step of the schema of either storage.
type migration struct {
	Name, Script string
	Applied      time.Time
}

// look finds out what is pending.
func (c *migrateFlags) look(ctx context.Context, a *app) (s storage, all []migration, err error) {
	s, err = c.choose(a, c.Data)
	if err = errors.Join(err, s.lasting()); err != nil {
		return s, nil, err
	}
	s.tell(a)
	all, err = s.migrations(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return s, all, err
}

func (s *storage) migrations(ctx context.Context) ([]migration, error) {
	var all []migration
	if s.kind == kindPostgres {
		known, err := postgres.Migrations(ctx, s.cfg)
		for _, m := range known {
			all = append(all, migration(m))
		}
		if err != nil {
			return nil, explainConnection(err)
		}
		return all, nil
	}
	known, err := sqlite.Migrations(ctx, s.data)
	for _, m := range known {
		all = append(all, migration(m))
	}
	return all, err
}

func pending(all []migration) []migration {
	var some []migration
	for _, m := range all {
		if m.Applied.IsZero() {
			some = append(some, m)
		}
	}
	return some
}

type migrateUpCmd struct{ migrateFlags }

// Help tells what else migrates.
func (migrateUpCmd) Help() string {
	return `What is pending is applied in order and under a lock, so that any number of processes may try at once: each migration in a transaction of its own, or, where its file says so, as CREATE INDEX CONCURRENTLY. Running servers continue: a migration that waits for a lock gives way to them (--migration-lock-timeout), and what was interrupted is repaired by the next run. The user of the database needs the right to create the schema and its tables; serve needs to read and write them only. A SQLite store is migrated by any command that writes to it.

Examples:

    DATABASE_URL=postgres://owner:secret@db/agent holdfast migrate up
    holdfast migrate up --storage postgres --database-url-file /run/secrets/owner-url --did did:web:example.com`
}

// Run applies what is pending.
func (c *migrateUpCmd) Run(ctx context.Context, a *app) error {
	s, all, err := c.look(ctx, a)
	if err != nil {
		return err
	}
	todo := pending(all)
	if len(todo) > 0 {
		s.cfg.Migrate = true
		st, err := s.open(ctx, a, nil)
		if err != nil {
			return err
		}
		if err := st.Close(); err != nil { //nolint:contextcheck // closed also when ctx is done
			return err
		}
	}
	if a.json {
		return a.writeResult(map[string]any{"store": s.place(), "applied": names(todo)})
	}
	for _, m := range todo {
		a.out.line("applied %s", m.Name)
	}
	a.out.line("up to date: %s", s.place())
	return nil
}

type migrateStatusCmd struct{ migrateFlags }

// Run lists the migrations.
func (c *migrateStatusCmd) Run(ctx context.Context, a *app) error {
	s, all, err := c.look(ctx, a)
	if err != nil {
		return err
	}
	todo := pending(all)
	if a.json {
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
		return a.writeResult(map[string]any{"store": s.place(), "migrations": rows, "pending": names(todo)})
	}
	a.out.line("%s", s.place())
	for _, m := range all {
		if m.Applied.IsZero() {
			a.out.line("  pending               %s", a.out.bold(m.Name))
		} else {
			a.out.line("  applied %s  %s", m.Applied.UTC().Format("2006-01-02"), m.Name)
		}
	}
	if len(todo) == 0 {
		a.out.line("up to date")
		return nil
	}
	a.out.line("%d of %d pending; apply them: %s", len(todo), len(all), a.again("migrate up"))
	return nil
}

type migratePlanCmd struct{ migrateFlags }

// Help says what the script is for.
func (migratePlanCmd) Help() string {
	return `The script is for reading, and for those who have to run it by other means, such as psql: it does what migrate up does. Nothing is changed by this command.

Examples:

    holdfast migrate plan --storage postgres
    holdfast migrate plan | psql -v ON_ERROR_STOP=1 "$OWNER_URL"`
}

// Run prints the SQL.
func (c *migratePlanCmd) Run(ctx context.Context, a *app) error {
	s, all, err := c.look(ctx, a)
	if err != nil {
		return err
	}
	todo := pending(all)
	if a.json {
		type row struct {
			Name string `json:"name"`
			SQL  string `json:"sql"`
		}
		rows := make([]row, len(todo))
		for i, m := range todo {
			rows[i] = row{m.Name, m.Script}
		}
		return a.writeResult(map[string]any{"store": s.place(), "plan": rows})
	}
	if len(todo) == 0 {
		a.say("nothing to do: %s is up to date", s.place())
	}
	for i, m := range todo {
		if i > 0 {
			a.out.line("")
		}
		a.out.line("%s", strings.TrimRight(m.Script, "\n"))
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
