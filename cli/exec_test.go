package cli_test

import (
	"strings"
	"testing"
)

// Programs of --exec inherit the server's environment without its secrets.
func TestExecProgramsGetNoSecrets(t *testing.T) {
	for _, name := range []string{"DATABASE_URL", "postgres_url", "PGPASSWORD", "HOLDFAST_TOKENS", "WEBHOOK_URL", "WEBHOOK_TOKEN", "WEBHOOK_SECRET", "PUSH_SECRET_KEY", "PUSH_SECRET_KEYS", "PUSH_EGRESS_PROXY"} {
		t.Setenv(name, "s3cr3t of "+name)
	}
	t.Setenv("CLI_TEST_VALUE", "for all")
	url := serveForTest(t, "--storage", "memory", "--exec", "env", "--exec-plain")
	code, out, stderr := run(t, "", nil, "send", "--server", url, "x")
	if code != 0 || !strings.Contains(out, "CLI_TEST_VALUE=for all") {
		t.Fatalf("send = %d, %q, %q, want the program's environment", code, out, stderr)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "s3cr3t") {
			t.Errorf("the program has %s", line)
		}
	}
}
