package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// tests is one run of go test.
type tests struct {
	dir   string // of the module; empty: the working directory
	flags []string
	out   io.Writer

	output   map[testName]*bytes.Buffer // of tests that have not ended
	ended    []endedTest                // top-level tests that ran
	failures []failure
	cached   map[string]bool // packages with an earlier result
	packages int             // that have tests
	broken   bool            // a package failed without a failed test: it does not compile, or its process ended
}

type testName struct{ Package, Test string }

func (n testName) String() string { return n.Package + "." + n.Test }

type endedTest struct {
	testName
	Seconds float64
}

type failure struct {
	testName
	output string
}

// event is a line of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build events
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// run runs packages. It returns errFailed if tests failed.
func (t *tests) run(packages []string) error {
	t.output, t.cached = make(map[testName]*bytes.Buffer), make(map[string]bool)
	cmd := exec.Command("go", append(append([]string{"test", "-json"}, t.flags...), packages...)...) //nolint:noctx // as the caller wants
	cmd.Dir, cmd.Stderr = t.dir, os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for d := json.NewDecoder(stdout); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return errors.Join(fmt.Errorf("output of go test: %w", err), cmd.Process.Kill(), cmd.Wait())
		}
		t.handle(e)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) {
		t.broken = t.broken || len(t.failures) == 0
		return errFailed
	} else {
		return err
	}
}

func (t *tests) handle(e event) {
	name := testName{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(t.out, e.Output)
	case e.Action == "output" && e.Test == "":
		t.packageOutput(e)
	case e.Action == "output" && strings.HasPrefix(e.Output, "=== "): // the start of a test, its pauses
	case e.Action == "output":
		if t.output[name] == nil {
			t.output[name] = new(bytes.Buffer)
		}
		t.output[name].WriteString(e.Output)
	case e.Test != "" && (e.Action == "pass" || e.Action == "skip" || e.Action == "fail"):
		t.end(name, e)
	case e.Action == "fail":
		t.endPackage(e)
	}
}

// packageOutput prints the lines of a package, such as its result.
func (t *tests) packageOutput(e event) {
	switch {
	case e.Output == "PASS\n" || e.Output == "FAIL\n" || strings.Contains(e.Output, "[no test files]") || strings.Contains(e.Output, "no tests to run"):
		return
	case strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "FAIL\t"):
		t.packages++
		t.cached[e.Package] = strings.Contains(e.Output, "\t(cached)")
	}
	fmt.Fprint(t.out, e.Output)
}

func (t *tests) end(name testName, e event) {
	if e.Action == "fail" {
		text := ""
		if b := t.output[name]; b != nil {
			text = b.String()
		}
		fmt.Fprint(t.out, text)
		// Its subtests ended before: a test with failed subtests is no failure of its own.
		if !slices.ContainsFunc(t.failures, func(f failure) bool {
			return f.Package == name.Package && strings.HasPrefix(f.Test, name.Test+"/")
		}) {
			t.failures = append(t.failures, failure{name, text})
		}
	}
	delete(t.output, name)
	if !strings.Contains(name.Test, "/") {
		t.ended = append(t.ended, endedTest{name, e.Elapsed})
	}
}

// endPackage prints the output of tests that did not end when their process did.
func (t *tests) endPackage(e event) {
	unfinished := false
	for name, text := range t.output {
		if name.Package == e.Package {
			fmt.Fprint(t.out, text)
			unfinished = true
		}
	}
	if e.FailedBuild != "" || unfinished || !slices.ContainsFunc(t.failures, func(f failure) bool { return f.Package == e.Package }) {
		t.broken = true
	}
}
