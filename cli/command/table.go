package command

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Column is a column of a table. A negative width aligns its cells to the right. The last column
// has no width.
type Column struct {
	Head  string
	Width int
}

// Table prints the items of a list in columns. The widths are fixed, so that a page can be printed
// before the next one is read. With --json rows are not printed.
type Table struct {
	Console *Console
	what    string // names the items
	Member  string // of the result of the method: contains the items
	Columns []Column
	Last    int    // maximum width of the last column; 0 is no limit
	Blank   string // printed for an empty cell
	Rows    int    // the number of printed rows
	Total   string // the number of items of all pages as text, "" if unknown
}

// NewTable returns a table for a list. what names the items, and the member of the result that contains them. A
// column is its head and its width, such as SIZE:-8; the last one has no width.
func NewTable(a *Console, what string, columns ...string) *Table {
	t := &Table{Console: a, what: what, Member: what}
	for _, c := range columns {
		head, width, _ := strings.Cut(c, ":")
		n, _ := strconv.Atoi(width)
		t.Columns = append(t.Columns, Column{Head: head, Width: n})
	}
	return t
}

// Fit limits the last column to the rest of the terminal's width, or to 60 characters without one. It
// returns that rest.
func (t *Table) Fit() int {
	rest := 60
	if t.Console.Out.Terminal {
		rest = t.Console.Out.Width
		for _, c := range t.Columns[:len(t.Columns)-1] {
			rest -= max(c.Width, -c.Width) + 2
		}
	}
	t.Last = max(rest, MinText)
	return rest
}

// MinText is the minimum width of a column of text.
const MinText = 12

// Row prints a row, and the header before the first one.
func (t *Table) Row(cells ...string) {
	if t.Console.JSON {
		return
	}
	if t.Rows == 0 {
		heads := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			heads[i] = c.Head
		}
		t.line(heads)
	}
	t.line(cells)
	t.Rows++
}

func (t *Table) line(cells []string) {
	var b strings.Builder
	for i, cell := range cells {
		if cell = OneLine(cell, 0); cell == "" {
			cell = t.Blank
		}
		if i < len(t.Columns)-1 {
			cell = fmt.Sprintf("%*s  ", -t.Columns[i].Width, cell)
		} else {
			cell = OneLine(cell, t.Last)
		}
		b.WriteString(cell)
	}
	t.Console.Out.Line("%s", strings.TrimRight(b.String(), " "))
}

// End returns an id on one line. On a terminal only its end is returned if it is longer than the column:
// ids created at the same time have the same prefix.
func (t *Table) End(id string, column int) string {
	runes := []rune(OneLine(id, 0))
	if cut := len(runes) - t.Columns[column].Width; t.Console.Out.Terminal && cut > 0 {
		return "…" + string(runes[cut+1:])
	}
	return string(runes)
}

// writeItems writes the raw items of a page, one per line.
func (t *Table) writeItems(raw json.RawMessage) error {
	var page map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(raw, &page) != nil || json.Unmarshal(page[t.Member], &items) != nil {
		return a2a.Errorf(a2a.CodeInvalidAgentResponse, "the list is not a valid A2A result")
	}
	for _, item := range items {
		t.Console.Out.JSON(item)
	}
	return nil
}
