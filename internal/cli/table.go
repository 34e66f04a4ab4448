package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
)

// column is a column of a table. A negative width aligns its cells to the right. The last column
// has no width.
type column struct {
	head  string
	width int
}

// table prints the items of a list in columns. The widths are fixed, so that a page can be printed
// before the next one is read. With --json rows are not printed.
type table struct {
	a       *app
	what    string // names the items
	member  string // of the result of the method: contains the items
	columns []column
	last    int    // maximum width of the last column; 0 is no limit
	blank   string // printed for an empty cell
	rows    int
	total   string // the number of items of all pages as text, "" if unknown
}

// fit limits the last column to the rest of the terminal's width, or to 60 characters without one. It
// returns that rest.
func (t *table) fit() int {
	rest := 60
	if t.a.out.terminal {
		rest = t.a.out.width
		for _, c := range t.columns[:len(t.columns)-1] {
			rest -= max(c.width, -c.width) + 2
		}
	}
	t.last = max(rest, minText)
	return rest
}

// minText is the minimum width of a column of text.
const minText = 12

// row prints a row, and the header before the first one.
func (t *table) row(cells ...string) {
	if t.a.json {
		return
	}
	if t.rows == 0 {
		heads := make([]string, len(t.columns))
		for i, c := range t.columns {
			heads[i] = c.head
		}
		t.line(heads)
	}
	t.line(cells)
	t.rows++
}

func (t *table) line(cells []string) {
	var b strings.Builder
	for i, cell := range cells {
		if cell = oneLine(cell, 0); cell == "" {
			cell = t.blank
		}
		if i < len(t.columns)-1 {
			cell = fmt.Sprintf("%*s  ", -t.columns[i].width, cell)
		} else {
			cell = oneLine(cell, t.last)
		}
		b.WriteString(cell)
	}
	t.a.out.line("%s", strings.TrimRight(b.String(), " "))
}

// end returns an id on one line. On a terminal only its end is returned if it is longer than the column:
// ids created at the same time have the same prefix.
func (t *table) end(id string, column int) string {
	runes := []rune(oneLine(id, 0))
	if cut := len(runes) - t.columns[column].width; t.a.out.terminal && cut > 0 {
		return "…" + string(runes[cut+1:])
	}
	return string(runes)
}

// writeItems writes the raw items of a page, one per line.
func (t *table) writeItems(raw json.RawMessage) error {
	var page map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(raw, &page) != nil || json.Unmarshal(page[t.member], &items) != nil {
		return a2a.Errorf(a2a.CodeInvalidAgentResponse, "the list is not a valid A2A result")
	}
	for _, item := range items {
		t.a.out.json(item)
	}
	return nil
}
