package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
	"github.com/holdfast-dev/holdfast/internal/await"
)

func openTest(t *testing.T) *database {
	t.Helper()
	db, err := openDatabase(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestPgbenchCountsCommittedRows(t *testing.T) {
	t.Parallel()
	db := openTest(t)
	if !strings.Contains(db.about, "fsync on, synchronous_commit on") {
		t.Errorf("the database is %s, want one that writes what it acknowledges", db.about)
	}
	before, err := db.usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPgbench(t.Context(), db, t.TempDir(), 10)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.run(t.Context(), 3, 0, 900*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	var rows int64
	if err := db.conn.QueryRow(t.Context(), "SELECT count(*) FROM "+p.table).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if got.Requests == 0 || got.Requests > rows || rows > 2*got.Requests || got.Latency.P99 < got.Latency.P50 {
		t.Errorf("run = %+v, and the table has %d rows", got, rows)
	}
	// The processes of the server report their commits when they end, which may be after the client.
	await.Success(t, func() error {
		now, err := db.usage(t.Context())
		if u := now.since(before); err == nil && (u.commits < rows || u.wal < 10*rows) {
			err = fmt.Errorf("usage = %+v for %d rows", u, rows)
		}
		return err
	})
}

func TestHeldSnapshotKeepsDeadRows(t *testing.T) {
	t.Parallel()
	db := openTest(t)
	schema := db.schema()
	execute := func(text string) {
		t.Helper()
		if _, err := db.conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	inspect := func() (p period) {
		t.Helper()
		if err := db.inspect(t.Context(), schema, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	execute("CREATE SCHEMA " + schema)
	execute("CREATE TABLE " + schema + ".many AS SELECT n FROM generate_series(1, 100) n")
	release, err := db.holdSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	execute("DELETE FROM " + schema + ".many")
	execute("SELECT pg_stat_force_next_flush()")
	execute("VACUUM " + schema + ".many")
	if p := inspect(); p.Dead["many"] != 100 || p.Age == 0 || p.TableSize == 0 {
		t.Errorf("with a snapshot held: %+v, want 100 dead rows", p)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	await.Success(t, func() error {
		execute("VACUUM " + schema + ".many")
		if p := inspect(); p.Dead["many"] > 0 || p.Age > 0 {
			return fmt.Errorf("after its release: %+v, want no dead rows", p)
		}
		return nil
	})
}

func TestSummarizeCutsTheWarmUp(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log.1")
	text := ""
	for i := range 40 { // one per 100 ms; the transactions of the second second count
		text += fmt.Sprintf("0 %d %d 0 %d %d\n", i, 1000+i, 100+i/10, i%10*100_000)
	}
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := readTransactions(nil, log)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	got, err := summarize(all, time.Second, time.Second)
	want := loadgen.Latency{P50: 1015 * time.Microsecond, P90: 1019 * time.Microsecond, P95: 1019 * time.Microsecond, P99: 1019 * time.Microsecond, Max: 1019 * time.Microsecond}
	if err != nil || got.Requests != 10 || got.PerSecond != 10 || got.Latency != want {
		t.Errorf("summarize = %+v, %v, want 10 of latencies %+v", got, err, want)
	}
	if _, err := summarize(nil, 0, time.Second); err == nil {
		t.Error("summarize of nothing succeeds")
	}
	if err := os.WriteFile(log, []byte("0 1 failed 0 1 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readTransactions(nil, log); err == nil {
		t.Error("a transaction that failed is read as one that was made")
	}
}

func TestPacerKeepsItsRateAndCountsWaiting(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if served.Add(1) == 1 {
			time.Sleep(300 * time.Millisecond) // all others wait for the only connection
		}
		fmt.Fprint(rw, `{"result":{"status":{"state":"completed"}}}`)
	}))
	defer s.Close()
	p := pacer{url: s.URL, perSecond: 100, connections: 1, payload: 5, duration: 500 * time.Millisecond}
	got, err := p.run(t.Context(), &meter{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Requests != 50 || got.Errors != 0 || got.Latency.P50 < 20*time.Millisecond {
		t.Errorf("run = %+v, want 50 requests, half of which waited for the first", got)
	}
}

func TestPacerCountsWrongAnswers(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, `{"error":{"code":-32000,"message":"busy"}}`)
	}))
	defer s.Close()
	p := pacer{url: s.URL, perSecond: 100, connections: 2, payload: 5, duration: 50 * time.Millisecond}
	if _, err := p.run(t.Context(), &meter{}); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("run = %v, want what the server said", err)
	}
}

func TestTableShowsGoalsOfOneDatabase(t *testing.T) {
	t.Parallel()
	load := func(name string, perSecond float64, commits int64, p99 time.Duration) row {
		s := sample{Report: loadgen.Report{PerSecond: perSecond, Elapsed: time.Second, Latency: loadgen.Latency{P99: p99}}, Commits: commits}
		return row{Contender: name, Samples: []sample{s}}
	}
	for name, tc := range map[string]struct {
		three row
		half  time.Duration
		want  []string
	}{
		"good":            {load(replicas, 950, 10, 0), 5 * time.Millisecond, []string{"as pgbench: met", "is 5.0x: met"}},
		"slow":            {load(replicas, 800, 10, 0), 6 * time.Millisecond, []string{"as pgbench: NOT MET", "is 6.0x: NOT MET"}},
		"database's best": {load(replicas, 800, 1900, 0), time.Millisecond, []string{"0.95", "as pgbench: met"}},
	} {
		out := newOutcome(nil)
		out.Shared = []row{
			load(inserts, 2000, 2000, 0), load(replica, 1000, 10, 0), tc.three, load(insert, 500, 500, time.Millisecond), load(halfLoad, 500, 10, tc.half),
		}
		var text strings.Builder
		out.writeShared(&text)
		for _, want := range tc.want {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: the table lacks %q:\n%s", name, want, text.String())
			}
		}
	}
}

func TestMergeAddsRatesAndKeepsTheLongestLatency(t *testing.T) {
	t.Parallel()
	got := merge([]loadgen.Report{
		{Requests: 1, PerSecond: 10, Latency: loadgen.Latency{P50: 3, P99: 5}},
		{Requests: 2, Errors: 1, PerSecond: 20, Latency: loadgen.Latency{P50: 2, P99: 9}, ErrorTexts: []loadgen.ErrorCount{{Text: "x", Count: 1}}},
	})
	if got.Requests != 3 || got.Errors != 1 || got.PerSecond != 30 || got.Latency.P50 != 3 || got.Latency.P99 != 9 || len(got.ErrorTexts) != 1 {
		t.Errorf("merge = %+v", got)
	}
}
