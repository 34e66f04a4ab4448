package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// maxRetries is the number of failed tests above which none is repeated.
const maxRetries = 3

// exact matches tests of loss, duplicates, order and isolation. There, one failure in a hundred runs is the defect.
var exact = regexp.MustCompile(`(?i)lose|lost|loss|once|twice|duplicate|surviv|order|isolat|owner|foreign|faults`)

// retryable reports whether the failed tests may be repeated: they are few, all of them ended, no data race was found, and
// none of them is exact.
func (t *tests) retryable() bool {
	if t.broken || len(t.failures) > maxRetries {
		return false
	}
	for _, f := range t.failures {
		if exact.MatchString(f.String()) || strings.Contains(f.output, "DATA RACE") {
			return false
		}
	}
	return true
}

// retry repeats each failed test once, alone. It returns the names of those that pass, if all do, and records them.
func (t *tests) retry() (flaky []string, err error) {
	for _, f := range t.failures {
		fmt.Fprintf(t.out, "=== repeating %s, alone\n", f)
		again := tests{dir: t.dir, flags: append(withoutSelection(t.flags), "-count=1", "-run", only(f.Test)), out: t.out}
		if err := again.run([]string{f.Package}); err != nil {
			return nil, err
		}
		if len(again.ended) == 0 {
			return nil, fmt.Errorf("%s did not run again", f)
		}
	}
	for _, f := range t.failures {
		fmt.Fprintf(t.out, "FLAKY %s failed, and passed when it was repeated. Its first output:\n%s", f, f.output)
		flaky = append(flaky, f.String())
	}
	return flaky, record(flakyLog(), t.failures)
}

// withoutSelection returns flags without -run and -skip, and without -count.
func withoutSelection(flags []string) (rest []string) {
	selects := regexp.MustCompile(`^--?(run|skip|count)(=|$)`)
	for i := 0; i < len(flags); i++ {
		if m := selects.FindStringSubmatch(flags[i]); m == nil {
			rest = append(rest, flags[i])
		} else if m[2] == "" {
			i++ // its value
		}
	}
	return rest
}

// only returns the regular expression of one test for -run.
func only(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// flakyLog returns the path of the list of flaky tests of this machine.
func flakyLog() string {
	if path := os.Getenv("HOLDFAST_FLAKY_LOG"); path != "" {
		return path
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "holdfast", "flaky.log")
}

// record adds tests to the list: a line with the time and the test, and the first output, indented.
func record(path string, flaky []failure) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // no secrets
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) // no secrets
	if err != nil {
		return err
	}
	for _, test := range flaky {
		output := strings.ReplaceAll(strings.TrimSpace(test.output), "\n", "\n\t")
		_, e := fmt.Fprintf(f, "%s %s\n\t%s\n", time.Now().UTC().Format(time.RFC3339), test, output)
		err = errors.Join(err, e)
	}
	return errors.Join(err, f.Close())
}

// trailer is the line with which a commit says that it has removed the cause of a flaky test.
const trailer = "Fixes-Flaky: "

// checkFlaky returns an error that names the tests of the list without a later commit that has the trailer with their
// name, in the history of the working directory.
func checkFlaky(path string) error {
	list, err := os.ReadFile(path) // the list of this user
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var open []string
	shown := false // the output of the last test is
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "\t") {
			if shown {
				open = append(open, line)
			}
			continue
		}
		at, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		//nolint:noctx // a line of the list
		found, err := exec.Command("git", "log", "--since="+at, "--fixed-strings", "--grep="+trailer+name, "--format=%h").CombinedOutput()
		if err != nil {
			return fmt.Errorf("git log: %w: %s", err, found)
		}
		if shown = len(found) == 0; shown {
			open = append(open, line)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("flaky tests. A commit that removes the cause has the line \"%sPACKAGE.TEST\" in its message:\n%s", trailer, strings.Join(open, ""))
	}
	return nil
}
