package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// period is a part of a run. A snapshot may be held open during it.
type period struct {
	sample
	Held      bool             `json:"held"`
	Since     time.Duration    `json:"sinceNs"` // from the start of the run to the end of the period
	Dead      map[string]int64 `json:"dead"`    // dead rows by table, as estimated by the database
	Age       int64            `json:"age"`     // of the oldest snapshot, in transactions
	Vacuumed  int64            `json:"vacuumed"`
	TableSize int64            `json:"tableSize"` // of all tables with their indexes, in bytes
}

// periodsAround is the number of periods that are measured before and after the snapshot is held.
const periodsAround = 2

// held measures a server before, while and after another transaction holds a snapshot, during which
// vacuum cannot remove dead rows.
func (b *bench) held(ctx context.Context, out *outcome) error {
	binary, err := b.binary(ctx, holdfast)
	if err != nil {
		return err
	}
	flags, schema := b.db.flags()
	err = b.db.migrate(ctx, binary, flags)
	if err != nil {
		return err
	}
	c := ours(storagePostgres)
	c.name = "held"
	s, err := b.startOn(ctx, binary, c, flags)
	if err != nil {
		return err
	}
	defer s.stop()
	started := time.Now()
	measure := func(held bool) error {
		sample, err := b.sample(ctx, loadgen.Send, s)
		if err != nil {
			return err
		}
		one := period{sample: sample, Held: held, Since: time.Since(started)}
		if err := b.db.inspect(ctx, schema, &one); err != nil {
			return err
		}
		fmt.Fprintf(b.progress, "PostgreSQL, snapshot held: %t ... %.0f/s\n", held, one.PerSecond)
		out.Held = append(out.Held, one)
		return nil
	}
	around := func() (err error) {
		for i := 0; i < periodsAround && err == nil; i++ {
			err = measure(false)
		}
		return err
	}
	if err := around(); err != nil {
		return err
	}
	release, err := b.db.holdSnapshot(ctx)
	if err != nil {
		return err
	}
	for taken := time.Now(); err == nil && time.Since(taken) < b.snapshot; {
		err = measure(true)
	}
	if err = errors.Join(err, release()); err != nil {
		return err
	}
	return around()
}

// inspect returns the statistics of the tables of a schema.
func (d *database) inspect(ctx context.Context, schema string, to *period) error {
	to.Dead = map[string]int64{}
	rows, err := d.conn.Query(ctx, `SELECT relname, n_dead_tup, autovacuum_count, pg_total_relation_size(relid)
		FROM pg_stat_user_tables WHERE schemaname = $1`, schema)
	if err != nil {
		return err
	}
	var name string
	var dead, vacuums, size int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &dead, &vacuums, &size}, func() error {
		if dead > 0 {
			to.Dead[name] = dead
		}
		to.Vacuumed += vacuums
		to.TableSize += size
		return nil
	}); err != nil {
		return err
	}
	return d.conn.QueryRow(ctx, `SELECT coalesce(max(age(backend_xmin)), 0) FROM pg_stat_activity
		WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&to.Age)
}

// writeHeld prints the periods of a run with a snapshot.
func (o outcome) writeHeld(w io.Writer) {
	if len(o.Held) == 0 {
		return
	}
	fmt.Fprintf(w, "\na snapshot held open: blocking message/send, one server; dead rows are the database's estimate\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "  snapshot\tat\treq/s\tp50\tp99\terrors\tcpu/req\tits age\tvacuums\ttables\tdead rows\n")
	for _, s := range o.Held {
		held := "none"
		if s.Held {
			held = "held"
		}
		r := row{Samples: []sample{s.sample}}
		fmt.Fprintf(tw, "  %s\t%s\t%.0f\t%s\t%s\t%d\t%s\t%d\t%d\t%d MB\t%s\n", held, s.Since.Round(time.Second), s.PerSecond, brief(s.Latency.P50),
			brief(s.Latency.P99), s.Errors, r.cpuText(), s.Age, s.Vacuumed, s.TableSize/1e6, s.deadText())
	}
	_ = tw.Flush() // into memory
}

// deadText returns the number of dead rows, and the tables that have most of them.
func (s period) deadText() string {
	var sum int64
	for _, n := range s.Dead {
		sum += n
	}
	names := slices.SortedFunc(maps.Keys(s.Dead), func(a, b string) int { return cmp.Or(cmp.Compare(s.Dead[b], s.Dead[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, name := range names[:min(len(names), 3)] {
		parts = append(parts, fmt.Sprintf("%s %d", name, s.Dead[name]))
	}
	return strings.TrimSuffix(fmt.Sprintf("%d: %s", sum, strings.Join(parts, ", ")), ": ")
}
