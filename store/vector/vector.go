package vector

import (
	"context"
	"encoding/json"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/filter"
)

// DefaultCollection is the collection of a [Key] that names none.
const DefaultCollection = "default"

// Key identifies a collection.
type Key struct {
	// Owner is the principal that the documents belong to. Required.
	Owner string
	// Collection is unique per owner. "" means [DefaultCollection].
	Collection string
}

// Metric is the measure of similarity of a collection.
type Metric string

// The metrics.
const (
	Cosine Metric = "cosine" // score from -1 to 1; the length of vectors does not matter
	Dot    Metric = "dot"    // the score is the inner product
	L2     Metric = "l2"     // the score is 1/(1+distance), from 0 to 1
)

// Document is an entry of a collection.
type Document struct {
	// ID is unique in the collection. Add and Upsert choose one if it is empty.
	ID string
	// Text is embedded, and searched if a search is lexical. It may be empty.
	Text string
	// Blocks is the content as a JSON array, such as parts of a message with files. The store
	// does not interpret it. nil means that there are none.
	Blocks json.RawMessage
	// Embedding is nil if the store shall compute it from Text.
	Embedding []float32
	// Metadata is a JSON object, nil if it is empty. Numbers of stored documents are float64 or,
	// if a float64 is not exact, json.Number.
	Metadata map[string]any
}

// Collection describes a collection.
type Collection struct {
	Name string
	// Metric, Dimension and Embedder were fixed by the first write. A collection with the
	// dimension 0 is lexical. Embedder is "" if the writer of embeddings named none.
	Metric    Metric
	Dimension int
	Embedder  string
	// Documents is the number of documents.
	Documents int64
}

// WriteParams are the documents of a write.
type WriteParams struct {
	// Documents are 1 to [MaxWrite] documents with different ids.
	Documents []Document
	// Remove are ids of documents to remove in the same write, up to [MaxIDs], such as the ids
	// of documents that Documents replace. Ids that do not exist are ignored. None may be the id
	// of one of Documents.
	Remove []string
	// Metric must be the metric of the collection. "" means the metric of the collection,
	// [Cosine] for a new one.
	Metric Metric
	// Embedder is the name of the model that computed the embeddings of the documents. It must be
	// the embedder of the collection. "" states nothing: it is accepted by every collection, and
	// fixes no embedder unless the store computes an embedding.
	Embedder string
}

// Query is what documents are compared with. Exactly one field is set, but a search in [ModeHybrid] may
// have both. Embedding is then the embedding of Text.
type Query struct {
	Embedding []float32
	Text      string
}

// SearchParams select and rank documents.
type SearchParams struct {
	// Mode is the way in which documents are ranked for queries with a text. "" is [ModeSemantic] if the store
	// can embed the text, otherwise [ModeLexical]. Other queries are semantic.
	Mode Mode
	// Queries are 1 to [MaxQueries] queries. The search has one result for each of them.
	Queries []Query
	// Limit is the maximum number of documents per query. 0 means [DefaultLimit].
	Limit int
	// Offset is the number of closest documents to omit, up to [MaxOffset].
	Offset int
	// Filter selects documents by their metadata.
	Filter filter.Filter
	// MinScore excludes documents with a lower score. nil excludes none.
	MinScore *float64
	// GroupBy is the path of a member of the metadata, as in a filter. Of the documents with the
	// same scalar there, only the closest one is returned. A document without a scalar there is a
	// group of its own. A search that is not Exact reads up to [MaxGrouped] documents to find
	// groups; see [Results].
	GroupBy string
	// IncludeEmbedding returns the embeddings of documents.
	IncludeEmbedding bool
	// Exact compares all documents.
	Exact bool
}

// Mode is the way in which documents are ranked.
type Mode string

// The modes.
const (
	ModeSemantic Mode = "semantic" // by embeddings; without one of the text, the search is lexical
	ModeLexical  Mode = "lexical"  // by words, with scores from 0 to 1
	// ModeHybrid fuses the ranks by words and by embeddings, with scores from 0 to 1. Without an
	// embedding of the text, also if the embedder fails, the search is lexical.
	ModeHybrid Mode = "hybrid"
)

// Results are the documents that a query found.
type Results struct {
	// Mode is the way in which the documents were ranked.
	Mode Mode
	// Fallback is the error of the embedder if a hybrid search is lexical because of it, otherwise "".
	Fallback string
	Hits     []Hit
	// Truncated reports that the closest [MaxGrouped] documents have fewer groups than the limit
	// and others were not read. An exact search reads them.
	Truncated bool
}

// Hit is a document with its score. Its Embedding is nil unless the search includes it.
type Hit struct {
	Document
	// Score is larger for closer documents; see [Metric] and [Mode].
	Score float64
	// Scores explains the Score of a lexical or hybrid search.
	Scores Scores
}

// Scores are the parts of a score, each from 0 to 1. A part that the search did not use, or in which the
// document has no rank, is 0. Score is their fusion by reciprocal rank, so it depends on the ranks of the
// document in each part and not on these values.
type Scores struct {
	// Lexical is the BM25 score, relative to the score of a document that contains each word of the query
	// once; at most 1.
	Lexical float64
	// Trigram is the similarity of the document's words to words of the query that no document contains, such
	// as misspelt ones.
	Trigram float64
	// Semantic is the score of the metric, 0 if it is negative: the cosine, the score under [L2], or
	// n/(1+n) for an inner product n.
	Semantic float64
}

// Store stores documents and finds them.
type Store interface {
	// Add stores new documents and returns their ids, in their order. It returns [ErrExists] if
	// the collection has one of the ids, or a [MismatchError].
	Add(ctx context.Context, k Key, p WriteParams) (ids []string, err error)
	// Upsert is Add, but replaces documents with the same ids.
	Upsert(ctx context.Context, k Key, p WriteParams) (ids []string, err error)
	// Get returns the documents with the given ids that exist, in the order of ids. It returns
	// [ErrCollectionNotFound] if the collection does not exist.
	Get(ctx context.Context, k Key, ids []string) ([]Document, error)
	// Delete removes documents and returns the number of those that existed. The collection
	// remains. It returns [ErrCollectionNotFound] if the collection does not exist.
	Delete(ctx context.Context, k Key, ids []string) (removed int, err error)
	// Search returns the closest documents to each query. It returns [ErrCollectionNotFound],
	// or a [MismatchError].
	Search(ctx context.Context, k Key, p SearchParams) ([]Results, error)
	// Collections returns the collections of an owner by name.
	Collections(ctx context.Context, owner string) ([]Collection, error)
	// DeleteCollection removes a collection and returns the number of its documents, 0 if it
	// does not exist.
	DeleteCollection(ctx context.Context, k Key) (removed int, err error)
}

// ListParams select documents in the order of their ids.
type ListParams struct {
	// After continues after an id. "" starts the list.
	After string
	// Limit is the maximum number of documents, as in SearchParams. A page without documents is
	// the last one.
	Limit int
}

// Lister lists documents.
type Lister interface {
	// List returns documents with their embeddings, by id. It returns [ErrCollectionNotFound]
	// if the collection does not exist.
	List(ctx context.Context, k Key, p ListParams) ([]Document, error)
}

// Transactional is implemented by stores that can write as part of a change of a task; see
// [store.Effect]. The methods return the error that Add, Upsert or Delete would return now. The
// effect of a write has its documents with their embeddings: no embedder is called when it is
// applied.
type Transactional interface {
	// AddEffect stores documents like Add. Applying it fails with [ErrExists] or a
	// [MismatchError] if the collection was changed since.
	AddEffect(ctx context.Context, k Key, p WriteParams) (e store.Effect, ids []string, err error)
	// UpsertEffect stores documents like Upsert. Applying it fails with a [MismatchError] if the
	// collection was changed since.
	UpsertEffect(ctx context.Context, k Key, p WriteParams) (e store.Effect, ids []string, err error)
	// DeleteEffect removes documents like Delete. A collection or a document that does not exist
	// is no error.
	DeleteEffect(k Key, ids []string) (store.Effect, error)
}

// Forgetter removes the data of a principal.
type Forgetter interface {
	// ForgetOwner removes all collections of an owner and returns the number of their documents.
	ForgetOwner(ctx context.Context, owner string) (removed int, err error)
}

// Embedder computes embeddings. Methods are safe for concurrent use.
type Embedder interface {
	// Name identifies the model. Embeddings of different names are not compared.
	Name() string
	// Embed returns an embedding for each text, all of the same dimension.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Config contains the parts of a store that it does not have itself. The zero value is valid.
type Config struct {
	// Embedder computes embeddings of texts. If it is nil, documents without embeddings and
	// queries with a text are lexical.
	Embedder Embedder
}
