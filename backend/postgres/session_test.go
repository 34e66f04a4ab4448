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

// asRole returns the URL of a database for a new role, and a connection of its owner.
func asRole(t *testing.T, settings ...string) (role, roleURL string, admin *pgx.Conn) {
	t.Helper()
	own := pgtest.URL(storetest.Wrap(t))
	admin, err := pgx.Connect(bg, own)
	must(t, err)
	t.Cleanup(func() { _ = admin.Close(bg) })
	role = pgtest.Schema(storetest.Wrap(t), own) + "_r"
	u, err := url.Parse(own)
	must(t, err)
	run := func(text string) {
		_, err := admin.Exec(bg, text)
		must(t, err)
	}
	database := pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize()
	run("CREATE ROLE " + role + " LOGIN PASSWORD 'x'")
	t.Cleanup(func() {
		for _, text := range []string{"DROP OWNED BY " + role + " CASCADE", "DROP ROLE " + role} {
			if _, err := admin.Exec(bg, text); err != nil {
				t.Errorf("%s = %v", text, err)
			}
		}
	})
	run("GRANT CREATE ON DATABASE " + database + " TO " + role)
	for _, s := range settings {
		run("ALTER ROLE " + role + " SET " + s)
	}
	u.User = url.UserPassword(role, "x")
	return role, u.String(), admin
}

// What a role is set to by those who look after it does not change what is stored.
func TestTextIsStoredAsItIsWhateverTheRoleIsSetTo(t *testing.T) {
	t.Parallel()
	const said = "café — 漢字"
	for _, pooler := range []bool{false, true} {
		t.Run(fmt.Sprintf("pooler=%t", pooler), func(t *testing.T) {
			t.Parallel()
			_, of, admin := asRole(t, "client_encoding TO latin1", "standard_conforming_strings TO off", "\"DateStyle\" TO 'SQL, DMY'")
			cfg := fresh(storetest.Wrap(t), Config{URL: of, Pooler: pooler})
			s := open(storetest.Wrap(t), cfg)
			c := submitted(1)
			c.Events[0].Received = message("m", "user", said)
			must(t, commitOne(s, c))
			task, err := s.Task(bg, taskKey(1), store.TaskOptions{})
			if err != nil || task.History[0].Message.Text() != said {
				t.Fatalf("Task() = %+v, %v, want %q", task, err, said)
			}
			var n int
			must(t, admin.QueryRow(bg, s.q("SELECT count(*) FROM {s}.task_events e WHERE e::text LIKE '%"+said+"%'")).Scan(&n))
			if n != 1 {
				t.Errorf("%d rows have the text as it was said, want 1", n)
			}
		})
	}
}

// What the URL says of sessions holds for migrations, too.
func TestMigrationsRunAsTheURLSays(t *testing.T) {
	t.Parallel()
	role, _, _ := asRole(t)
	cfg := fresh(storetest.Wrap(t), Config{})
	for what, more := range map[string]string{"role": "&role=" + role, "options": "&options=-crole%3D" + role} {
		t.Run(what, func(t *testing.T) {
			cfg := cfg
			cfg.URL += more
			cfg.Schema += "_" + what
			s := open(storetest.Wrap(t), cfg)
			var owner string
			must(t, s.pool.QueryRow(bg, "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = $1", cfg.Schema).Scan(&owner))
			if owner != role {
				t.Errorf("the schema is that of %s, want %s", owner, role)
			}
		})
	}
}

func TestADatabaseThatForgetsIsTold(t *testing.T) {
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
		if text := log.String(); strings.Contains(text, "not on its disk yet") != (x.want != "") || !strings.Contains(text, x.want) {
			t.Errorf("with %q the log is %q, want %q in it", x.more, text, x.want)
		}
	}
}

// What an operator changes under a running server is no failure of the server.
func TestWhatPassesIsUnavailable(t *testing.T) {
	t.Parallel()
	for state, again := range map[string]bool{
		"28P01": false, "28000": false, "3D000": false, // until somebody puts it right
		stateIdled: true, stateOverdue: true, stateEnded: true, stateCanceled: true, stateTooMany: true,
	} {
		err := fmt.Errorf("x: %w", &pgconn.PgError{Code: state})
		if code, text := classify(err); code != a2a.CodeUnavailable || text == "" {
			t.Errorf("classify(%s) = %s, %q, want unavailable", state, code, text)
		}
		if passing(err) != again {
			t.Errorf("passing(%s) = %t, want %t", state, !again, again)
		}
	}
	for _, state := range []string{stateIdled, stateOverdue} {
		if !unsure(commitError{&pgconn.PgError{Code: state}}) {
			t.Errorf("a commit that ended with %s counts as not made, want it looked up", state)
		}
	}
}

func TestARoleWithoutConnectionsIsToldOnce(t *testing.T) {
	t.Parallel()
	role, of, admin := asRole(t)
	_, err := admin.Exec(bg, "ALTER ROLE "+role+" CONNECTION LIMIT 0")
	must(t, err)
	cfg := fresh(storetest.Wrap(t), Config{MaxRetries: -1})
	cfg.URL = of
	_, err = Open(bg, cfg)
	if a2a.CodeOf(err) != a2a.CodeUnavailable || !strings.Contains(fmt.Sprint(err), "it takes no more connections") || strings.Contains(fmt.Sprint(err), "lacks resources") {
		t.Errorf("Open() = %v, want it told once that there are no more connections", err)
	}
}
