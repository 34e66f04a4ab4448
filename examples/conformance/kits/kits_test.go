package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestKitIsDetected(t *testing.T) {
	t.Parallel()
	for _, k := range kits {
		dir := t.TempDir()
		file := filepath.Join(dir, k.marker)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := detect(dir); err != nil || got.name != k.name {
			t.Errorf("detect(%s) = %q, %v", k.marker, got.name, err)
		}
	}
	if _, err := detect(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a known kit") {
		t.Errorf("detect(empty directory) = %v, want an error", err)
	}
}

func TestResultsOfPytestAreRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "results.xml")
	text := `<testsuites><testsuite>
<testcase file="tests/a/test_x.py" classname="tests.a.test_x" name="test_1"/>
<testcase file="tests/a/test_x.py" classname="tests.a.test_x.TestY" name="test_2[jsonrpc]"><failure message="AssertionError: no&#10;more">trace</failure></testcase>
<testcase file="tests/a/test_x.py" classname="tests.a.test_x" name="test_3"><skipped type="pytest.skip" message="off"/></testcase>
<testcase file="tests/a/test_x.py" classname="tests.a.test_x" name="test_4"><error message="failed on setup"/></testcase>
</testsuite></testsuites>`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readResults(file)
	want := []test{
		{"tests/a/test_x.py::test_1", passed, ""},
		{"tests/a/test_x.py::TestY::test_2[jsonrpc]", failed, "AssertionError: no"},
		{"tests/a/test_x.py::test_3", skipped, "off"},
		{"tests/a/test_x.py::test_4", failed, "failed on setup"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("readResults() = %v, %v, want %v", got, err, want)
	}
}

func TestUnexplainedFailureIsAnError(t *testing.T) {
	t.Parallel()
	r := &report{command: "make conformance"}
	tests := []test{{"a::test_1", failed, "why"}, {"a::test_2", passed, ""}, {"a::test_3", skipped, ""}}
	r.add("all", "v03", tests, map[string]string{"test_1": "a fault of the kit"})
	if err := r.unexplained(); err != nil {
		t.Errorf("unexplained() = %v, want nil: the failure has a reason", err)
	}
	r.add("all", "v10", tests, nil)
	if err := r.unexplained(); err == nil || !strings.Contains(err.Error(), "a::test_1") {
		t.Errorf("unexplained() = %v, want the id of the test", err)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n<!-- x -->\nold\n<!-- end of x -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewriteSection(page, "x", r.markdown()); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(page)
	for _, want := range []string{"before\n<!-- x -->\n    make", "| all | `v03` | 1 | 1 | 1 |", "| `a::test_1` | `v03` | a fault of the kit |", "unexplained: why", "<!-- end of x -->\nafter\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("page = %s\nwant it to contain %q", got, want)
		}
	}
	if strings.Contains(string(got), "old") {
		t.Error("the page has the old section")
	}
	if err := rewriteSection(page, "y", ""); err == nil {
		t.Error("rewriteSection(unknown section) = nil, want an error")
	}
}
