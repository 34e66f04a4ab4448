package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// The test binary acts as the holdfast program when COMPARE_TEST_STUB is set.
func TestMain(m *testing.M) {
	if os.Getenv("COMPARE_TEST_STUB") != "" {
		if err := stub(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// stub accepts: serve --addr ADDR ... --storage KIND .... It writes its process id to the data
// directory.
func stub(args []string) error {
	arg := func(name string) string { return args[slices.Index(args, name)+1] }
	if args[0] == "migrate" {
		return nil
	}
	if os.Getenv("COMPARE_TEST_STUB") == arg("--storage") {
		return errors.New("no such storage here")
	}
	pid := []byte(strconv.Itoa(os.Getpid()))
	if err := os.WriteFile(os.Getenv("COMPARE_TEST_PIDS")+"/"+string(pid), nil, 0o600); err != nil {
		return err
	}
	return http.ListenAndServe(arg("--addr"), http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var req struct{ ID, Method string }
		_ = json.NewDecoder(r.Body).Decode(&req)
		task := `{"kind":"task","id":"t","status":{"state":"completed"}}`
		switch req.Method {
		case "tasks/list":
			task = "[" + task + "]"
		case "contexts/create":
			task = `{"kind":"context"}`
		case "contexts/list":
			task = `{"contexts":[{}]}`
		case "message/stream":
			fmt.Fprintf(rw, "data: {\"id\":%q,\"result\":%s}\n\n", req.ID, task)
			return
		}
		fmt.Fprintf(rw, `{"id":%q,"result":%s}`, req.ID, task)
	}))
}

func stubBench(t *testing.T, broken string) (b *bench, pids func() []int) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("COMPARE_TEST_STUB", broken)
	t.Setenv("COMPARE_TEST_PIDS", dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := options{
		rounds: 2, duration: 250 * time.Millisecond, concurrency: 2, payload: 10, short: true,
		storage: storageSQLite, servers: contenderNames(),
		scenarios: []loadgen.Scenario{loadgen.Send, loadgen.SendGet, loadgen.Stream, loadgen.Get, loadgen.List, loadgen.Contexts},
	}
	b = &bench{
		options: o, dir: t.TempDir(), progress: &bytes.Buffer{}, programs: map[program]string{holdfast: self},
		open: func(context.Context, string) (*database, error) { return nil, errors.New("no PostgreSQL here") },
	}
	return b, func() (all []int) {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			pid, _ := strconv.Atoi(f.Name())
			all = append(all, pid)
		}
		return all
	}
}

func TestCompareReportsMissingServersAndMeasuresTheOthers(t *testing.T) {
	b, pids := stubBench(t, "sqlite")
	out, err := b.compare(t.Context(), slices.DeleteFunc(contenders(), func(c contender) bool { return c.program == refserver || c.binding != "" }))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := out.write(&text, b.options); err != nil {
		t.Fatal(err)
	}
	for _, s := range b.scenarios {
		r, _ := out.row(s, "holdfast-memory")
		if len(r.Samples) != 2 || r.errors() != 0 || median(r.Samples, rate) <= 0 {
			t.Errorf("%s = %+v, want 2 good samples", s, r)
		}
	}
	for _, want := range []string{"holdfast-sqlite    missing: ", "no such storage here", ">= 10x official: not measured", "holdfast-postgres  missing: no PostgreSQL here"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, text.String())
		}
	}
	for _, want := range []string{"no such storage here", "holdfast-postgres: no PostgreSQL here"} {
		if err := out.verdict(b.options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("verdict = %v, want %q in it", err, want)
		}
	}
	checkGone(t, pids(), 1)
}

func TestCompareFailsByNameWithoutPostgreSQL(t *testing.T) {
	b, _ := stubBench(t, "none")
	b.open = func(context.Context, string) (*database, error) {
		return nil, errors.New("install the package postgresql")
	}
	b.servers, b.scenarios = []string{"holdfast-postgres"}, []loadgen.Scenario{loadgen.Send}
	out, err := b.all(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := out.verdict(b.options); err == nil || err.Error() != "holdfast-postgres: install the package postgresql" {
		t.Errorf("verdict = %v, want that holdfast-postgres did not run and why", err)
	}
}

func TestCompareStopsItsServersWhenCanceled(t *testing.T) {
	b, pids := stubBench(t, "none")
	b.duration = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		await.True(t, "two servers run", func() bool { return len(pids()) >= 2 || ctx.Err() != nil })
		cancel()
	}()
	_, err := b.compare(ctx, slices.DeleteFunc(contenders(), func(c contender) bool { return c.program == refserver || c.binding != "" }))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("compare = %v, want it canceled", err)
	}
	checkGone(t, pids(), 2)
}

func TestGrowthComparesFilledStores(t *testing.T) {
	b, pids := stubBench(t, "none")
	b.options.growth = []int{10, 1000}
	out, err := b.measureGrowth(t.Context())
	if err != nil || out.verdict(b.options) != nil {
		t.Fatal(err, out.verdict(b.options))
	}
	for _, n := range b.growth {
		st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: filepath.Join(b.dir, fmt.Sprintf("data-sqlite with %d", n))})
		if err != nil {
			t.Fatal(err)
		}
		page, err := st.Tasks(t.Context(), store.Query{Owner: a2a.Anonymous, Limit: 1, Total: true})
		if err != nil || page.Total != n*6/10 {
			t.Errorf("tasks of the first owner = %+v, %v, want %d", page, err, n*6/10)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
	var text strings.Builder
	if err := out.write(&text, b.options); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "<= 1.3x: "); n != len(b.scenarios) {
		t.Errorf("%d goals of growth in the table, want %d:\n%s", n, len(b.scenarios), text.String())
	}
	checkGone(t, pids(), 2)
}

func checkGone(t *testing.T, pids []int, want int) {
	t.Helper()
	if len(pids) != want {
		t.Errorf("%d servers ran, want %d", len(pids), want)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("server %d is still there (%v)", pid, err)
		}
	}
}

func TestTableShowsGoals(t *testing.T) {
	t.Parallel()
	out := newOutcome([]string{echo, official, "holdfast-memory", "holdfast-sqlite"})
	out.goals = goals()
	for name, perSecond := range map[string][]float64{
		echo: {39000, 41000, 40000}, official: {1000, 1, 1200}, "holdfast-memory": {9000, 12000, 9999}, "holdfast-sqlite": {10000, 10000, 10000},
	} {
		r := row{Scenario: loadgen.Send, Contender: name}
		for _, p := range perSecond {
			r.Samples = append(r.Samples, sample{Report: loadgen.Report{PerSecond: p, Elapsed: time.Second}})
		}
		out.Rows = append(out.Rows, r)
	}
	var text strings.Builder
	if err := out.write(&text, options{scenarios: []loadgen.Scenario{loadgen.Send}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	for name, want := range map[string]string{
		"holdfast-memory": "10.00 0.25 >= 10x official: NOT MET; >= 50% of floor: not measured",
		"holdfast-sqlite": "10.00 0.25 >= 6x official: met; >= 25% of echo: met; >= 80% of floor-sqlite: not measured",
	} {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  "+name) })
		if i < 0 || !strings.HasSuffix(strings.Join(strings.Fields(lines[i]), " "), want) {
			t.Errorf("no line of %s that ends in %q:\n%s", name, want, text.String())
		}
	}
}

func TestStreamsTableShowsWhyIdleStreamsAreMissing(t *testing.T) {
	t.Parallel()
	out := outcome{Streams: []streamRow{
		{Server: official10, P50: time.Millisecond, P99: 60 * time.Millisecond, Max: time.Second, NoIdle: noIdleOfficial},
		{Server: "holdfast-memory", P50: time.Millisecond, P99: 2 * time.Millisecond, Max: time.Second, RSS: 20 << 20, IdleRSS: 30 << 20, Sends: 10, IdleRate: 10},
	}}
	var text strings.Builder
	out.writeStreams(&text, options{}.streamSizes())
	for _, want := range []string{"p99 <= 50ms: NOT MET  " + noIdleOfficial, "<= 400: met"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
}

// A server without the scenario is not part of the table, and has no goal in it.
func TestGRPCHasNoStreams(t *testing.T) {
	t.Parallel()
	for _, c := range contenders() {
		if c.binding != loadgen.GRPC10 {
			continue
		}
		if c.grpcFlag == "" || c.lacks[loadgen.Stream] != onlyUnary || c.lacks[loadgen.Send] != "" || c.lacks[loadgen.Get] != "" {
			t.Errorf("%s = %+v, want sends and gets at its gRPC address", c.name, c)
		}
		out := newOutcome([]string{c.name})
		out.Rows = []row{{Scenario: loadgen.Stream, Contender: c.name, Skipped: c.lacks[loadgen.Stream]}}
		var text strings.Builder
		if out.writeRow(&text, loadgen.Stream, c.name); text.Len() > 0 {
			t.Errorf("row of %s = %q, want none", c.name, text.String())
		}
	}
}

func TestParseReportsAllProblems(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	_, err := parse([]string{"-scenarios", "dance,echo", "-growth", "x", "-rounds", "0", "-storage", "memory", "-servers", "echo,other", "more"}, &b)
	if got := strings.Count(fmt.Sprint(err), "\n") + 1; got != 7 {
		t.Errorf("parse = %v, want 7 problems", err)
	}
	o, err := parse([]string{"-growth", "5"}, &b)
	if err != nil || len(o.scenarios) != 5 {
		t.Errorf("parse(-growth 5) = %+v, %v, want 5 scenarios", o, err)
	}
	o, err = parse([]string{"-short", "-scenarios", "send,claim", "-growth", "100,1"}, &b)
	if err != nil || o.rounds != 1 || o.duration != shortRound || !slices.Equal(o.growth, []int{1, 100}) || o.scenarios[1] != loadgen.SendGet {
		t.Errorf("parse = %+v, %v", o, err)
	}
}

func TestContextSizesRelateStoresToTheSmallest(t *testing.T) {
	b, pids := stubBench(t, "none")
	b.contexts, b.servers = []int{10, 100}, []string{"holdfast-sqlite"}
	before := b.scenarios
	out := newOutcome(nil)
	if err := b.contextSizes(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	out.writeSizes(&text)
	for _, want := range []string{"sqlite with 10 ", "sqlite with 100 ", "<= 1.3x: "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
	if !slices.Equal(b.scenarios, before) {
		t.Errorf("scenarios are %v afterwards, want %v", b.scenarios, before)
	}
	checkGone(t, pids(), 2)
}

func TestGoalsShowTheRatioToServersWithoutColumns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ours, floor string
		rate        float64
		want        string
	}{
		{"holdfast-memory", floorJSON, 51, ">= 50% of floor, is 0.51: met"},
		{"holdfast-sqlite", floorSQLite, 79, ">= 80% of floor-sqlite, is 0.79: NOT MET"},
		{"holdfast-postgres", floorPostgres, 70, ">= 70% of floor-postgres, is 0.70: met"},
		{"holdfast-memory-grpc", "holdfast-memory-1.0", 99, ">= 1x holdfast-memory-1.0, is 0.99: NOT MET"},
		{"holdfast-memory-grpc", "holdfast-memory-1.0", 100, ">= 1x holdfast-memory-1.0, is 1.00: met"},
	} {
		out := newOutcome([]string{test.floor, test.ours})
		out.goals = goals()
		for name, perSecond := range map[string]float64{test.floor: 100, test.ours: test.rate} {
			out.Rows = append(out.Rows, row{Scenario: loadgen.Send, Contender: name, Samples: []sample{{Report: loadgen.Report{PerSecond: perSecond}}}})
		}
		if got := out.goalText(loadgen.Send, test.ours); !strings.Contains(got, test.want) {
			t.Errorf("goal of %s = %q, want %q", test.ours, got, test.want)
		}
	}
}
