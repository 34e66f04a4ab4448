//go:build services

package postgres_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/postgres"
)

func TestSchemaOf(t *testing.T) {
	t.Parallel()
	if got, want := postgres.SchemaOf("did:bindu:alice:agent1:abc123"), "did_bindu_alice_agent1_abc123_"; !strings.HasPrefix(got, want) {
		t.Errorf("SchemaOf() = %q, want prefix %q", got, want)
	}
	if got := postgres.SchemaOf(""); got != "" {
		t.Errorf(`SchemaOf("") = %q, want ""`, got)
	}
	valid := regexp.MustCompile(`^did_[a-z0-9_]{1,59}$`)
	long := "did:key:" + strings.Repeat("z6MkhaXgBZDvotDkL5257", 12)
	seen := map[string]string{}
	for _, did := range []string{
		"did:bindu:alice:agent1:abc123", "did:bindu:alice:agent1:ABC123", "did:bindu:alice:agent1_abc123", "did:bindu:alice.agent1.abc123",
		"did:bindu:alice:agent1:abc123 ", "did::bindu:alice:agent1:abc123", "DID:bindu:alice:agent1:abc123",
		"did:bindu:alice%3Aagent1:abc123", "did:web:example.com", "did:web:example-com", "did:web:example_com", "did:web:example..com",
		long, long + "a", long + "b", "did:web:ü", "did:web:ö", "did:web:", "did", "pg_catalog", "public", "1", ":", "'; DROP SCHEMA public; --",
	} {
		got := postgres.SchemaOf(did)
		if !valid.MatchString(got) || len(got) > 63 {
			t.Errorf("SchemaOf(%q) = %q, want a plain name of up to 63 bytes with prefix did_", did, got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("SchemaOf(%q) = SchemaOf(%q) = %q, want different schemas", did, other, got)
		}
		seen[got] = did
		if again := postgres.SchemaOf(did); again != got {
			t.Errorf("SchemaOf(%q) = %q and then %q", did, got, again)
		}
	}
}
