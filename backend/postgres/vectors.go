package postgres

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectorsql"
)

const (
	whereCollection = ` owner = $1::text AND name = $2::text`
	whereDocuments  = ` d.owner = $1::text AND d.collection = $2::bigint`
	sentEmbedding   = `{v}.vector_send(d.embedding)`

	sqlReadCollection = `SELECT name, metric, dimension, embedder, documents, id, indexed FROM {s}.vector_collections WHERE` + whereCollection
)

// Vectors returns the documents of the store, which needs Config.Vectors: otherwise calls return an
// error with code unsupported_operation. The stores that it returns share their documents.
//
// Searches of a small collection compare all documents. A large collection gets its own index (HNSW).
// The store builds this index in the background if the user of the database owns the tables. Otherwise
// [Store.IndexVectors] and "holdfast migrate up" build it.
func (s *Store) Vectors(cfg vector.Config) vector.Store {
	v := &vectorStore{kit: &kit{database: s.database}, indexes: s.vectors, cfg: cfg}
	v.Documents = vectorsql.NewDocuments(v.kit, sentEmbedding, decodeEmbedding, v.enabled)
	return v
}

type vectorStore struct {
	*vectorsql.Documents
	kit     *kit
	indexes *vectorIndexes
	cfg     vector.Config
}

var (
	_ vector.Store         = (*vectorStore)(nil)
	_ vector.Lister        = (*vectorStore)(nil)
	_ vector.Forgetter     = (*vectorStore)(nil)
	_ vector.Transactional = (*vectorStore)(nil)
)

var errNoVectors = a2a.Errorf(a2a.CodeUnsupported, "vector: documents with embeddings are turned off: set Config.Vectors (--postgres-vectors)")

// enabled returns an error unless the store keeps documents.
func (s *vectorStore) enabled() error {
	if !s.kit.cfg.Vectors {
		return errNoVectors
	}
	return nil
}

// collectionRow is a row of vector_collections.
type collectionRow struct {
	vector.Collection
	id      int64
	indexed string // the type of the vectors in its index, "" if it has none
}

// collection returns the description of a collection, nil if c is nil.
func (c *collectionRow) collection() *vector.Collection {
	if c == nil {
		return nil
	}
	return &c.Collection
}

// maxHalf is the largest component of a vector of half precision.
const maxHalf = 65504

// half reports whether the collection has an index of half precision.
func (c *collectionRow) half() bool { return c != nil && c.indexed == kindHalf }

func fitsHalf(v []float32) bool {
	return !slices.ContainsFunc(v, func(c float32) bool { return c > maxHalf || c < -maxHalf })
}

func scanCollection(r sqlkit.Row) *collectionRow {
	return &collectionRow{vectorsql.ScanCollection(r), r.Int(5), r.Text(6)}
}

// readCollection returns a collection, nil if it does not exist. text selects it.
func readCollection(q sqlkit.Querier, text string, k vector.Key) (c *collectionRow, err error) {
	err = q.Query(text, func(r sqlkit.Row) error {
		c = scanCollection(r)
		return nil
	}, k.Owner, k.Collection)
	return c, err
}

// collection returns a collection, nil if it does not exist.
func (s *vectorStore) collection(ctx context.Context, k vector.Key) (c *collectionRow, err error) {
	if err := s.enabled(); err != nil {
		return nil, err
	}
	err = s.kit.Read(ctx, func(q sqlkit.Querier) (err error) {
		c, err = readCollection(q, sqlReadCollection, k)
		return err
	})
	return c, err
}

// existing is collection, but returns vector.ErrCollectionNotFound.
func (s *vectorStore) existing(ctx context.Context, k vector.Key) (*collectionRow, error) {
	c, err := s.collection(ctx, k)
	if err == nil && c == nil {
		err = vector.ErrCollectionNotFound
	}
	return c, err
}

// newCollectionID returns an id that no other collection has.
func newCollectionID() int64 { return 1 + rand.Int64N(math.MaxInt64) } //nolint:gosec // need not be secret

// encodeEmbedding returns the text of a vector of pgvector, "" if there is none.
func encodeEmbedding(v []float32) string {
	if len(v) == 0 {
		return ""
	}
	text := append(make([]byte, 0, 12*len(v)), '[')
	for i, c := range v {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendFloat(text, float64(c), 'g', -1, 32)
	}
	return string(append(text, ']'))
}

// decodeEmbedding decodes the binary form of a vector of pgvector: two numbers of 16 bits, of which
// the first is the dimension, and the components.
func decodeEmbedding(b []byte) []float32 {
	if len(b) < 4 {
		return nil
	}
	v := make([]float32, (len(b)-4)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.BigEndian.Uint32(b[4+4*i:]))
	}
	return v
}
