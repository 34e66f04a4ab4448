package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// These tests run go test in modules of their own. None is parallel: they change the working directory and the environment.

// newModule creates a repository with a package of one test file, and makes it the working directory.
func newModule(t *testing.T, tests string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOLDFAST_FLAKY_LOG", filepath.Join(t.TempDir(), "flaky.log"))
	t.Setenv("HOLDFAST_TEST_SUMMARY", filepath.Join(t.TempDir(), "summary"))
	write(t, "go.mod", "module example\n\ngo 1.26\n")
	write(t, "a_test.go", "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n// No result of an earlier run of this test applies.\nfunc init() { os.Setenv(\"UNIQUE\", \""+dir+"\") }\n\n"+tests)
	git(t, "init", "-q")
	git(t, "add", ".")
	git(t, "commit", "-qm", "add a test")
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, args ...string) {
	t.Helper()
	command := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, out)
	}
}

// gotest returns the output and the exit code of gotest.
func gotest(args ...string) (string, int) {
	var out strings.Builder
	code := run(args, &out, &out)
	return out.String(), code
}

func wantOutput(t *testing.T, out string, code, wantCode int, want ...string) {
	t.Helper()
	if code != wantCode {
		t.Errorf("exit code = %d, want %d. Output:\n%s", code, wantCode, out)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("output has no %q:\n%s", text, out)
		}
	}
}

// failsFirst is a test that passes from its second run on.
const failsFirst = `func TestName(t *testing.T) {
	if _, err := os.Stat("ran"); err != nil {
		os.WriteFile("ran", nil, 0o644)
		t.Fatal("the first output")
	}
}
`

func TestResultsAreCounted(t *testing.T) {
	newModule(t, "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { t.Run(\"c\", func(t *testing.T) {}) }\n")
	out, code := gotest("--", "./...")
	wantOutput(t, out, code, 0, "ok  \texample", "2 tests ran in 1 packages; 0 tests of 0 packages had an earlier result")
	out, code = gotest("--", "./...")
	wantOutput(t, out, code, 0, "(cached)", "0 tests ran in 0 packages; 2 tests of 1 packages had an earlier result")
	out, code = gotest("-report", os.Getenv("HOLDFAST_TEST_SUMMARY"))
	wantOutput(t, out, code, 0, "2 tests ran in 1 packages; 2 tests of 1 packages had an earlier result", "example.TestA", "example.TestB")
}

func TestFailuresAreShownOnce(t *testing.T) {
	newModule(t, "func TestA(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(\"why\") }) }\nfunc TestB(t *testing.T) { t.Log(\"quiet\") }\n")
	t.Setenv("CI", "")
	out, code := gotest("-run", ".", "--", ".")
	wantOutput(t, out, code, 1, "--- FAIL: TestA/sub", "FAIL\texample")
	if n := strings.Count(out, "why"); n != 1 || strings.Contains(out, "quiet") {
		t.Errorf("output has the failure %d times, want once and no output of passed tests:\n%s", n, out)
	}
}

func TestFailuresByHandAreNotRepeated(t *testing.T) {
	newModule(t, failsFirst)
	t.Setenv("CI", "")
	out, code := gotest("--", ".")
	wantOutput(t, out, code, 1, "the first output")
}

func TestFlakyTestFailsTheNextRunUntilItsCauseIsRemoved(t *testing.T) {
	newModule(t, failsFirst)
	t.Setenv("CI", "true")
	out, code := gotest("-run", "TestName", "--", ".")
	wantOutput(t, out, code, 0, "repeating example.TestName, alone", "FLAKY example.TestName", "the first output")
	out, code = gotest("-report", os.Getenv("HOLDFAST_TEST_SUMMARY"))
	wantOutput(t, out, code, 0, "FLAKY example.TestName")
	out, code = gotest("-flaky")
	wantOutput(t, out, code, 1, "example.TestName", "Fixes-Flaky: ", "the first output")
	git(t, "commit", "-qm", "wait for the condition", "-m", "Fixes-Flaky: example.TestName", "--allow-empty")
	out, code = gotest("-flaky")
	wantOutput(t, out, code, 0)
}

func TestOnlyFewInexactFailuresAreRepeated(t *testing.T) {
	for name, tests := range map[string]string{
		"loss":        strings.ReplaceAll(failsFirst, "TestName", "TestNothingIsLost"),
		"order":       strings.ReplaceAll(failsFirst, "TestName", "TestEventsAreInOrder"),
		"process end": strings.ReplaceAll(failsFirst, `t.Fatal("the first output")`, "os.Exit(1)"),
		"panic":       strings.ReplaceAll(failsFirst, `t.Fatal("the first output")`, "go panic(1); select {}"),
		"build":       "func TestA(t *testing.T) { x }\n",
		"four": strings.ReplaceAll(failsFirst, `t.Fatal("the first output")`, "") + `
func TestFour(t *testing.T) {
	if _, err := os.Stat("four"); err != nil {
		os.WriteFile("four", nil, 0o644)
		for _, n := range []string{"a", "b", "c", "d"} {
			t.Run(n, func(t *testing.T) { t.Fail() })
		}
	}
}
`,
	} {
		t.Run(name, func(t *testing.T) {
			newModule(t, tests)
			t.Setenv("CI", "true")
			out, code := gotest("--", ".")
			wantOutput(t, out, code, 1, "FAIL\texample")
			if strings.Contains(out, "repeating") {
				t.Errorf("the failure was repeated:\n%s", out)
			}
		})
	}
}

func TestFailedRepetitionFails(t *testing.T) {
	newModule(t, "func TestName(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Fail() }) }\n")
	t.Setenv("CI", "true")
	out, code := gotest("-skip", "X", "-count", "1", "--", ".")
	wantOutput(t, out, code, 1, "repeating example.TestName/sub, alone")
	if strings.Contains(out, "FLAKY") {
		t.Errorf("a test that failed twice is called flaky:\n%s", out)
	}
}
