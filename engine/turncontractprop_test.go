package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/documents"
)

// contractKinds are the operations of TestStateEqualsUninterruptedRun on transcripts, facts and blobs.
var contractKinds = []string{
	"append", "append", "append", "tail", "messages", "count", "clearTranscript", "clearTask",
	"remember", "remember", "rememberKey", "recall", "forget", "put", "put", "read", "deleteBlob",
}

var documentKinds = []string{"upsert", "upsert", "addDocuments", "deleteDocuments", "searchDocuments", "getDocuments"}

var graphKinds = []string{"addEntities", "addEntities", "relate", "relate", "end", "deleteEntity", "walk"}

// contractParts are the parts of a store.
type contractParts interface {
	sqlkit.Source
}

// vectorsOf returns the documents of a store, nil if it has none.
func vectorsOf(s any) vector.Store {
	if p, ok := s.(interface {
		Vectors(cfg vector.Config) vector.Store
	}); ok {
		return p.Vectors(vector.Config{Embedder: letters{}})
	}
	return nil
}

func (p *process) Vectors(vector.Config) vector.Store { return p.documents }

func (p *process) SQL() sqlkit.DB { return sqlkit.Of(p.Store) }

// onContract runs an operation on the transcript, facts or blobs.
func (a *stateAttempt) onContract(ctx context.Context, o *stateOp) (result any, err error) {
	text := fmt.Sprintf("%d %s", o.id, lastOf(a.seen))
	switch o.kind {
	case "append", "tail", "messages", "count", "clearTranscript", "clearTask":
		result, err = onTranscript(ctx, transcripts.For(a.turn.Contracts()), o, text)
	case "put", "read", "deleteBlob":
		result, err = a.onBlobs(ctx, o)
	default:
		if slices.Contains(documentKinds, o.kind) {
			return a.onDocuments(ctx, o, text)
		}
		if slices.Contains(graphKinds, o.kind) {
			return a.onGraph(ctx, o, text)
		}
		result, err = a.onFacts(ctx, o)
	}
	return result, err
}

func onTranscript(ctx context.Context, s *transcripts.Transcript, o *stateOp, text string) (any, error) {
	switch o.kind {
	case "append":
		messages := []history.Message{{Role: "user", Body: fmt.Appendf(nil, "%q", text)}}
		if o.n%3 == 0 {
			messages = append(messages, history.Message{Body: []byte(`{"a" : "<b>"}`)})
		}
		return nil, s.Append(ctx, messages...)
	case "tail":
		all, err := s.Tail(ctx, 1+o.n%5)
		return plainMessages(all), err
	case "messages":
		all, err := s.Messages(ctx, o.n%4, o.n%3)
		return plainMessages(all), err
	case "count":
		return s.Count(ctx)
	case "clearTask":
		return nil, s.ClearTask(ctx)
	}
	if o.n%3 > 0 {
		return nil, nil
	}
	return nil, s.Clear(ctx)
}

func plainMessages(all []history.Message) []string {
	texts := []string{}
	for _, m := range all {
		texts = append(texts, fmt.Sprintf("%s %s", m.Role, m.Body))
	}
	return texts
}

func (a *stateAttempt) onFacts(ctx context.Context, o *stateOp) (any, error) {
	p := facts.RememberParams{Namespace: a.turn.ContextID(), Metadata: map[string]any{"id": o.id}}
	content := fmt.Sprint("fact ", o.n%4)
	switch o.kind {
	case "remember":
		return nil, facts.For(a.turn.Contracts()).Remember(ctx, content, p)
	case "rememberKey":
		p.Key = fmt.Sprint("key", o.n%2)
		return nil, facts.For(a.turn.Contracts()).Remember(ctx, content, p)
	}
	found, err := facts.For(a.turn.Contracts()).Recall(ctx, "", facts.RecallParams{Namespace: a.turn.ContextID(), Limit: 1000})
	if err != nil || o.kind == "recall" {
		return plainFacts(found), err
	}
	for _, m := range found {
		if m.Content == content {
			if err := facts.For(a.turn.Contracts()).Forget(ctx, a.turn.ContextID(), m.ID); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// onGraph writes entities and relationships that depend on what the handler has read, and reads all of
// them.
func (a *stateAttempt) onGraph(ctx context.Context, o *stateOp, text string) (any, error) {
	g := graphs.For(a.turn.Contracts(), a.turn.ContextID())
	id, other := fmt.Sprint("n", o.n%5), fmt.Sprint("n", o.n/5%5)
	switch o.kind {
	case "addEntities":
		entities, _, err := g.Write(ctx, graph.Batch{Entities: []graph.Entity{{ID: id, Label: "N", Properties: map[string]any{"name": text}}, {Label: "M"}}})
		return len(entities), err
	case "relate":
		r := graph.Relationship{ID: fmt.Sprint("r", o.n%7), Source: id, Target: other, Type: "to", Properties: map[string]any{"of": float64(o.id)}}
		_, ids, err := g.Write(ctx, graph.Batch{Relationships: []graph.Relationship{r, {Source: id, Target: id, Type: "is"}}})
		if errors.Is(err, graph.ErrEndpointNotFound) || errors.Is(err, graph.ErrConflict) {
			return "rejected", nil
		}
		return len(ids), err
	case "end":
		_, _, err := g.Write(ctx, graph.Batch{Ends: []graph.End{{ID: fmt.Sprint("r", o.n%7), At: time.Unix(1, 0)}}})
		if errors.Is(err, graph.ErrRelationshipNotFound) {
			return "none", nil
		}
		return nil, err
	case "deleteEntity":
		return nil, g.Delete(ctx, id)
	}
	found, err := g.Neighbors(ctx, graph.NeighborParams{IDs: []string{"n0", "n1", "n2", "n3", "n4"}, Depth: 3, Walk: graph.Walk{Moment: graph.Moment{AnyTime: true}}})
	return plainGraph(found), err
}

// plainGraph returns a part of a graph without what depends on time, and without ids that differ between
// runs.
func plainGraph(s graph.SubGraph) []string {
	texts := []string{}
	for _, e := range s.Entities {
		texts = append(texts, fmt.Sprintf("%s %s %v", e.ID, e.Label, e.Properties["name"]))
	}
	for _, r := range s.Relationships {
		id, version := r.ID, r.Version
		if strings.HasPrefix(id, "turn/") {
			id = "turn"
		}
		texts = append(texts, fmt.Sprintf("%s %s %s %v %t %d", id, r.Source, r.Target, r.Properties["of"], r.ValidTo.IsZero(), version))
	}
	slices.Sort(texts)
	return texts
}

// noData is the data of a context without any; see contractData.
func noData() map[string]any {
	return map[string]any{"transcript": []string{}, "facts": []string{}, "blobs": []string{}, "documents": []string{}, "graph": []string{"0 without relationships"}}
}

// contextGraph returns the graph of a context.
func contextGraph(t *testing.T, s graph.Store, contextID string) []string {
	t.Helper()
	k := graph.Key{Owner: alice.ID, Graph: contextID}
	entities, err := s.FindEntities(t.Context(), k, graph.FindParams{Labels: []string{"M"}, Limit: graph.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.Neighbors(t.Context(), k, graph.NeighborParams{IDs: []string{"n0", "n1", "n2", "n3", "n4"}, Depth: 3, Walk: graph.Walk{Moment: graph.Moment{AnyTime: true}}})
	if err != nil {
		t.Fatal(err)
	}
	return append(plainGraph(found), fmt.Sprint(len(entities), " without relationships"))
}

// letters is an embedder with a component for each of some letters.
type letters struct{}

func (letters) Name() string { return "letters" }

func (letters) Embed(_ context.Context, texts []string) (all [][]float32, err error) {
	for _, text := range texts {
		v := []float32{1, 0, 0, 0}
		for _, c := range text {
			v[1+int(c)%3]++
		}
		all = append(all, v)
	}
	return all, nil
}

// onDocuments writes documents that depend on what the handler has read, and reads all of them.
func (a *stateAttempt) onDocuments(ctx context.Context, o *stateOp, text string) (any, error) {
	d := documents.For(a.turn.Contracts(), a.turn.ContextID())
	id := fmt.Sprint("d", o.n%5)
	switch o.kind {
	case "upsert":
		p := vector.WriteParams{Documents: []vector.Document{{ID: id, Text: text, Metadata: map[string]any{"id": o.id}}, {ID: fmt.Sprint("e", o.n%7), Text: text}}}
		if o.n%2 == 0 {
			p.Remove = []string{fmt.Sprint("d", 1+o.n%5), "missing"}
			p.Documents = p.Documents[1:]
		}
		return d.Upsert(ctx, p)
	case "addDocuments":
		ids, err := d.Add(ctx, vector.WriteParams{Documents: []vector.Document{{Text: text}, {Text: text + "!"}}})
		return len(ids), err
	case "deleteDocuments":
		return nil, d.Delete(ctx, id, fmt.Sprint("e", o.n%7))
	case "getDocuments":
		found, err := d.Get(ctx, "e0", id, "e1")
		if errors.Is(err, vector.ErrCollectionNotFound) {
			return "none", nil
		}
		return plainDocuments(found), err
	}
	all, err := d.Search(ctx, vector.SearchParams{Queries: []vector.Query{{Text: "query"}}, Limit: 1000, Exact: true})
	if errors.Is(err, vector.ErrCollectionNotFound) {
		return "none", nil
	}
	if err != nil {
		return nil, err
	}
	var found []vector.Document
	for _, h := range all[0].Hits {
		found = append(found, h.Document)
	}
	return plainDocuments(found), err
}

// plainDocuments returns documents without ids that differ between runs.
func plainDocuments(found []vector.Document) []string {
	texts := []string{}
	for _, d := range found {
		id := d.ID
		if strings.HasPrefix(id, "turn/") {
			id = "turn"
		}
		texts = append(texts, fmt.Sprintf("%s %s %v", id, d.Text, d.Metadata["id"]))
	}
	slices.Sort(texts)
	return texts
}

// contextDocuments returns the documents of a context. The index has the same ones.
func contextDocuments(t *testing.T, s vector.Store, contextID string) []string {
	t.Helper()
	k := vector.Key{Owner: alice.ID, Collection: contextID}
	all, err := s.(vector.Lister).List(t.Context(), k, vector.ListParams{Limit: vector.MaxLimit})
	if errors.Is(err, vector.ErrCollectionNotFound) {
		return []string{}
	}
	if err != nil {
		t.Fatal(err)
	}
	results, err := s.Search(t.Context(), k, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{1, 1, 1, 1}}}, Limit: vector.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	var found []vector.Document
	for _, h := range results[0].Hits {
		found = append(found, h.Document)
	}
	stored := plainDocuments(all)
	if indexed := plainDocuments(found); !slices.Equal(indexed, stored) {
		t.Errorf("documents in the index are %q, stored %q", indexed, stored)
	}
	return stored
}

// plainFacts returns facts without what depends on time.
func plainFacts(found []memory.Memory) []string {
	texts := []string{}
	for _, m := range found {
		texts = append(texts, fmt.Sprintf("%s %v %s", m.Content, m.Metadata["id"], strings.TrimLeft(m.Key, "0123456789abcdef/nrtu")))
	}
	slices.Sort(texts)
	return texts
}

func (a *stateAttempt) onBlobs(ctx context.Context, o *stateOp) (any, error) {
	name := a.turn.ContextID() + "/" + fmt.Sprint(o.id)
	if o.kind == "put" {
		info, err := blobs.For(a.turn.Contracts()).Put(ctx, strings.NewReader(name), blobs.Params{Name: name})
		if err == nil {
			a.refs = append(a.refs, info.Ref)
		}
		return info.Size, err
	}
	if len(a.refs) == 0 {
		return nil, nil
	}
	ref := a.refs[o.n%len(a.refs)]
	if o.kind == "deleteBlob" {
		return nil, blobs.For(a.turn.Contracts()).Delete(ctx, ref)
	}
	if info, err := blobs.For(a.turn.Contracts()).Stat(ctx, ref); err != nil {
		return nil, err
	} else if len(info.Holders) != 1 || info.Holders[0] != "task/"+a.turn.TaskID() {
		return nil, fmt.Errorf("blob has holders %q", info.Holders)
	}
	// Content is not recorded: a later commit of an earlier attempt may have deleted it.
	r, _, err := blobs.For(a.turn.Contracts()).Open(ctx, ref)
	if err != nil {
		return "read", nil
	}
	defer r.Close()
	var content bytes.Buffer
	if _, err := io.Copy(&content, r); err != nil || !strings.HasPrefix(content.String(), a.turn.ContextID()) {
		return nil, fmt.Errorf("content is %q, %w", content.String(), err)
	}
	return "read", nil
}

// contractData returns what the context has in the transcript, facts and blobs of a store.
func contractData(t *testing.T, s contractParts, contextID string) map[string]any {
	t.Helper()
	k := history.Key{Owner: alice.ID, Agent: "agent", Session: contextID}
	messages, err := historysql.Of(s).Messages(t.Context(), k, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := memorysql.Of(s, memory.LongTermConfig{}).Search(t.Context(), memory.Scope{Owner: alice.ID, Agent: "agent", Namespace: contextID}, memory.SearchParams{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	blobs := []string{}
	p := blob.ListParams{Owner: alice.ID, Limit: blob.MaxPage}
	for more := true; more; {
		page, err := blobsql.Of(s, blob.Config{}).List(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		more = page.More
		for _, b := range page.Blobs {
			p.After = b.Ref
			if strings.HasPrefix(b.Name, contextID+"/") {
				blobs = append(blobs, b.Name)
			}
		}
	}
	slices.Sort(blobs)
	documents := []string{}
	if d := vectorsOf(s); d != nil {
		documents = contextDocuments(t, d, contextID)
	}
	return map[string]any{"transcript": plainMessages(messages), "facts": plainFacts(facts.Facts), "blobs": blobs, "documents": documents, "graph": contextGraph(t, graphsql.Of(s, nil), contextID)}
}

// foreignStore is a store outside of the agent's database. Calls of a killed process have no effect,
// and at random calls have none or their answers are lost.
type foreignStore struct {
	contractParts
	proc *process
	mu   *sync.Mutex
	r    *rand.Rand
}

func newForeignStore(parts contractParts, proc *process, seed uint64) *foreignStore {
	return &foreignStore{parts, proc, new(sync.Mutex), rand.New(rand.NewPCG(seed, 3))}
}

func (f *foreignStore) contracts() engine.Contracts {
	return engine.Contracts{Stores: []contract.Store{transcripts.Of(&foreignHistory{historysql.Of(f), f}), facts.Of(&foreignFacts{memorysql.Of(f, memory.LongTermConfig{}), f}), blobs.Of(&foreignBlobs{blobsql.Of(f, blob.Config{}), f}), documents.Of(&foreignDocuments{vectorsOf(f.contractParts), f}), graphs.Of(&foreignGraphs{graphsql.Of(f, nil), f})}}
}

func onForeign[R any](f *foreignStore, do func() (R, error)) (r R, err error) {
	f.mu.Lock()
	fault := f.r.IntN(25)
	f.mu.Unlock()
	lost := a2a.Errorf(a2a.CodeUnavailable, "no answer")
	if f.proc.isKilled() || fault == 0 {
		return r, lost
	}
	if r, err = do(); fault == 1 {
		var none R
		return none, lost
	}
	return r, err
}

type foreignHistory struct {
	history.Provider
	f *foreignStore
}

func (h *foreignHistory) Append(ctx context.Context, k history.Key, p history.AppendParams) (history.AppendResult, error) {
	return onForeign(h.f, func() (history.AppendResult, error) { return h.Provider.Append(ctx, k, p) })
}

func (h *foreignHistory) Clear(ctx context.Context, k history.Key) error {
	_, err := onForeign(h.f, func() (int, error) { return 0, h.Provider.Clear(ctx, k) })
	return err
}

func (h *foreignHistory) ClearRun(ctx context.Context, k history.Key, run string, fence int64) (int64, error) {
	return onForeign(h.f, func() (int64, error) { return h.Provider.ClearRun(ctx, k, run, fence) })
}

type foreignFacts struct {
	memory.LongTermStore
	f *foreignStore
}

func (m *foreignFacts) Save(ctx context.Context, scope memory.Scope, content string, p memory.SaveParams) (string, error) {
	return onForeign(m.f, func() (string, error) { return m.LongTermStore.Save(ctx, scope, content, p) })
}

func (m *foreignFacts) Delete(ctx context.Context, scope memory.Scope, id string) (bool, error) {
	return onForeign(m.f, func() (bool, error) { return m.LongTermStore.Delete(ctx, scope, id) })
}

type foreignBlobs struct {
	blob.Store
	f *foreignStore
}

func (b *foreignBlobs) Put(ctx context.Context, r io.Reader, p blob.PutParams) (blob.Info, error) {
	return onForeign(b.f, func() (blob.Info, error) { return b.Store.Put(ctx, r, p) })
}

func (b *foreignBlobs) Delete(ctx context.Context, owner, ref string) error {
	_, err := onForeign(b.f, func() (int, error) { return 0, b.Store.Delete(ctx, owner, ref) })
	return err
}

type foreignDocuments struct {
	vector.Store
	f *foreignStore
}

func (d *foreignDocuments) Add(ctx context.Context, k vector.Key, p vector.WriteParams) ([]string, error) {
	return onForeign(d.f, func() ([]string, error) { return d.Store.Add(ctx, k, p) })
}

func (d *foreignDocuments) Upsert(ctx context.Context, k vector.Key, p vector.WriteParams) ([]string, error) {
	return onForeign(d.f, func() ([]string, error) { return d.Store.Upsert(ctx, k, p) })
}

func (d *foreignDocuments) Delete(ctx context.Context, k vector.Key, ids []string) (int, error) {
	return onForeign(d.f, func() (int, error) { return d.Store.Delete(ctx, k, ids) })
}

type foreignGraphs struct {
	graph.Store
	f *foreignStore
}

func (g *foreignGraphs) Write(ctx context.Context, k graph.Key, b graph.Batch) (graph.Result, error) {
	return onForeign(g.f, func() (graph.Result, error) { return g.Store.Write(ctx, k, b) })
}

// openForeign opens a store that is not the agent's.
func openForeign(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
