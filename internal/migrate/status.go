package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Step is a migration and whether a database has it.
type Step struct {
	Migration
	// Applied is when it was applied; zero when it was not.
	Applied time.Time
}

// Steps returns all migrations the program knows with what the database has of them,
// and changes nothing. The table of those that were applied must be there. Its errors
// are those of Apply.
func Steps(ctx context.Context, db *sql.DB, p Params) (steps []Step, err error) {
	p.complete()
	if _, err := check(ctx, db, &p); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT version, applied_at FROM "+p.Table)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.Table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	applied := make(map[string]time.Time)
	for rows.Next() {
		var version, at string
		if err := rows.Scan(&version, &at); err != nil {
			return nil, fmt.Errorf("read %s: %w", p.Table, err)
		}
		if applied[version], err = time.Parse(time.RFC3339, at); err != nil {
			return nil, fmt.Errorf("read %s: migration %s: applied_at: %w", p.Table, version, err)
		}
	}
	for _, m := range p.Migrations {
		steps = append(steps, Step{m, applied[m.Version]})
	}
	return steps, rows.Err()
}

// Script returns what Apply does for one migration, as a script for those who run it
// by other means: it must then be run once and as a whole.
func Script(p Params, m Migration) string {
	p.complete()
	var b strings.Builder
	begin := "BEGIN"
	if p.Isolation != sql.LevelDefault {
		begin += " ISOLATION LEVEL " + strings.ToUpper(p.Isolation.String())
	}
	fmt.Fprintf(&b, "-- %s\n%s;\n", m, begin)
	if p.Lock != "" {
		fmt.Fprintf(&b, "%s;\n", p.Lock)
	}
	fmt.Fprintf(&b, createTable+";\n\n", p.Table)
	fmt.Fprintf(&b, "%s;\n\n", strings.TrimRight(m.SQL, "; \n"))
	fmt.Fprintf(&b, "INSERT INTO %s (version, name, checksum, applied_at) VALUES ('%s', '%s', '%s', '%s');\nCOMMIT;\n",
		p.Table, m.Version, m.Name, m.Checksum, p.Now().UTC().Format(time.RFC3339))
	return b.String()
}
