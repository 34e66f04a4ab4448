package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed holdfast_compat.py
var compat []byte

// outcome is the outcome of a test of a kit.
type outcome string

const (
	passed  outcome = "passed"
	failed  outcome = "failed"
	skipped outcome = "skipped"
)

// test is a test of a kit with its outcome.
type test struct {
	id      string // such as tests/mandatory/test_x.py::test_y
	outcome outcome
	message string
}

// pytest runs tests of the kit against an agent and returns their outcomes. dir receives the
// files of the run.
func (r *runner) pytest(ctx context.Context, dir string, args ...string) ([]test, error) {
	ini, results := filepath.Join(dir, "pytest.ini"), filepath.Join(dir, "results.xml")
	for name, content := range map[string][]byte{ini: []byte("[pytest]\nasyncio_mode = auto\n"), filepath.Join(dir, "holdfast_compat.py"): compat} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, err
		}
	}
	args = append([]string{
		"-m", "pytest", "-c", ini, "--rootdir", r.path, "-p", "holdfast_compat", "-p", "no:cacheprovider",
		"-q", "--tb=short", "--junitxml", results, "-o", "junit_family=xunit1",
	}, args...)
	cmd := exec.CommandContext(ctx, r.python, args...)
	cmd.Dir = r.path
	cmd.Env = append(os.Environ(), "PYTHONPATH=."+string(os.PathListSeparator)+dir, "PYTHONDONTWRITEBYTECODE=1", "HOLDFAST_KIT_HOST="+kitHost)
	if cert := filepath.Join(dir, certificateFile); exists(cert) {
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+cert, "REQUESTS_CA_BUNDLE="+cert)
	}
	output := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = output, output
	if r.verbose {
		cmd.Stdout, cmd.Stderr = r.out, r.out
	}
	const testsFailed = 1 // exit code
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == testsFailed {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("pytest: %w\n%s", err, output)
	}
	return readResults(results)
}

// inTempDir calls f with a directory that is removed afterwards.
func inTempDir(f func(dir string) error) error {
	dir, err := os.MkdirTemp("", "kit-")
	if err != nil {
		return err
	}
	return errors.Join(f(dir), os.RemoveAll(dir))
}

// certificateFile is the file in the directory of a run with the certificate of the agent.
const certificateFile = "cert.pem"

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// readResults reads the outcomes from a file in the format of JUnit.
func readResults(name string) ([]test, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	type detail struct {
		Message string `xml:"message,attr"`
	}
	var suites struct {
		Suites []struct {
			Cases []struct {
				File    string  `xml:"file,attr"`
				Class   string  `xml:"classname,attr"`
				Name    string  `xml:"name,attr"`
				Failure *detail `xml:"failure"`
				Error   *detail `xml:"error"`
				Skipped *detail `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(raw, &suites); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var tests []test
	for _, s := range suites.Suites {
		for _, c := range s.Cases {
			t := test{id: c.File + "::" + c.Name, outcome: passed}
			module := strings.ReplaceAll(strings.TrimSuffix(c.File, ".py"), "/", ".")
			if class := strings.TrimPrefix(strings.TrimPrefix(c.Class, module), "."); class != "" {
				t.id = c.File + "::" + class + "::" + c.Name
			}
			for what, d := range map[outcome][]*detail{failed: {c.Failure, c.Error}, skipped: {c.Skipped}} {
				for _, d := range d {
					if d != nil {
						t.outcome, t.message = what, strings.SplitN(d.Message, "\n", 2)[0]
					}
				}
			}
			tests = append(tests, t)
		}
	}
	if len(tests) == 0 {
		return nil, errors.New("pytest ran no tests")
	}
	return tests, nil
}
