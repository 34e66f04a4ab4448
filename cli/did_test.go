//go:build services

package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// Two agents share a database. Their DIDs differ only in punctuation.
func TestAgentsWithDifferentDIDsAreIsolated(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	c := connectTo(t, url) // closed after the schemas are dropped
	unique := pgtest.Schema(t, url)
	dids := []string{"did:web:" + unique + ".example", "did:web:" + unique + ":example"}
	schemas := []string{postgres.SchemaOf(dids[0]), postgres.SchemaOf(dids[1])}
	t.Cleanup(func() {
		for _, schema := range schemas {
			if _, err := c.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
				t.Error(err)
			}
		}
	})
	environ := []string{"STORAGE_TYPE=postgres", "DATABASE_URL=" + url, "STORAGE__RUN_MIGRATIONS_ON_STARTUP=true"}
	one := append([]string{"POSTGRES_DID=" + dids[0], "DID=" + dids[1]}, environ...)
	other := append([]string{"DID=" + dids[1]}, environ...)

	// Stop the first agent while a task is waiting.
	first := startServer(t, one, "--exec", "sh -c 'read -r x; test \"$x\" != hold || exec sleep 60; echo done'", "--exec-plain")
	must := func(args ...string) string {
		t.Helper()
		code, out, stderr := run(t, "", nil, args...)
		if code != 0 {
			t.Fatalf("%v = %d, %s", args, code, stderr)
		}
		return out
	}
	var task struct{ ID string }
	if err := json.Unmarshal([]byte(must("send", "--json", "--server", first.URL, "--context", "talk", "hello")), &task); err != nil {
		t.Fatal(err)
	}
	must("tasks", "feedback", "--server", first.URL, task.ID, "--rating", "5")
	must("send", "--no-wait", "--server", first.URL, "--context", "talk", "hold")
	first.stop()

	second := startServer(t, other)
	must("send", "--server", second.URL, "mine")
	if code, _, _ := run(t, "", nil, "tasks", "get", "--server", second.URL, task.ID); code != 4 {
		t.Errorf("tasks get of the other agent's task = %d, want 4", code)
	}
	if code, _, _ := run(t, "", nil, "tasks", "cancel", "--server", second.URL, task.ID); code != 4 {
		t.Errorf("tasks cancel of the other agent's task = %d, want 4", code)
	}
	if code, _, _ := run(t, "", nil, "contexts", "get", "--server", second.URL, "talk"); code != 4 {
		t.Errorf("contexts get of the other agent's context = %d, want 4", code)
	}
	if got := must("tasks", "list", "--json", "--all", "--server", second.URL); strings.Count(got, `"kind":"task"`) != 1 || strings.Contains(got, task.ID) {
		t.Errorf("tasks list of the second agent = %s, want its own task only", got)
	}
	if got := must("contexts", "list", "--json", "--server", second.URL); strings.Contains(got, `"talk"`) {
		t.Errorf("contexts list of the second agent = %s, want its own only", got)
	}
	if code, got, _ := run(t, "", other, "export", "--all"); code != 0 || strings.Contains(got, "talk") {
		t.Errorf("export of the second agent = %d, %s, want its own only", code, got)
	}
	// The second agent has run its own task but not the waiting one.
	if n := queryInt(t, c, "SELECT count(*) FROM "+schemas[0]+".task_rows WHERE phase = 1"); n != 1 {
		t.Errorf("%d tasks of the first agent are waiting, want 1", n)
	}
	if n := queryInt(t, c, "SELECT count(*) FROM "+schemas[1]+".task_rows"); n != 1 {
		t.Errorf("the second agent's schema has %d tasks, want 1", n)
	}
	if got := must("tasks", "get", "--json", "--server", startServer(t, one).URL, task.ID); !strings.Contains(got, task.ID) {
		t.Errorf("tasks get of the first agent = %s, want its task", got)
	}
}

// The grants in docs/configuration.md are sufficient for serve, but not for migrations.
func TestDocumentedGrantsSuffice(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	url := pgtest.URL(t)
	schema := pgtest.Schema(t, url)
	role := "r_" + schema
	c := connectTo(t, url)
	if _, err := c.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	owner := []string{"DATABASE_URL=" + url, "HOLDFAST_SCHEMA=" + schema}
	agent := []string{"DATABASE_URL=" + url + "&user=" + role, "HOLDFAST_SCHEMA=" + schema}
	if code, _, stderr := run(t, "", agent, "migrate", "up"); code != 1 || !strings.Contains(stderr, "grant CREATE on the database") {
		t.Errorf("migrate up without rights = %d, %q, want 1 and what to grant", code, stderr)
	}
	if code, _, stderr := run(t, "", owner, "migrate", "up"); code != 0 {
		t.Fatalf("migrate up = %d, %s", code, stderr)
	}
	grants := regexp.MustCompile(`(?m)^    GRANT .*;$`).FindAllString(string(page), -1)
	for _, grant := range grants {
		if _, err := c.Exec(t.Context(), strings.NewReplacer("SCHEMA holdfast", "SCHEMA "+schema, "TO agent", "TO "+role).Replace(grant)); err != nil {
			t.Fatalf("%s: %v", grant, err)
		}
	}
	if code, _, stderr := run(t, "", agent, "migrate", "status"); len(grants) != 3 || code != 0 {
		t.Errorf("migrate status after %d grants = %d, %s, want 3 and success", len(grants), code, stderr)
	}
	r := startServer(t, agent)
	for _, args := range [][]string{
		{"send", "--context", "talk", "x"}, {"tasks", "list"}, {"contexts", "list"}, {"contexts", "archive", "talk"}, {"contexts", "clear", "talk", "--yes", "--force"},
	} {
		if code, _, stderr := run(t, "", nil, append(args, "--server", r.URL)...); code != 0 {
			t.Errorf("%v = %d, %s", args, code, stderr)
		}
	}
}
