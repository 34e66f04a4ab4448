package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/postgres"
)

// Postgres checks a schema of a database whose servers have ended, and returns
// what is in it and all that is wrong with it.
func Postgres(ctx context.Context, url, schema string) (_ *Report, err error) {
	s, err := postgres.Open(ctx, postgres.Config{URL: url, Schema: schema})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	rows, err := c.Query(ctx, "SELECT DISTINCT owner FROM "+pgx.Identifier{schema, "task_rows"}.Sanitize())
	if err != nil {
		return nil, fmt.Errorf("read owners: %w", err)
	}
	owners, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read owners: %w", err)
	}
	report, err := all(ctx, s, owners)
	if _, e := c.Exec(ctx, "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off"); e != nil {
		return report, errors.Join(err, e)
	}
	return report, errors.Join(err, unlisted(ctx, c, schema, report), stray(ctx, c, schema))
}

// unlisted compares the table itself with what was found through its indexes.
func unlisted(ctx context.Context, c *pgx.Conn, schema string, report *Report) error {
	rows, err := c.Query(ctx, "SELECT id, state FROM "+pgx.Identifier{schema, "task_rows"}.Sanitize())
	if err != nil {
		return fmt.Errorf("read the table of tasks: %w", err)
	}
	var errs []error
	var id, state string
	_, err = pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		if listed, ok := report.States[id]; !ok {
			errs = append(errs, fmt.Errorf("task %s is in the table and in no list", id))
		} else if string(listed) != state {
			errs = append(errs, fmt.Errorf("task %s is %s in the table, its log says %s", id, state, listed))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// stray looks for rows that belong to nothing.
func stray(ctx context.Context, c *pgx.Conn, schema string) error {
	table := func(name string) string { return pgx.Identifier{schema, name}.Sanitize() }
	orphans := "SELECT count(*) FROM %s x WHERE NOT EXISTS (SELECT FROM %s t WHERE t.pk = x.task_pk)"
	var errs []error
	for _, q := range []struct{ what, text string }{
		{"changes in logs of no task", fmt.Sprintf(orphans, table("task_log"), table("task_rows"))},
		{"steps of no task", fmt.Sprintf(orphans, table("task_steps"), table("task_rows"))},
		{
			"idempotency keys of no task",
			fmt.Sprintf("SELECT count(*) FROM %s k WHERE NOT of_context AND NOT EXISTS (SELECT FROM %s t WHERE t.owner = k.owner AND t.id = k.task_id)",
				table("idempotency_keys"), table("task_rows")),
		},
	} {
		var n int
		if err := c.QueryRow(ctx, q.text).Scan(&n); err != nil {
			return fmt.Errorf("count %s: %w", q.what, err)
		}
		if n != 0 {
			errs = append(errs, fmt.Errorf("there are %d %s", n, q.what))
		}
	}
	return errors.Join(errs...)
}
