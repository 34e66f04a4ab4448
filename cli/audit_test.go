package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
)

func TestAuditListsActs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for i, e := range []auth.AuditEntry{
		{Principal: "olga", Operation: "tasks/cancel", Target: "alice", Outcome: "allowed", Request: "r1"},
		{Principal: "carl", Operation: "tasks/get", Target: "bob", Outcome: "allowed", Request: "r2"},
		{Principal: "olga", Operation: "tasks/get", Target: "bob", Outcome: "allowed", Request: "r3"},
	} {
		e.Time = at.Add(time.Duration(i) * time.Hour)
		if err := e.Record(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"", []string{"2026-11-30T12:00:00Z  olga", "carl", "r3"}},
		{"--principal bob", []string{"carl", "r3"}},
		{"--principal olga --since 2026-11-30T13:30:00Z", []string{"r3"}},
		{"--json", []string{`{"time":"2026-11-30T12:00:00.000Z","principal":"olga","operation":"tasks/cancel","target":"alice","outcome":"allowed","request":"r1"}`, "r2", "r3"}},
		{"--principal nobody", nil},
	} {
		code, out, stderr := run(t, "", nil, append([]string{"audit", "list", "--data", dir}, strings.Fields(tt.args)...)...)
		lines := len(tt.want)
		if lines > 0 && !strings.Contains(tt.args, "--json") {
			lines++ // the header
		}
		if code != 0 || strings.Count(out, "\n") != lines {
			t.Errorf("audit list %s = %d %q %q, want %d lines", tt.args, code, out, stderr, lines)
		}
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("audit list %s = %q, want %s", tt.args, out, want)
			}
		}
	}
	if code, _, stderr := run(t, "", nil, "audit", "list", "--data", t.TempDir()); code == 0 || !strings.Contains(stderr, "does not exist") {
		t.Errorf("audit list without a store = %d %q", code, stderr)
	}
}
