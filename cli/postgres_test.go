//go:build services

package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// testServer is a server that runs in this process.
type testServer struct {
	URL, Storage, Database, Schema string

	stop  func() int
	mu    sync.Mutex
	lines strings.Builder // of stderr
}

func (r *testServer) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.Write(p)
}

// log returns the server's stderr so far.
func (r *testServer) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.String()
}

// startServer runs a server with args, by default the echo agent, until the test ends or stop is
// called.
func startServer(t *testing.T, environ []string, args ...string) *testServer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &testServer{}
	out, w := io.Pipe()
	done := make(chan int, 1)
	go func() {
		if len(args) == 0 {
			args = []string{"--agent", "echo"}
		}
		code := cli.Main(ctx, cli.Program{
			Parts:   everything(),
			Args:    append([]string{"holdfast", "serve", "--json", "--addr", "127.0.0.1:0", "--stop-grace", "200ms"}, args...),
			Environ: environ, Stdout: w, Stderr: r,
		})
		w.Close()
		done <- code
	}()
	r.stop = sync.OnceValue(func() int {
		cancel()
		return <-done
	})
	t.Cleanup(func() { r.stop() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the server did not start: %s", r.log())
	}
	if err := json.Unmarshal(line, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// connectTo opens a connection to the database.
func connectTo(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func queryInt(t *testing.T, c *pgx.Conn, text string, args ...any) (n int) {
	t.Helper()
	if err := c.QueryRow(t.Context(), text, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

func TestDatabaseURLSpellings(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	file := filepath.Join(t.TempDir(), "url")
	config := filepath.Join(t.TempDir(), "config.yaml")
	for name, text := range map[string]string{file: url + "\n", config: "database-url: " + url + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, rest, _ := strings.Cut(url, "://")
	for _, test := range []struct {
		name    string
		environ []string
		args    []string
	}{
		{"flag", nil, []string{"--database-url", url}},
		{"file", nil, []string{"--database-url-file", file}},
		{"config file", nil, []string{"--config", config}},
		{"variable of the config file", []string{"HOLDFAST_CONFIG=" + config}, nil},
		{"HOLDFAST_DATABASE_URL", []string{"HOLDFAST_DATABASE_URL=" + url}, nil},
		{"HOLDFAST_DATABASE_URL_FILE", []string{"HOLDFAST_DATABASE_URL_FILE=" + file}, nil},
		{"postgres://", []string{"STORAGE_TYPE=postgres", "DATABASE_URL=postgres://" + rest}, nil},
		{"postgresql://", []string{"STORAGE_TYPE=postgres", "DATABASE_URL=postgresql://" + rest}, nil},
		{"postgresql+asyncpg://", []string{"STORAGE_TYPE=postgres", "DATABASE_URL=postgresql+asyncpg://" + rest}, nil},
		{"without STORAGE_TYPE", []string{"DATABASE_URL=postgresql+asyncpg://" + rest}, nil},
		{"postgres_url", []string{"STORAGE_TYPE=postgres", "postgres_url=postgresql://" + rest}, nil},
		{"the flag wins", []string{"DATABASE_URL=postgres://127.0.0.1:1/nowhere"}, []string{"--database-url", url}},
		{"the variable wins over the file", []string{"DATABASE_URL=" + url, "postgres_url=postgres://127.0.0.1:1/nowhere", "HOLDFAST_CONFIG=" + config}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			schema := pgtest.Schema(t, url)
			code, out, stderr := run(t, "", test.environ, append([]string{"migrate", "status", "--schema", schema}, test.args...)...)
			if code != 0 || !strings.Contains(out, "schema "+schema) || !strings.Contains(out, "pending") {
				t.Errorf("migrate status = %d, %q, %q, want a status of schema %s", code, out, stderr, schema)
			}
		})
	}
}

func TestMigrationsRunOnlyIfAllowed(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	schema := pgtest.Schema(t, url)
	environ := []string{"DATABASE_URL=" + url, "HOLDFAST_SCHEMA=" + schema}
	c := connectTo(t, url)
	schemaCount := func() int { return queryInt(t, c, "SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema) }

	code, _, stderr := run(t, "", environ, "serve", "--addr", "127.0.0.1:0", "--postgres-pool-max", "3")
	want := "run: holdfast migrate up --postgres-pool-max 3 (or start serve with --run-migrations-on-startup or STORAGE__RUN_MIGRATIONS_ON_STARTUP=true)"
	if code != 1 || !strings.Contains(stderr, want) || strings.Count(stderr, "is empty") != 1 {
		t.Errorf("serve without a schema = %d, %q, want 1, one error and %q", code, stderr, want)
	}
	if schemaCount() != 0 {
		t.Error("serve that failed has created the schema")
	}
	r := startServer(t, append(environ, "STORAGE__RUN_MIGRATIONS_ON_STARTUP=true"))
	if schemaCount() != 1 || r.Schema != schema || r.Storage != "postgres" || r.stop() != 0 {
		t.Errorf("serve with migrations has created %d schemas and printed %+v, want schema %s", schemaCount(), r, schema)
	}
	if r := startServer(t, environ); !strings.Contains(r.log(), "schema="+schema) || !strings.Contains(r.log(), "chosen_by=DATABASE_URL") {
		t.Errorf("log = %q, want the schema and the setting that selected the storage", r.log())
	}
}

func TestMigrateUpStatusPlan(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	t.Run("up", func(t *testing.T) {
		t.Parallel()
		environ := []string{"DATABASE_URL=" + url, "HOLDFAST_SCHEMA=" + pgtest.Schema(t, url)}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if code, out, stderr := run(t, "", environ, "migrate", "up"); code != 0 || !strings.Contains(out, "up to date: ") {
					t.Errorf("concurrent migrate up = %d, %q, %q, want success", code, out, stderr)
				}
			})
		}
		wg.Wait()
		if code, out, _ := run(t, "", environ, "migrate", "status"); code != 0 || !strings.Contains(out, "  applied 2") || !strings.HasSuffix(out, "up to date\n") {
			t.Errorf("migrate status = %d, %q, want all applied", code, out)
		}
		if code, out, stderr := run(t, "", environ, "migrate", "plan"); code != 0 || out != "" || !strings.Contains(stderr, "nothing to do") {
			t.Errorf("migrate plan = %d, %q, %q, want nothing to do", code, out, stderr)
		}
		startServer(t, environ)
	})
	// The output of plan can be run with another tool, such as psql.
	t.Run("plan", func(t *testing.T) {
		t.Parallel()
		environ := []string{"DATABASE_URL=" + url, "HOLDFAST_SCHEMA=" + pgtest.Schema(t, url)}
		code, script, stderr := run(t, "", environ, "migrate", "plan")
		if code != 0 || stderr != "" {
			t.Fatalf("migrate plan = %d, %q", code, stderr)
		}
		psql := exec.Command("psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", "-", url)
		psql.Stdin = strings.NewReader(script)
		if out, err := psql.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s in\n%s", err, out, script)
		}
		if code, out, _ := run(t, "", environ, "migrate", "status", "--json"); code != 0 || !strings.Contains(out, `"pending":[]`) {
			t.Errorf("migrate status after the script = %d, %s, want nothing pending", code, out)
		}
		startServer(t, environ)
	})
	t.Run("newer", func(t *testing.T) {
		t.Parallel()
		schema := pgtest.Schema(t, url)
		environ := []string{"DATABASE_URL=" + url, "HOLDFAST_SCHEMA=" + schema}
		run(t, "", environ, "migrate", "up")
		if _, err := connectTo(t, url).Exec(t.Context(), "INSERT INTO "+schema+".schema_migrations VALUES ('999912312359', 'later', 'x', '2099-01-01T00:00:00Z', '999912312359')"); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"migrate", "status"}, {"migrate", "up"}, {"migrate", "plan"}, {"serve", "--addr", "127.0.0.1:0"}} {
			code, _, stderr := run(t, "", environ, args...)
			if code != 1 || !strings.Contains(stderr, "999912312359_later") || strings.Contains(stderr, "run: ") {
				t.Errorf("%v on a newer schema = %d, %q, want 1 and the name of the migration", args, code, stderr)
			}
		}
	})
}

// startLockedServer starts a server. Its tasks table is locked until release is called. read runs a
// command, by default tasks get.
func startLockedServer(t *testing.T, name string, environ ...string) (read func(args ...string) (int, string), release func()) {
	t.Helper()
	url := pgtest.URL(t)
	schema := pgtest.Schema(t, url)
	named := url + "&application_name=" + name + "&lock_timeout=600000" // only the timeouts of calls end waits for locks
	r := startServer(t, append([]string{
		"STORAGE_TYPE=postgres", "DATABASE_URL=" + named, "HOLDFAST_SCHEMA=" + schema, "STORAGE__RUN_MIGRATIONS_ON_STARTUP=true",
	}, environ...))
	if code, _, stderr := run(t, "", nil, "send", "--server", r.URL, "x"); code != 0 {
		t.Fatalf("send = %d, %s", code, stderr)
	}
	tx, err := connectTo(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+schema+".task_rows IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
	t.Cleanup(release)
	return func(args ...string) (int, string) {
		if len(args) == 0 {
			args = []string{"tasks", "get", "00000000-0000-7000-8000-000000000000"}
		}
		code, _, stderr := run(t, "", nil, append(args, "--server", r.URL)...)
		return code, stderr
	}, release
}

func TestPoolSizes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ low, high int }{{0, 3}, {2, 4}, {6, 9}} {
		t.Run(fmt.Sprint(test.low, " to ", test.high), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("pool-%d-%d-%d", test.low, test.high, os.Getpid())
			c := connectTo(t, pgtest.URL(t))
			open := func() int {
				return queryInt(t, c, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND query NOT ILIKE 'listen%'", name)
			}
			read, release := startLockedServer(t, name, fmt.Sprint("STORAGE__POSTGRES_POOL_MIN=", test.low), fmt.Sprint("STORAGE__POSTGRES_POOL_MAX=", test.high))
			await.True(t, "minimum number of connections", func() bool { return open() >= test.low })
			var wg sync.WaitGroup
			for range 2 * test.high {
				wg.Go(func() { read() })
				wg.Go(func() { read("contexts", "get", "none") })
			}
			// Some connections are reserved for commits, claims and renewals.
			await.True(t, "maximum number of connections for reads", func() bool { return open() >= test.high-min(4, test.high/2) })
			for range 20 { // the watcher's connection counts until it listens
				await.True(t, "at most the maximum number of connections", func() bool { return open() <= test.high })
			}
			release()
			wg.Wait()
		})
	}
}

func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{1500 * time.Millisecond, 4 * time.Second} {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			read, _ := startLockedServer(t, "command-timeout", fmt.Sprint("STORAGE__POSTGRES_COMMAND_TIMEOUT=", limit.Seconds()), "STORAGE__POSTGRES_MAX_RETRIES=0")
			start := time.Now()
			code, stderr := read()
			if elapsed := time.Since(start); code != 7 || elapsed < limit || elapsed > 25*time.Second { // the default is 30 s
				t.Errorf("tasks get = %d after %s, %q, want 7 after %s", code, elapsed, stderr, limit)
			}
		})
	}
}

func TestTimeoutOfAnExhaustedPool(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	read, release := startLockedServer(t, "timeout", "STORAGE__POSTGRES_POOL_MIN=1", "STORAGE__POSTGRES_POOL_MAX=1", "STORAGE__POSTGRES_COMMAND_TIMEOUT=60",
		"STORAGE__POSTGRES_TIMEOUT=2s", "STORAGE__POSTGRES_MAX_RETRIES=0")
	type answer struct {
		code int
		text string
	}
	answers := make(chan answer, 3)
	start := time.Now()
	for range cap(answers) {
		go func() {
			code, text := read()
			answers <- answer{code, text}
		}()
	}
	first := <-answers
	if elapsed := time.Since(start); first.code != 7 || elapsed < limit || elapsed > 50*time.Second {
		t.Errorf("first read = %d after %s, %q, want 7 after %s", first.code, elapsed, first.text, limit)
	}
	release()
	<-answers
	<-answers
}

// refusingServer starts a server that closes each connection, and counts the connections.
func refusingServer(t *testing.T) (url string, count *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	count = new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			c.Close()
		}
	}()
	return "postgres://bob:s3cr3t@" + l.Addr().String() + "/x?sslmode=disable", count
}

func TestRetries(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		retries, delay string
		least, most    int32
		longer         time.Duration
	}{
		// The pool also opens its minimum number of connections.
		{"0", "0.01", 1, 5, 0},
		{"8", "0.01", 9, 30, 0},
		{"8", "0", 9, 30, 0},
		{"1", "1.4", 2, 30, 700 * time.Millisecond},
		{"2", "800ms", 3, 30, 1200 * time.Millisecond},
	} {
		t.Run(test.retries+" after "+test.delay, func(t *testing.T) {
			t.Parallel()
			url, count := refusingServer(t)
			start := time.Now()
			code, _, stderr := run(t, "", []string{
				"STORAGE_TYPE=postgres", "DATABASE_URL=" + url, "STORAGE__POSTGRES_POOL_MIN=1",
				"STORAGE__POSTGRES_MAX_RETRIES=" + test.retries, "STORAGE__POSTGRES_RETRY_DELAY=" + test.delay,
			}, "serve", "--addr", "127.0.0.1:0")
			if elapsed := time.Since(start); elapsed < test.longer {
				t.Errorf("serve failed after %s, want %s or more", elapsed, test.longer)
			}
			if n := count.Load(); code != 7 || n < test.least || n > test.most {
				t.Errorf("serve = %d, %q after %d connections, want 7 after %d to %d", code, stderr, n, test.least, test.most)
			}
			if strings.Contains(stderr, "s3cr3t") {
				t.Errorf("stderr of serve = %q, want no password", stderr)
			}
		})
	}
}

// With a pooler the server does not configure sessions.
func TestPooler(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	c := connectTo(t, url)
	for value, named := range map[string]bool{"false": true, "true": false} {
		schema := pgtest.Schema(t, url)
		r := startServer(t, []string{
			"DATABASE_URL=" + url, "HOLDFAST_SCHEMA=" + schema, "STORAGE__RUN_MIGRATIONS_ON_STARTUP=true", "STORAGE__POSTGRES_POOLER=" + value,
		})
		if code, _, stderr := run(t, "", nil, "send", "--server", r.URL, "x"); code != 0 {
			t.Fatalf("send with pooler %s = %d, %s", value, code, stderr)
		}
		const text = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%' || $1 || '%' AND (application_name = 'holdfast') = $2"
		if all, none := queryInt(t, c, text, schema, named), queryInt(t, c, text, schema, !named); all == 0 || none != 0 {
			t.Errorf("with pooler %s, %d sessions are as expected and %d are not, want some and none", value, all, none)
		}
	}
}

func TestTransferThroughPostgres(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	environ := []string{"DATABASE_URL=" + url, "HOLDFAST_SCHEMA=" + pgtest.Schema(t, url)}
	file, again := filepath.Join(t.TempDir(), "file.jsonl"), filepath.Join(t.TempDir(), "again.jsonl")
	r := startServer(t, append(slices.Clone(environ), "STORAGE__RUN_MIGRATIONS_ON_STARTUP=true"))
	for i := range 12 {
		if code, _, stderr := run(t, "", nil, "send", "--server", r.URL, "--wait", "--context", fmt.Sprintf("c%d", i/3), strings.Repeat("text ", 100)); code != 0 {
			t.Fatalf("send = %d, %s", code, stderr)
		}
	}
	r.stop()
	dir, keptFile := t.TempDir(), filepath.Join(t.TempDir(), "kept.jsonl")
	keepMany(t, dir, "anonymous", 0)
	for _, step := range []struct {
		environ []string
		args    []string
		want    string
	}{
		{environ, []string{"migrate", "up"}, "up to date"},
		{nil, []string{"export", "--all", "--data", dir, "-o", keptFile}, "exported "},
		{environ, []string{"import", keptFile}, "imported "},
		{environ, []string{"memory", "search", "porto"}, "Ravi lives in Porto"},
		{environ, []string{"export", "--all", "-o", file}, "exported "},
		{environ, []string{"import", file}, "nothing to do"},
		{nil, []string{"import", file, "--data", filepath.Join(t.TempDir(), "data")}, "imported "},
	} {
		code, out, stderr := run(t, "", step.environ, step.args...)
		if code != 0 || !strings.Contains(out+stderr, step.want) {
			t.Fatalf("%v = %d, %q, %q, want %q", step.args, code, out, stderr, step.want)
		}
	}
	other := []string{"DATABASE_URL=" + url, "HOLDFAST_SCHEMA=" + pgtest.Schema(t, url)}
	for _, args := range [][]string{{"migrate", "up"}, {"import", file}, {"export", "--all", "-o", again}} {
		if code, _, stderr := run(t, "", other, args...); code != 0 {
			t.Fatalf("%v = %d, %s", args, code, stderr)
		}
	}
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := os.ReadFile(again); err != nil || string(is) != string(was) || len(was) < 1000 {
		t.Errorf("the export of an import differs from the %d imported bytes, %v", len(was), err)
	}
}

func TestServerWithoutTLSIsReported(t *testing.T) {
	t.Parallel()
	url := strings.Replace(pgtest.URL(t), "sslmode=disable", "sslmode=verify-full", 1)
	if !strings.Contains(url, "verify-full") {
		t.Fatalf("the URL %s of the test server has no sslmode=disable", url)
	}
	for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"migrate", "status"}} {
		code, _, stderr := run(t, "", []string{"DATABASE_URL=" + url}, args...)
		if code != 7 || !strings.Contains(stderr, "the server does not support TLS: turn it on there, or set sslmode") {
			t.Errorf("%v = %d, %q, want 7 and an error about missing TLS support", args, code, stderr)
		}
	}
}

// ownDatabase returns the URL of a new database, which no other test uses.
func ownDatabase(t *testing.T) string {
	t.Helper()
	server := pgtest.URL(t)
	name := "d" + strings.TrimPrefix(pgtest.NewSchema(), "t")
	execute := func(statement string) {
		t.Helper()
		ctx := context.Background()
		c, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Exec(ctx, statement)
		if err = errors.Join(err, c.Close(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	execute("CREATE DATABASE " + name)
	t.Cleanup(func() { execute("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// A check leaves nothing in the database.
func TestStorageCheckOnPostgres(t *testing.T) {
	t.Parallel()
	url := ownDatabase(t)
	code, out, stderr := run(t, "", nil, "storage", "check", url, "--suite", "boards", "--json")
	want := regexp.MustCompile(`^{"ok":true,"suites":\[{"suite":"boards","passed":[1-9][0-9]+,"failed":\[\],"skipped":\[\],`)
	if code != 0 || !want.MatchString(out) {
		t.Errorf("storage check = %d, %s%s, want %s", code, out, stderr, want)
	}
	if n := queryInt(t, connectTo(t, url), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE $1", "holdfast\\_check\\_%"); n != 0 {
		t.Errorf("%d schemas are left, want 0", n)
	}
}
