// Kits runs an official A2A conformance kit against the conformance agent, prints the score and
// writes it to the section of the kit in a document:
//
//	go run ./examples/conformance/kits -kit ../a2a-tck -docs docs/conformance.md
//
// The kit is a checkout beside this one. The kits for A2A 0.3 and 1.0 need Python with the
// packages that docs/conformance.md lists.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "kits:", err)
		os.Exit(1)
	}
}

// kit runs the tests of a kit.
type kit struct {
	// name identifies the section of the document.
	name string
	// marker is a file in the root of the kit.
	marker string
	run    func(ctx context.Context, r *runner) (*report, error)
}

var kits = []kit{
	{"kit-0.3", "tests/mandatory/jsonrpc/test_json_rpc_compliance.py", runKit03},
	{"kit-1.0", "tests/compatibility/conftest.py", runKit10},
	{"acts", "tests/acts/suite.acts.yaml", runACTS},
}

// detect returns the kit at a path.
func detect(path string) (kit, error) {
	for _, k := range kits {
		if _, err := os.Stat(filepath.Join(path, k.marker)); err == nil {
			return k, nil
		}
	}
	return kit{}, fmt.Errorf("%s: not a known kit: want a checkout of a2a-tck, tag 0.3.0.beta4 or branch 1.0-dev, or of A2A, branch conformance-spec", path)
}

// runner has the settings of a run.
type runner struct {
	path    string // of the kit
	python  string
	verbose bool
	out     io.Writer
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	r := &runner{out: stdout}
	flags := flag.NewFlagSet("kits", flag.ContinueOnError)
	flags.StringVar(&r.path, "kit", "", "`path` of the kit")
	flags.StringVar(&r.python, "python", "python3", "Python `command` with pytest")
	flags.BoolVar(&r.verbose, "v", false, "print the output of the kit")
	docs := flags.String("docs", "", "document whose section of the kit is rewritten (default none)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	k, err := detect(r.path)
	if err != nil {
		return err
	}
	if r.path, err = filepath.Abs(r.path); err != nil {
		return err
	}
	result, err := k.run(ctx, r)
	if err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	section := result.markdown()
	fmt.Fprint(stdout, section)
	if *docs != "" {
		if err := rewriteSection(*docs, k.name, section); err != nil {
			return err
		}
	}
	return result.unexplained()
}
