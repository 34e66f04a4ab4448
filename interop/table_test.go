package interop_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// peerInfo is the head of a row.
type peerInfo struct{ name, version, binding string }

// table is a table of results in docs/conformance.md, between two lines with its name.
type table struct {
	name, head string
	columns    []scenario
	rows       []peerInfo

	mu    sync.Mutex
	cells map[peerInfo]map[scenario]string
}

const conformancePage = "../docs/conformance.md"

// The tables, with the results of this run.
var (
	clientResults = newTable("clients", "Client", scenarios)
	serverResults = newTable("servers", "Server", []scenario{
		cardScenario, sendScenario, messageScenario, streamScenario, lostScenario, pushScenario, cancelScenario, turnsScenario, filesScenario, errorsScenario,
	})
)

func newTable(name, head string, columns []scenario) *table {
	return &table{name: name, head: head, columns: columns, cells: map[peerInfo]map[scenario]string{}}
}

// record adds the result of the test t to columns of a row.
func (r *table) record(t *testing.T, p peerInfo, columns ...scenario) {
	t.Helper()
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.cells[p] == nil {
			r.cells[p] = map[scenario]string{}
		}
		for _, s := range columns {
			if t.Failed() {
				r.cells[p][s] = "fail"
			} else if r.cells[p][s] == "" {
				r.cells[p][s] = "pass"
			}
		}
	})
}

// section returns the table as a part of the document.
func (r *table) section() generated {
	return generated{r.name, r.String(), func(a, b string) bool { return a == b }}
}

// generated is a part of docs/conformance.md, between two lines with its name.
type generated struct {
	name, text string
	same       func(a, b string) bool
}

// compare checks that the document has this text. With INTEROP_WRITE set it writes the text there.
func (g generated) compare() error {
	text, err := os.ReadFile(conformancePage)
	if err != nil {
		return err
	}
	opening, closing := fmt.Sprintf("<!-- %s: make interop -->\n", g.name), fmt.Sprintf("<!-- end of %s -->\n", g.name)
	before, rest, ok := strings.Cut(string(text), opening)
	was, after, ok2 := strings.Cut(rest, closing)
	if !ok || !ok2 {
		return fmt.Errorf("%s lacks the lines %q and %q", conformancePage, opening, closing)
	}
	if os.Getenv("INTEROP_WRITE") == "" {
		if !g.same(was, g.text) {
			return fmt.Errorf("%s does not have this table; make interop INTEROP_WRITE=1 writes it:\n%s", conformancePage, g.text)
		}
		return nil
	}
	return os.WriteFile(conformancePage, []byte(before+opening+g.text+closing+after), 0o600)
}

func (r *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %s | A2A | Binding |", r.head)
	for _, s := range r.columns {
		fmt.Fprintf(&b, " %s |", s)
	}
	fmt.Fprintf(&b, "\n|---|---|---|%s\n", strings.Repeat("---|", len(r.columns)))
	for _, p := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s |", p.name, p.version, p.binding)
		for _, s := range r.columns {
			cell := r.cells[p][s]
			if cell == "" {
				cell = "–"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	return b.String()
}
