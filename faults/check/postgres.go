package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/postgres"
)

// Postgres checks a schema of a database after its servers have ended. It returns its content,
// and an error that lists all problems.
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
	return report, errors.Join(err, unlisted(ctx, c, schema, report), orphanRows(ctx, c, schema))
}

// unlisted returns an error if the table of tasks has a row that the report, which was read by indexes, lacks or
// shows with another state.
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

// orphanRows returns an error if rows exist without their task, context or webhook.
func orphanRows(ctx context.Context, c *pgx.Conn, schema string) error {
	table := func(name string) string { return pgx.Identifier{schema, name}.Sanitize() }
	orphans := "SELECT count(*) FROM %s x WHERE NOT EXISTS (SELECT FROM %s t WHERE t.owner = x.owner AND t.pk = x.task_pk)"
	var errs []error
	for _, q := range []struct{ what, text string }{
		{"changes in logs of no task", fmt.Sprintf(orphans, table("task_log"), table("task_rows"))},
		{"contents of no task", fmt.Sprintf(orphans, table("task_contents"), table("task_rows"))},
		{"steps of no task", fmt.Sprintf(orphans, table("task_steps"), table("task_rows"))},
		{
			"webhooks that belong to no task",
			fmt.Sprintf("SELECT count(*) FROM %s c WHERE NOT EXISTS (SELECT FROM %s t WHERE t.owner = c.owner AND t.id = c.task_id)",
				table("webhooks"), table("task_rows")),
		},
		{
			"tasks that count other webhooks than they have",
			fmt.Sprintf("SELECT count(*) FROM %s t WHERE webhooks <> (SELECT count(*) FROM %s l WHERE l.owner = t.owner AND l.task_id = t.id)",
				table("task_rows"), table("webhook_lanes")),
		},
		{
			"lanes without their webhooks, or the other way round",
			fmt.Sprintf("SELECT count(*) FROM %s l FULL JOIN %s c ON c.owner = l.owner AND c.task_id = l.task_id AND c.id = l.id AND c.rev = l.rev WHERE l.id IS NULL OR c.id IS NULL",
				table("webhook_lanes"), table("webhooks")),
		},
		{
			"lanes in a phase of the queue that they are not in",
			fmt.Sprintf("SELECT count(*) FROM %s WHERE (cursor_seq < tail_seq) <> (phase IN (1, 2, 3)) OR phase IN (1, 3) AND lease_until <> 0 OR phase = 2 AND lease_until = 0",
				table("webhook_lanes")),
		},
		{
			"attempts of no task",
			fmt.Sprintf("SELECT count(*) FROM %s a WHERE NOT EXISTS (SELECT FROM %s t WHERE t.owner = a.owner AND t.id = a.task_id)",
				table("delivery_attempts"), table("task_rows")),
		},
		{
			"dead letters of no webhook",
			fmt.Sprintf("SELECT count(*) FROM %s d WHERE NOT EXISTS (SELECT FROM %s l WHERE l.owner = d.owner AND l.task_id = d.task_id AND l.id = d.config_id)",
				table("dead_letters"), table("webhook_lanes")),
		},
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
