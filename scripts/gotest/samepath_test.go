//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A second clone has the results of the first where nothing has changed. After a change of one byte of a test's data, the test runs again.
func TestClonesShareResults(t *testing.T) {
	script, err := filepath.Abs("../same-path")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	newModule(t, `func TestData(t *testing.T) {
	if text, err := os.ReadFile("testdata/a.txt"); err != nil || len(text) != 5 {
		t.Fatal(text, err)
	}
}
`)
	write(t, "testdata/a.txt", "first")
	// The test has a path of its own.
	link := filepath.Join(t.TempDir(), "link")
	write(t, "scripts/same-path", strings.Replace(string(text), `link="/var/tmp/holdfast-$(id -u)"`, "link="+link, 1))
	if err := os.Chmod("scripts/same-path", 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, "add", ".")
	git(t, "commit", "-qm", "add data")
	origin, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	clone := func() {
		t.Helper()
		t.Chdir(t.TempDir())
		git(t, "clone", "-q", origin, ".")
	}
	test := func(cached bool) {
		t.Helper()
		cmd := exec.Command("scripts/same-path", "go", "test", "./...")
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "(cached)") != cached {
			t.Errorf("same-path go test = %v, want the result to be cached: %t\n%s", err, cached, out)
		}
	}
	clone()
	test(false)
	clone()
	test(true)
	write(t, "testdata/a.txt", "other")
	test(false)
	git(t, "checkout", "-q", ".")
	test(true)

	t.Chdir(origin)
	write(t, "testdata/a.txt", "third")
	git(t, "commit", "-qam", "change a byte")
	clone()
	test(false)
}
