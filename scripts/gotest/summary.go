package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// summary counts a run, or several.
type summary struct {
	Packages, CachedPackages int
	Tests, CachedTests       int // top-level tests: that ran, and that had an earlier result
	Slowest                  []endedTest
	Flaky                    []string
}

// slowest is the number of tests that a report lists.
const slowest = 10

func (t *tests) summary() (s summary) {
	s.Packages = t.packages
	for _, cached := range t.cached {
		if cached {
			s.CachedPackages++
		}
	}
	for _, e := range t.ended {
		if t.cached[e.Package] {
			s.CachedTests++
			continue
		}
		s.Tests++
		s.Slowest = append(s.Slowest, e)
	}
	s.sort()
	return s
}

func (s *summary) sort() {
	slices.SortFunc(s.Slowest, func(a, b endedTest) int { return cmp.Compare(b.Seconds, a.Seconds) })
	s.Slowest = s.Slowest[:min(len(s.Slowest), slowest)]
}

func (s *summary) print(w io.Writer) {
	fmt.Fprintf(w, "%d tests ran in %d packages; %d tests of %d packages had an earlier result\n",
		s.Tests, s.Packages-s.CachedPackages, s.CachedTests, s.CachedPackages)
}

// add appends the summary to a file. It does nothing if path is empty.
func (s *summary) add(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) // no secrets
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(s), f.Close())
}

// printReport prints the sum of the summaries in a file.
func printReport(path string, w io.Writer) error {
	f, err := os.Open(path) // named by the caller
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var sum summary
	for d := json.NewDecoder(f); ; {
		var s summary
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		sum.Packages += s.Packages
		sum.CachedPackages += s.CachedPackages
		sum.Tests += s.Tests
		sum.CachedTests += s.CachedTests
		sum.Slowest = append(sum.Slowest, s.Slowest...)
		sum.Flaky = append(sum.Flaky, s.Flaky...)
	}
	sum.sort()
	sum.print(w)
	fmt.Fprintln(w, "slowest tests:")
	for _, e := range sum.Slowest {
		fmt.Fprintf(w, "  %6.1f s  %s\n", e.Seconds, strings.TrimPrefix(e.String(), module))
	}
	for _, name := range sum.Flaky {
		fmt.Fprintln(w, "FLAKY", name)
	}
	return nil
}

const module = "github.com/holdfast-dev/holdfast/"
