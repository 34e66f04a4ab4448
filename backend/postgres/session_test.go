//go:build services

package postgres

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// newRole creates a role with settings. It returns its name, the URL of the database for it, and
// a connection of the administrator.
func newRole(t *testing.T, settings ...string) (role, roleURL string, admin *pgx.Conn) {
	t.Helper()
	own := pgtest.URL(storetest.Wrap(t))
	admin, err := pgx.Connect(bg, own)
	must(t, err)
	t.Cleanup(func() { _ = admin.Close(bg) })
	role = pgtest.Schema(storetest.Wrap(t), own) + "_r"
	u, err := url.Parse(own)
	must(t, err)
	database := pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize()
	pgtest.Exec(t, own, "CREATE ROLE "+role+" LOGIN PASSWORD 'x'")
	t.Cleanup(func() { pgtest.Exec(t, own, "DROP OWNED BY "+role+" CASCADE", "DROP ROLE "+role) })
	pgtest.Exec(t, own, "GRANT CREATE ON DATABASE "+database+" TO "+role)
	for _, s := range settings {
		pgtest.Exec(t, own, "ALTER ROLE "+role+" SET "+s)
	}
	u.User = url.UserPassword(role, "x")
	return role, u.String(), admin
}

// Settings of a role do not change the stored text.
func TestRoleSettingsDoNotChangeStoredText(t *testing.T) {
	t.Parallel()
	const said = "café — 漢字"
	for _, pooler := range []bool{false, true} {
		t.Run(fmt.Sprintf("pooler=%t", pooler), func(t *testing.T) {
			t.Parallel()
			_, of, admin := newRole(t, "client_encoding TO latin1", "standard_conforming_strings TO off", "\"DateStyle\" TO 'SQL, DMY'")
			cfg := freshConfig(storetest.Wrap(t), Config{URL: of, Pooler: pooler})
			s := open(storetest.Wrap(t), cfg)
			c := submitted(1)
			c.Events[0].Received = message("m", "user", said)
			must(t, commitOne(s, c))
			task, err := s.Task(bg, taskKey(1), store.TaskOptions{})
			if err != nil || task.History[0].Message.Text() != said {
				t.Fatalf("Task() = %+v, %v, want %q", task, err, said)
			}
			var n int
			must(t, admin.QueryRow(bg, s.qualify("SELECT count(*) FROM {s}.task_events e WHERE e::text LIKE '%"+said+"%'")).Scan(&n))
			if n != 1 {
				t.Errorf("%d rows have the original text, want 1", n)
			}
		})
	}
}

// Migrations use the session settings of the URL.
func TestMigrationsUseTheRoleOfTheURL(t *testing.T) {
	t.Parallel()
	role, _, _ := newRole(t)
	cfg := freshConfig(storetest.Wrap(t), Config{})
	for what, more := range map[string]string{"role": "&role=" + role, "options": "&options=-crole%3D" + role} {
		t.Run(what, func(t *testing.T) {
			cfg := cfg
			cfg.URL += more
			cfg.Schema += "_" + what
			s := open(storetest.Wrap(t), cfg)
			var owner string
			must(t, s.pool.QueryRow(bg, "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = $1", cfg.Schema).Scan(&owner))
			if owner != role {
				t.Errorf("the owner of the schema is %s, want %s", owner, role)
			}
		})
	}
}

func TestOpenWarnsOfADatabaseThatIsNotDurable(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{Fsync: true})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	for _, x := range []struct{ more, want string }{{"", ""}, {"&synchronous_commit=off", "synchronous_commit is off"}, {"&synchronous_commit=local", ""}} {
		var log bytes.Buffer
		s := open(storetest.Wrap(t), Config{
			URL: server.URL() + x.more, Migrate: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		must(t, s.Close())
		if text := log.String(); strings.Contains(text, "database is not durable") != (x.want != "") || !strings.Contains(text, x.want) {
			t.Errorf("with %q the log is %q, want %q in it", x.more, text, x.want)
		}
	}
}

// Errors that an operator causes on a running server have code unavailable.
func TestTransientErrorsAreUnavailable(t *testing.T) {
	t.Parallel()
	for state, again := range map[string]bool{
		"28P01": false, "28000": false, "3D000": false, // until an operator fixes it
		stateIdleTimeout: true, stateTransactionTimeout: true, stateAdminShutdown: true, stateQueryCanceled: true, stateTooManyConnections: true,
	} {
		err := fmt.Errorf("x: %w", &pgconn.PgError{Code: state})
		if code, text := classify(err); code != a2a.CodeUnavailable || text == "" {
			t.Errorf("classify(%s) = %s, %q, want unavailable", state, code, text)
		}
		if transient(err) != again {
			t.Errorf("passing(%s) = %t, want %t", state, !again, again)
		}
	}
	for _, state := range []string{stateIdleTimeout, stateTransactionTimeout} {
		if !indeterminate(commitError{&pgconn.PgError{Code: state}}) {
			t.Errorf("a commit that failed with %s is not indeterminate", state)
		}
	}
}

func TestOpenReportsTheConnectionLimitOnce(t *testing.T) {
	t.Parallel()
	role, of, admin := newRole(t)
	_, err := admin.Exec(bg, "ALTER ROLE "+role+" CONNECTION LIMIT 0")
	must(t, err)
	cfg := freshConfig(storetest.Wrap(t), Config{MaxRetries: -1})
	cfg.URL = of
	_, err = Open(bg, cfg)
	if a2a.CodeOf(err) != a2a.CodeUnavailable || !strings.Contains(fmt.Sprint(err), "too many connections") || strings.Contains(fmt.Sprint(err), "out of resources") {
		t.Errorf("Open() = %v, want the connection limit once", err)
	}
}
