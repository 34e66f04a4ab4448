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
	// Applied is when the migration was applied, zero if it was not applied.
	Applied time.Time
}

// Steps lists the migrations in p.Migrations with their status in the database, then the
// migrations that a newer program has applied, without their SQL. It changes nothing. The
// table of applied migrations must exist. Steps returns the same errors as Apply.
func Steps(ctx context.Context, db *sql.DB, p Params) (steps []Step, err error) {
	p.setDefaults()
	if _, err := check(ctx, db, &p); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+p.Table+" ORDER BY version")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.Table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		a, err := scan(rows, p.Table)
		if err != nil {
			return nil, err
		}
		if n := len(steps); n < len(p.Migrations) {
			a.Migration = p.Migrations[n]
		}
		steps = append(steps, a)
	}
	if n := len(steps); n < len(p.Migrations) {
		for _, m := range p.Migrations[n:] {
			steps = append(steps, Step{Migration: m})
		}
	}
	return steps, rows.Err()
}

// Script returns the SQL that Apply runs for m, for use with another tool. Run the whole
// script once. A script without a transaction may fail in the middle; its header says how to
// recover.
func Script(p Params, m Migration) string {
	p.setDefaults()
	var b strings.Builder
	fmt.Fprintf(&b, "-- %s\n", m)
	end := ""
	if m.WithoutTransaction {
		b.WriteString("-- Runs without a transaction. If it is interrupted, drop the index that is INVALID and run it again.\n\n")
		fmt.Fprintf(&b, "%s;\n\n", strings.Join(m.statements(), ";\n"))
	} else {
		begin := "BEGIN"
		if p.Isolation != sql.LevelDefault {
			begin += " ISOLATION LEVEL " + strings.ToUpper(p.Isolation.String())
		}
		fmt.Fprintf(&b, "%s;\n", begin)
		if p.Lock != "" {
			fmt.Fprintf(&b, "%s;\n", p.Lock)
		}
		fmt.Fprintf(&b, createTable+";\n\n", p.Table)
		fmt.Fprintf(&b, "%s;\n\n", strings.TrimRight(m.SQL, "; \n"))
		end = "COMMIT;\n"
	}
	fmt.Fprintf(&b, "INSERT INTO %s (version, name, checksum, applied_at, compatible) VALUES ('%s', '%s', '%s', '%s', '%s');\n%s",
		p.Table, m.Version, m.Name, m.Checksum, p.Now().UTC().Format(time.RFC3339), m.Compatible, end)
	return b.String()
}
