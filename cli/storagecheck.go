package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres/age"
	"github.com/holdfast-dev/holdfast/cli/command"
)

// storageCmd has the commands for stores.
type storageCmd struct {
	Check storageCheckCmd `cmd:"" help:"Test a store with the conformance suites (command holdfast-check only)."`
}

type storageCheckCmd struct {
	URL   string   `arg:"" help:"URL of the store, as for --store-history, or the path of a SQLite data directory with a slash."`
	Suite []string `placeholder:"NAME" help:"Only this suite, such as tasks, history, memory, documents, graphs, state, boards or blobs. Repeatable (default all that the store supports, except tasks)."`

	storageFlags
}

// StoreToCheck is a store that suites test, in places of their own.
type StoreToCheck struct {
	// Kind is the kind of storage.
	Kind string
	// URL is the address of Redis or a bucket.
	URL string
	// Dir is the data directory of SQLite.
	Dir string
	// Postgres is the database.
	Postgres age.Config
}

// Suite is a conformance suite of a contract.
type Suite struct {
	// Name selects the suite with --suite.
	Name string
	// Run tests fresh stores.
	Run func(ctx context.Context) SuiteReport
}

// SuiteReport is the result of a suite.
type SuiteReport struct {
	// Suite is the name of the suite, Passed the number of tests that passed.
	Suite   string        `json:"suite"`
	Passed  int           `json:"passed"`
	Failed  []SuiteResult `json:"failed"`
	Skipped []SuiteResult `json:"skipped"`
	// Duration is for the output for people, Millis for JSON.
	Duration time.Duration `json:"-"`
	Millis   int64         `json:"durationMilliseconds"`
}

// SuiteResult is a test that failed, or that was skipped for a reason.
type SuiteResult struct {
	Test    string `json:"test"`
	Message string `json:"message"`
}

// Run tests a store.
func (c *storageCheckCmd) Run(ctx context.Context, a *app) error {
	if a.parts.Suites == nil {
		return command.WithHint(a2a.Errorf(a2a.CodeUnsupported, "this build of the command has no conformance suites"), "use the command "+checkBuild)
	}
	one, err := a.storeToCheck(c.URL)
	if err != nil {
		return command.Usagef("URL %s", strings.ReplaceAll(err.Error(), "\n", " and "))
	}
	suites, err := a.parts.Suites(ctx, StoreToCheck{Kind: one.kind, URL: one.url, Dir: one.at.data, Postgres: age.Config{Postgres: one.at.cfg, Copy: one.at.age.Copy}})
	if err != nil {
		return a.storeError("URL", c.URL, err)
	}
	names := make([]string, len(suites))
	for i := range suites {
		names[i] = suites[i].Name
	}
	for _, name := range c.Suite {
		if !slices.Contains(names, name) {
			return command.Usagef("--suite is %s: %s has the suites %s", a2a.Quote(name), one.kind, strings.Join(names, ", "))
		}
	}
	var reports []SuiteReport
	failed := false
	for _, s := range suites {
		if len(c.Suite) > 0 && !slices.Contains(c.Suite, s.Name) || len(c.Suite) == 0 && s.Name == "tasks" {
			continue
		}
		a.Info("testing %s ...", s.Name)
		report := s.Run(ctx)
		failed = failed || len(report.Failed) > 0
		if reports = append(reports, report); !a.JSON {
			report.print(a)
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.JSON:
		if err := a.WriteResult(map[string]any{"url": maskURL(c.URL), "ok": !failed, "suites": reports}); err != nil {
			return err
		}
	}
	if failed {
		return exitStatus(exitFailure)
	}
	return nil
}

// print prints the result of a suite.
func (r *SuiteReport) print(a *app) {
	a.Out.Line("%-8s %d passed, %d failed, %d skipped in %s", r.Suite, r.Passed, len(r.Failed), len(r.Skipped), r.Duration)
	for _, f := range r.Failed {
		a.Out.Line("  %s %s: %s", a.Out.Red("failed"), command.Clean(f.Test), strings.ReplaceAll(command.Clean(f.Message), "\n", "\n    "))
	}
	skipped := make(map[string]int) // by reason
	for _, s := range r.Skipped {
		skipped[s.Message]++
	}
	for _, s := range r.Skipped {
		switch n := skipped[s.Message]; {
		case n == 1:
			a.Out.Line("  %s", a.Out.Dim("skipped "+command.Clean(s.Test)+": "+command.OneLine(s.Message, 0)))
		case n > 1:
			a.Out.Line("  %s", a.Out.Dim(fmt.Sprintf("skipped %d tests: %s", n, command.OneLine(s.Message, 0))))
			skipped[s.Message] = 0
		}
	}
}

// storeToCheck returns the store at a URL, whatever contracts it has.
func (a *app) storeToCheck(url string) (one contractStore, err error) {
	for _, kind := range a.kinds {
		if kind.Setting == "" {
			continue
		}
		if one, err = a.contractStore(kind, url); err == nil {
			return one, nil
		}
	}
	return one, err
}
