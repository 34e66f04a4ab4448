package cypher

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// failAt returns the error of a query with the position of a byte offset in its text.
func failAt(text string, offset int, e graph.CypherError) error {
	before := text[:min(max(offset, 0), len(text))]
	e.Line = 1 + strings.Count(before, "\n")
	e.Column = 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return &e
}

// quoted shortens a text of the query for an error.
func quoted(s string) string { return fmt.Sprintf("%.40q", s) }
