//go:build services

package postgres

import (
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectorsql"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

// Searches by words use the index of terms also with a plan that was made while the table was empty.
func TestPlansOfWordSearches(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{Vectors: true}))
	conn, err := s.pool.Acquire(bg)
	must(t, err)
	defer conn.Release()
	for i, q := range vectorsql.Statements(sqlkit.PostgreSQL) {
		plan := explain(t, conn.Conn(), "words"+strconv.Itoa(i), s.qualify(q[1]))
		if strings.Contains(plan, "Seq Scan") || strings.Contains(q[1], "tsquery") && !strings.Contains(plan, "vector_documents_terms") {
			t.Errorf("%s: plan\n%s", q[0], plan)
		}
	}
}

// BenchmarkWordSearch searches collections of up to 10,000 documents by words.
func BenchmarkWordSearch(b *testing.B) {
	t := storetest.Wrap(b)
	s := open(t, freshConfig(t, Config{Vectors: true}))
	vectortest.BenchWords(b, s.Vectors(vector.Config{}), 10_000, nil)
}
