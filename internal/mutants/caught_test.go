//go:build mutants

package mutants

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"testing"
)

// failed matches the line that go test prints for a failed test, and for a test that did not end in time.
var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: |^panic: |^fatal error: `)

func TestMutantsAreCaught(t *testing.T) {
	for _, m := range all() {
		t.Run(m.defect, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, m)
			switch {
			case err == nil:
				t.Errorf("survived: no test of -run %q in %s fails", m.test, m.tests())
			case !failed.Match(out):
				t.Fatalf("the tests did not run: %v\n%s", err, out)
			}
		})
	}
}

// TestTestsOfMutantsPass runs the named tests without a defect.
func TestTestsOfMutantsPass(t *testing.T) {
	named := make(map[string]string)
	for _, m := range all() {
		if named[m.tests()] != "" {
			named[m.tests()] += "|"
		}
		named[m.tests()] += m.test
	}
	for in, tests := range named {
		t.Run(in, func(t *testing.T) {
			if out, err := test(t, in, tests, "-timeout=20m"); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// tests returns the package of the tests.
func (m mutant) tests() string {
	if m.in != "" {
		return m.in
	}
	return path.Dir(m.file)
}

// run runs the tests of m with its defect, and returns their output.
func run(t *testing.T, m mutant) ([]byte, error) {
	t.Helper()
	dir := t.TempDir()
	changed := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(changed, []byte(m.source(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	original, err := filepath.Abs(m.path())
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return test(t, m.tests(), m.test, "-failfast", "-overlay", overlay)
}

// test runs tests of a package. A test that a defect blocks ends after two minutes.
func test(t *testing.T, in, tests string, flags ...string) ([]byte, error) {
	t.Helper()
	args := append([]string{"test", "-vet=off", "-count=1", "-timeout=2m", "-run", tests}, flags...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, "./"+in)...)
	cmd.Dir = root
	return cmd.CombinedOutput()
}
