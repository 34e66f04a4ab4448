package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// report is the section of a kit.
type report struct {
	command string
	scores  []score
	// remaining are the tests that did not pass, with their reasons.
	remaining []remaining
}

// score is a row of the table of scores.
type score struct {
	tests, profile          string
	passed, failed, skipped int
}

type remaining struct {
	id, profile, message, reason string
}

// add counts tests that ran with a profile. reasons has the reason of each expected failure by the
// id of the test, or by a prefix of it.
func (r *report) add(name, profile string, tests []test, reasons map[string]string) {
	s := score{tests: name, profile: profile}
	for _, t := range tests {
		switch t.outcome {
		case passed:
			s.passed++
		case skipped:
			s.skipped++
		case failed:
			s.failed++
			f := remaining{t.id, profile, t.message, reasonOf(t.id, reasons)}
			if f.reason == "" || !slices.Contains(r.known(), [3]string{f.id, f.profile, f.reason}) {
				r.remaining = append(r.remaining, f)
			}
		}
	}
	r.scores = append(r.scores, s)
}

// known returns the rows of the table of failures.
func (r *report) known() (rows [][3]string) {
	for _, f := range r.remaining {
		rows = append(rows, [3]string{f.id, f.profile, f.reason})
	}
	return rows
}

func reasonOf(id string, reasons map[string]string) string {
	for prefix, reason := range reasons {
		if strings.HasPrefix(id, prefix) || strings.HasSuffix(id, "::"+prefix) {
			return reason
		}
	}
	return ""
}

func (r *report) markdown() string {
	out := new(strings.Builder)
	fmt.Fprintf(out, "    %s\n\n| Tests | Profile | Passed | Failed | Skipped |\n|---|---|---|---|---|\n", r.command)
	for _, s := range r.scores {
		fmt.Fprintf(out, "| %s | `%s` | %d | %d | %d |\n", s.tests, s.profile, s.passed, s.failed, s.skipped)
	}
	if len(r.remaining) > 0 {
		out.WriteString("\n| Not passed | Profile | Reason |\n|---|---|---|\n")
	}
	for _, f := range r.remaining {
		reason := f.reason
		if reason == "" {
			reason = "unexplained: " + strings.ReplaceAll(f.message, "|", `\|`)
		}
		fmt.Fprintf(out, "| `%s` | `%s` | %s |\n", f.id, f.profile, reason)
	}
	return out.String()
}

// unexplained returns an error if a test did not pass for an unknown reason.
func (r *report) unexplained() error {
	var ids []string
	for _, f := range r.remaining {
		if f.reason == "" {
			ids = append(ids, f.id)
		}
	}
	if len(ids) > 0 {
		return fmt.Errorf("%d tests failed without a known reason: %s", len(ids), strings.Join(ids, ", "))
	}
	return nil
}

// rewriteSection replaces the text between the comments that mark a section of a document.
func rewriteSection(name, section, text string) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	start, end := []byte("<!-- "+section+" -->\n"), []byte("<!-- end of "+section+" -->\n")
	before, rest, ok := bytes.Cut(page, start)
	_, after, ended := bytes.Cut(rest, end)
	if !ok || !ended {
		return fmt.Errorf("%s: want the lines %q and %q", name, start, end)
	}
	return os.WriteFile(name, bytes.Join([][]byte{before, start, []byte(text), end, after}, nil), 0o644) // a document
}
