//go:build services

package postgres

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// The server receives a transaction without its end, and waits with all locks of the transaction.
func TestIncompleteTransactionDelaysNoOtherTask(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{})
	s.cfg.CommandTimeout = 3 * time.Second
	must(t, commitOne(s, submitted(1)))
	must(t, commitOne(s, agentMessage(1, "before"))) // prepares the statements
	const large = 100_000
	short := p.HoldEnd(large)
	waiting := commitAsync(s, agentMessage(1, strings.Repeat("x", large)))
	within(t, "the start of the transaction", func() { <-short.Seen })
	within(t, "the lock", func() {
		for state := ""; state != stateLockNotAvailable; {
			_, err := direct.pool.Exec(bg, direct.qualify(sqlLockRow)+" NOWAIT", taskKey(1).Owner, taskKey(1).ID)
			if state = sqlState(err); err != nil && state != stateLockNotAvailable {
				t.Fatalf("lock = %v", err)
			}
		}
	})
	within(t, "the work of others", func() {
		for n := 10; n < 30; n += 2 {
			must(t, runTask(s, n))
			must(t, runTask(direct, n+1))
		}
	})
	wantEvents(t, direct, 1, 3)
	short.Release()
	var err error
	within(t, "the commit", func() { err = <-waiting })
	log, e := s.Events(bg, taskKey(1), 0, 100)
	must(t, e)
	switch applied := len(log) == 4; {
	case err == nil && applied, errors.Is(err, errIndeterminate): // the latter if other tasks took long
	case err != nil && !applied && a2a.CodeOf(err) == a2a.CodeUnavailable:
	default:
		t.Errorf("Commit() = %v, and left %d events", err, len(log))
	}
	must(t, commitOne(s, agentMessage(1, "after")))
	wantEvents(t, direct, 1, len(log)+1)
}

func TestSessionSettings(t *testing.T) {
	t.Parallel()
	kept := map[string]string{
		"lock_timeout": "2s", "idle_in_transaction_session_timeout": "1min",
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "tcp_user_timeout": "25000",
	}
	with := func(name, value string) map[string]string {
		other := maps.Clone(kept)
		other[name] = value
		return other
	}
	for name, test := range map[string]struct {
		cfg  Config
		url  string
		want map[string]string
	}{
		"as they are":                      {Config{}, "", kept},
		"short commands":                   {Config{CommandTimeout: 4 * time.Second}, "", with("lock_timeout", "1s")},
		"as the URL says":                  {Config{}, "&lock_timeout=7s", with("lock_timeout", "7s")},
		"in a transaction behind a pooler": {Config{Pooler: true}, "", map[string]string{"lock_timeout": "2s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := emptyConfig(storetest.Wrap(t), test.cfg)
			cfg.URL += test.url
			s := open(storetest.Wrap(t), cfg)
			got := make(map[string]string)
			must(t, s.transact(bg, "look", func(ctx context.Context, tx pgx.Tx) error {
				for name := range test.want {
					var value string
					if err := tx.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
						return err
					}
					got[name] = value
				}
				return nil
			}))
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("settings (-want +got):\n%s", d)
			}
		})
	}
}

func TestMajorVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"15.18 (Debian 15.18-0+deb12u1)": 15, "17.2": 17, "18beta1": 18, "17": 17, "": 0, "unknown": 0,
	} {
		if got := majorVersion(text); got != want {
			t.Errorf("majorVersion(%q) = %d, want %d", text, got, want)
		}
	}
}
