// Command gotest runs go test and reports what the gate needs:
//
//	gotest [-C DIR] FLAG... -- PACKAGE...   runs go test FLAG... PACKAGE..., in DIR
//	gotest -report FILE                     prints what all runs with HOLDFAST_TEST_SUMMARY=FILE have added to the file
//	gotest -flaky                           fails if a test was flaky and no commit has removed the cause since
//
// A run prints a line for each package and the output of failed tests, and then the number of tests that ran and of packages
// with an earlier result, which go test has shown. With CI=true it repeats a failed test once, alone: see [retryable]. A test that
// passes then is printed as FLAKY with its first output, and recorded for gotest -flaky.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	err := command(args, stdout)
	if err == nil {
		return 0
	}
	if !errors.Is(err, errFailed) {
		fmt.Fprintln(stderr, "gotest:", err)
	}
	return 1
}

// errFailed says that tests failed, after the output has said which.
var errFailed = errors.New("tests failed")

func command(args []string, stdout io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "-report":
		return printReport(args[1], stdout)
	case len(args) == 1 && args[0] == "-flaky":
		return checkFlaky(flakyLog())
	}
	dir := ""
	if len(args) > 1 && args[0] == "-C" {
		dir, args = args[1], args[2:]
	}
	split := slices.Index(args, "--")
	if split < 0 {
		return errors.New("no -- before the packages")
	}
	t := tests{dir: dir, flags: args[:split], out: stdout}
	err := t.run(args[split+1:])
	var flaky []string
	if errors.Is(err, errFailed) && os.Getenv("CI") == "true" && t.retryable() {
		flaky, err = t.retry()
	}
	s := t.summary()
	s.Flaky = flaky
	s.print(stdout)
	return errors.Join(err, s.add(os.Getenv("HOLDFAST_TEST_SUMMARY")))
}
