package mutants

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A mutant is the product with one defect.
type mutant struct {
	defect string // what the code does wrong, as a sentence of the present tense
	file   string // path from the root of the repository
	old    string // text of the file that occurs once
	new    string // what replaces it
	test   string // regular expression of the tests that fail, as for go test -run
	in     string // the package of these tests: its path from the root of the repository. Empty: the package of file
}

// all returns every mutant.
func all() []mutant {
	return slices.Concat(engine, server)
}

const root = "../.."

// path returns where the file is.
func (m mutant) path() string { return filepath.Join(root, filepath.FromSlash(m.file)) }

// source returns the file with the defect.
func (m mutant) source(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(m.path())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), m.old); n != 1 {
		t.Fatalf("%s has the text that the defect replaces %d times, want once:\n%s", m.file, n, m.old)
	}
	return strings.Replace(string(data), m.old, m.new, 1)
}

func TestMutantsMatchTheCode(t *testing.T) {
	t.Parallel()
	defects := make(map[string]bool)
	for _, m := range all() {
		if defects[m.defect] {
			t.Errorf("two mutants have the name %q", m.defect)
		}
		defects[m.defect] = true
		if m.test == "" {
			t.Errorf("%s: no test is named", m.defect)
		}
		t.Run(m.defect, func(t *testing.T) { m.source(t) })
	}
}
