package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/filter"
)

// Errors of long-term memory.
var (
	// ErrFactNotFound: the fact does not exist in the scope, has expired, or is not valid at
	// the time of the read. It is a store.ErrNotFound.
	ErrFactNotFound = fmt.Errorf("memory: fact %w", store.ErrNotFound)
	// ErrFactConflict: the version of the fact differs from the expected one.
	ErrFactConflict error = a2a.Errorf(a2a.CodeConflict, "memory: fact version conflict")
	// ErrNoEmbedder: the search mode needs an embedder.
	ErrNoEmbedder error = a2a.Errorf(a2a.CodeUnsupported, "memory: mode: no embedder is configured; set EMBEDDING_URL and EMBEDDING_MODEL, or the embedder of the store")
)

// DefaultNamespace is the namespace of a [Scope] that names none.
const DefaultNamespace = "default"

// Scope is the set of facts that an operation reads or changes. Facts of other scopes do not
// exist for it.
type Scope struct {
	// Owner is the principal that the facts belong to. Required.
	Owner string
	// Namespace divides the facts of an agent, as in "users/ravi". A slash separates its
	// levels. "" means [DefaultNamespace].
	Namespace string
	// Agent is the agent that keeps the facts. Required.
	Agent string
}

// Memory is a version of a fact.
type Memory struct {
	// ID identifies the fact within its scope, in all its versions.
	ID    string
	Scope Scope
	// Key is the name that the fact was saved under, "" if it has none.
	Key     string
	Content string
	// Metadata is a JSON object, nil if it is empty. Numbers are float64 or, if a float64 is
	// not exact, json.Number. It belongs to the caller.
	Metadata map[string]any
	// Entities are the names of what the fact is about, in the order of SaveParams.
	Entities []string
	// Version is 1 for a new fact. Each change increments it.
	Version int64
	// CreatedAt is when the fact was saved, UpdatedAt when this version was.
	CreatedAt, UpdatedAt time.Time
	// ReplacedAt is when Update or Save replaced this version. Only History returns such
	// versions.
	ReplacedAt time.Time
	// ValidFrom and ValidTo are the interval in which this version is true: from ValidFrom,
	// until before ValidTo. The zero time means no bound.
	ValidFrom, ValidTo time.Time
	// ExpiresAt is when the fact is removed with all its versions. The zero time means never.
	ExpiresAt time.Time
	// Score is the relevance to the query, from 0 to 1. It is set by Search only.
	Score float64
	// Scores explains Score.
	Scores Scores
}

// Scores are the parts of a score, each from 0 to 1. A part that the search did not use, or in
// which the fact has no rank, is 0. Score is their fusion by reciprocal rank, so it depends on
// the ranks of the fact in each part and not on these values.
type Scores struct {
	// Lexical is the BM25 score, relative to the score of a fact that contains each word of
	// the query once; at most 1.
	Lexical float64
	// Trigram is the similarity of the fact's words to words of the query that no fact of the
	// scope contains, such as misspelt ones.
	Trigram float64
	// Semantic is the cosine of the embeddings of query and fact, 0 if it is negative.
	Semantic float64
	// Graph is 1/(1+n), where n is the distance of the closest entity of the fact from one that
	// the query names.
	Graph float64
	// Recency is 1 for a new fact. It halves with each SearchParams.RecencyHalfLife.
	Recency float64
}

// Mode is a kind of search.
type Mode string

// The modes. "" is the fusion of those that the memory has: lexical and graph and, with an embedder,
// semantic.
const (
	ModeLexical  Mode = "lexical"  // by words, and by their trigrams for unknown words
	ModeSemantic Mode = "semantic" // by meaning; needs an embedder
	ModeGraph    Mode = "graph"    // by entities that the query names, and those up to two steps from them
	ModeHybrid   Mode = "hybrid"   // all of them; needs an embedder
)

// NeedsEmbedder reports whether a search in this mode returns [ErrNoEmbedder] without an embedder.
func (m Mode) NeedsEmbedder() bool { return m == ModeSemantic || m == ModeHybrid }

// MaxDistance is the number of steps from entities of a query to entities of facts that a search
// finds.
const MaxDistance = 2

// Embedder computes embeddings. Methods are safe for concurrent use. A vector.Embedder is one.
type Embedder interface {
	// Name identifies the model. Embeddings of different names are not compared.
	Name() string
	// Embed returns an embedding for each text, all of the same dimension.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// LongTermConfig configures the long-term memory of a store. The zero value is valid.
type LongTermConfig struct {
	// Now returns the current time. nil means time.Now.
	Now func() time.Time
	// Embedder computes the embeddings of facts and queries. nil means that facts are found by their
	// words and entities only.
	Embedder Embedder
}

// SaveParams are the parameters of Save. The zero value saves a fact that is valid and kept
// without limit.
type SaveParams struct {
	// TTL is how long the fact is stored. 0 stores it without limit.
	TTL time.Duration
	// Metadata is a JSON object.
	Metadata map[string]any
	// Entities are names of what the fact is about, such as persons and projects, up to
	// [MaxEntities]. Names are equal if their words have the same stems. Entities of the same fact
	// are one step from each other.
	Entities []string
	// Key names the fact. If the scope has a fact of this name, Save replaces its newest
	// version. "" adds a fact without a name.
	Key string
	// ValidFrom and ValidTo limit the time in which the fact is true; see Memory. If Save
	// replaces a version, the zero time keeps its bound, and ValidFrom must not be before it.
	ValidFrom, ValidTo time.Time
}

// SearchParams are the parameters of Search.
type SearchParams struct {
	// Query is the text to search. If it is empty, Search returns the most recent facts, with
	// score 1.
	Query string
	// Limit is the maximum number of results. 0 and less mean [DefaultLimit]; more than
	// [MaxLimit] means MaxLimit.
	Limit int
	// Filter selects facts by their metadata.
	Filter filter.Filter
	// MinScore excludes facts with a lower score.
	MinScore float64
	// AsOf searches the versions that were valid at this time. The zero time means now.
	AsOf time.Time
	// Mode is the kind of search. "" is the best one that the memory has.
	Mode Mode
	// RecencyHalfLife prefers facts with a newer UpdatedAt: a fact gains up to a sixth of the score,
	// and half of that after this time. 0 does not prefer them.
	RecencyHalfLife time.Duration
}

// Results are the facts that a search found.
type Results struct {
	Facts []Memory
	// Modes are the kinds of search that contributed ranks, without ModeHybrid. It is nil for an
	// empty query.
	Modes []Mode
	// Fallback is the reason why the search used words in place of embeddings, such as an embedder
	// that does not respond. "" means that it used all that its mode has.
	Fallback string
	// Pending is the number of facts in the scope that have no embedding of the model yet, if the
	// search compared embeddings. They are found by their words and entities.
	Pending int
}

// LongTerm stores facts and finds them by their text. Methods are safe for concurrent use.
// Arguments are copied, and results belong to the caller.
//
// Every method returns an error with code invalid_params that names the parameter and the rule
// if a parameter is not valid. Any other error that is not documented is one of the store; the
// outcome of a write is then unknown. A fact that has expired does not exist for any method,
// also before [Expirer] removes it.
type LongTerm interface {
	// Save stores a fact and returns its id. A repeated Save with the same key and the same content,
	// metadata, entities and validity adds no version, but sets the time of expiry anew. If the
	// memory has an embedder, the embedding of the content is stored with the fact. If the embedder
	// fails, the fact is stored without an embedding; see [Reembedder].
	Save(ctx context.Context, scope Scope, content string, p SaveParams) (id string, err error)
	// Search returns the facts that match, by falling score. Facts of the same score are
	// ordered by UpdatedAt, newest first; of the same millisecond, the fact saved last is first.
	// Validity, expiry and filter apply before ranks: Search returns fewer facts than the limit only
	// if no more match. Every fact with an embedding matches semantically. Search returns
	// ErrNoEmbedder for a mode that needs one.
	Search(ctx context.Context, scope Scope, p SearchParams) (Results, error)
	// Get returns the version of a fact that is valid now, or ErrFactNotFound.
	Get(ctx context.Context, scope Scope, id string) (Memory, error)
	// Delete removes a fact with all its versions, and reports whether it existed.
	Delete(ctx context.Context, scope Scope, id string) (deleted bool, err error)
	// Clear removes all facts of the scope and returns their number. Namespaces below the
	// scope's namespace are not affected. Facts that are saved meanwhile may remain. After an
	// error, some facts may have been removed.
	Clear(ctx context.Context, scope Scope) (removed int, err error)
}

// UpdateParams are the parameters of Update and Supersede.
type UpdateParams struct {
	// Content is the new content. "" keeps the content of the newest version.
	Content string
	// Metadata replaces the metadata. nil keeps the metadata of the newest version.
	Metadata map[string]any
	// Entities replace the entities. nil keeps the entities of the newest version.
	Entities []string
	// Version must equal the version of the fact. 0 changes any version.
	Version int64
}

// Editor changes facts.
type Editor interface {
	// Update corrects a fact: it replaces the newest version by one with the same validity, and
	// returns the new version. It returns ErrFactNotFound, or ErrFactConflict.
	Update(ctx context.Context, scope Scope, id string, p UpdateParams) (Memory, error)
	// Supersede changes a fact from a time on: it ends the validity of the newest version at this
	// time, and adds a version that is valid from then on. The zero time means now. Reads as of an
	// earlier time still find the previous version. It returns the new version, ErrFactNotFound, or
	// ErrFactConflict. at must be after ValidFrom of the newest version and before its ValidTo,
	// which the new version inherits.
	Supersede(ctx context.Context, scope Scope, id string, at time.Time, p UpdateParams) (Memory, error)
}

// Historian reads earlier versions of facts.
type Historian interface {
	// History returns all versions of a fact, oldest first, or ErrFactNotFound.
	History(ctx context.Context, scope Scope, id string) ([]Memory, error)
	// GetAsOf returns the version of a fact that was valid at a time, or ErrFactNotFound.
	GetAsOf(ctx context.Context, scope Scope, id string, at time.Time) (Memory, error)
}

// NamespaceQuery selects namespaces of an owner.
type NamespaceQuery struct {
	Owner, Agent string
	// Prefix selects the namespace of this name and those below it. "" selects all.
	Prefix string
	// After continues after a namespace. "" starts the list.
	After string
	// Limit is the maximum number of results, as in SearchParams.
	Limit int
}

// NamespaceLister lists namespaces.
type NamespaceLister interface {
	// Namespaces returns the namespaces that have facts, in the order of their bytes.
	Namespaces(ctx context.Context, q NamespaceQuery) ([]string, error)
}

// ForgetReport counts removed data.
type ForgetReport struct {
	Facts, Versions int
}

// Forgetter removes the facts of a principal.
type Forgetter interface {
	// ForgetSubject removes all facts of an owner, of all agents and namespaces. After an error, the
	// report counts the facts that were removed.
	ForgetSubject(ctx context.Context, owner string) (ForgetReport, error)
}

// Expirer removes expired facts.
type Expirer interface {
	// Expire removes up to limit facts that expired at or before now, and returns their number.
	Expire(ctx context.Context, now time.Time, limit int) (removed int, err error)
}

// Reembedder computes the embeddings of facts that have no embedding of the current model, because
// they were saved without an embedder, with another model, by an import, or while the embedder
// failed.
type Reembedder interface {
	// EmbedPending computes the embeddings of up to limit such facts, of all owners, and returns their
	// number. Fewer than limit means that no more exist. If the model rejects the content of a fact,
	// the fact counts too and remains without an embedding. It returns ErrNoEmbedder without an
	// embedder.
	EmbedPending(ctx context.Context, limit int) (embedded int, err error)
}

// Transactional is implemented by stores that can write as part of a change of a task; see
// [store.Effect]. The methods return an error if their arguments are invalid.
type Transactional interface {
	// SaveEffect saves a fact like Save. It computes the embedding; applying the effect does not.
	// Applying it fails if the fact has a key and its validity does not fit the validity of the
	// version to replace.
	SaveEffect(ctx context.Context, scope Scope, content string, p SaveParams) (store.Effect, error)
	// DeleteEffect removes a fact like Delete. A fact that does not exist is no error.
	DeleteEffect(scope Scope, id string) (store.Effect, error)
}

// LongTermStore is all of long-term memory. The stores of Holdfast implement it.
type LongTermStore interface {
	LongTerm
	Editor
	Historian
	NamespaceLister
	Forgetter
	Expirer
	Reembedder
}
