//go:build services

package cli_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// Secrets on the command line are used, but masked in the process list.
func TestSecretsAreHiddenFromProcessList(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	secret := strings.Replace(url, "holdfast@", "holdfast:s3cr3t@", 1)
	cmd := exec.CommandContext(t.Context(), "holdfast", "serve", "--json", "--addr", "127.0.0.1:0", "--schema", pgtest.Schema(t, url), "--run-migrations-on-startup",
		"--token", "s3cr3t-a=alice", "--token=s3cr3t-b=bob", "--database-url", secret, "--webhook-url", "https://example.com/?key=s3cr3t")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	ready, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(ready, `"storage":"postgres"`) || !strings.Contains(ready, `"tokens":true`) {
		t.Fatalf("serve printed %q, %v, want PostgreSQL and tokens", ready, err)
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
	if err != nil || strings.Contains(string(line), "s3cr3t") || !strings.Contains(string(line), "--schema") {
		t.Errorf("command line in the process list = %q, %v, want no secrets", line, err)
	}
}
