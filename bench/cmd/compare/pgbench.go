package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// pgbench measures transactions that insert one row, with the program pgbench: the maximum rate of
// the database.
type pgbench struct {
	db      *database
	program string
	dir     string // of its script and logs
	table   string
	runs    int
}

func newPgbench(ctx context.Context, db *database, dir string, payload int) (*pgbench, error) {
	program, err := pgbenchProgram()
	if err != nil {
		return nil, err
	}
	schema := db.schema()
	p := &pgbench{db: db, program: program, dir: dir, table: schema + ".inserted"}
	for _, text := range []string{
		"CREATE SCHEMA " + schema,
		"CREATE TABLE " + p.table + " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data text NOT NULL)",
	} {
		if _, err := db.conn.Exec(ctx, text); err != nil {
			return nil, err
		}
	}
	script := fmt.Sprintf("INSERT INTO %s (data) VALUES ('%s');\n", p.table, strings.Repeat("x", payload))
	return p, os.WriteFile(p.script(), []byte(script), 0o600)
}

func pgbenchProgram() (string, error) {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if len(found) == 0 {
		return "", errors.New("the program pgbench is needed: it comes with PostgreSQL")
	}
	slices.Sort(found)
	return found[len(found)-1], nil
}

func (p *pgbench) script() string { return filepath.Join(p.dir, "insert.sql") }

// run measures for at least d, after warming up, with the given number of clients.
func (p *pgbench) run(ctx context.Context, clients int, warmUp, d time.Duration) (sample, error) {
	p.runs++
	prefix := filepath.Join(p.dir, fmt.Sprintf("pgbench-%d", p.runs))
	seconds := int((warmUp+d)/time.Second) + 2 // pgbench accepts only whole seconds, and may start late
	cmd := exec.CommandContext(ctx, p.program, "-n", "-M", "prepared", "-f", p.script(), "-c", strconv.Itoa(clients),
		"-j", strconv.Itoa(min(clients, runtime.NumCPU())), "-T", strconv.Itoa(seconds), "-l", "--log-prefix="+prefix, p.db.url)
	if text, err := cmd.CombinedOutput(); err != nil {
		return sample{}, fmt.Errorf("pgbench: %w: %s", err, firstLine(text))
	}
	logs, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return sample{}, err
	}
	var all []transaction
	for _, name := range logs {
		if all, err = readTransactions(all, name); err != nil {
			return sample{}, err
		}
		if err := os.Remove(name); err != nil {
			return sample{}, err
		}
	}
	return summarize(all, warmUp, time.Duration(seconds)*time.Second-warmUp)
}

// transaction is a line of pgbench's log.
type transaction struct {
	end  time.Duration // since 1970
	took time.Duration
}

// readTransactions appends the transactions of a log to all. The fields of a line are client,
// number, duration, script, and end as seconds and microseconds.
func readTransactions(all []transaction, name string) ([]transaction, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var client, number, took, script, second, micro int64
		if _, err := fmt.Sscan(lines.Text(), &client, &number, &took, &script, &second, &micro); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, lines.Text(), err)
		}
		all = append(all, transaction{
			end:  time.Duration(second)*time.Second + time.Duration(micro)*time.Microsecond,
			took: time.Duration(took) * time.Microsecond,
		})
	}
	return all, lines.Err()
}

// summarize returns the results of the transactions that ended within d after the warm-up.
func summarize(all []transaction, warmUp, d time.Duration) (sample, error) {
	slices.SortFunc(all, func(a, b transaction) int { return int(a.end - b.end) })
	var took []time.Duration
	for _, t := range all {
		if since := t.end - all[0].end; since >= warmUp && since < warmUp+d {
			took = append(took, t.took)
		}
	}
	if len(took) == 0 {
		return sample{}, errors.New("pgbench made no transaction")
	}
	n := int64(len(took))
	return sample{
		Report: loadgen.Report{
			Requests: n, Calls: n, Elapsed: d, PerSecond: float64(n) / d.Seconds(), Latency: quantiles(took),
		},
		Commits: n,
	}, nil
}

// quantiles sorts durations and returns their quantiles.
func quantiles(took []time.Duration) loadgen.Latency {
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[min(int(q*float64(len(took))), len(took)-1)] }
	return loadgen.Latency{P50: at(.50), P90: at(.90), P95: at(.95), P99: at(.99), Max: took[len(took)-1]}
}
