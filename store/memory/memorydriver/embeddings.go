package memorydriver

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/memory"
)

const (
	// embedTimeout limits a call of an embedder, so that an embedder that is down does not delay a
	// save for longer.
	embedTimeout = 10 * time.Second
	// embedPause is how long an embedder is not called after a failure.
	embedPause = 10 * time.Second
	// maxComponents limits the dimension of embeddings.
	maxComponents = 16384
)

// Embedding is the position of a text. Embeddings of different models are not compared.
type Embedding struct {
	// Model is the name of the embedder and the dimension, so that a model which changes its dimension
	// is another one.
	Model string
	// Vector has the length 1. It is nil if the model rejects the text.
	Vector []float32
}

// Cosine returns the cosine of the angle between two embeddings of the same model.
func (e Embedding) Cosine(v []float32) float64 {
	var sums [4]float64 // four at a time, which is faster
	a, b := e.Vector, v[:len(e.Vector)]
	for len(a) >= 4 && len(b) >= 4 {
		sums[0] += float64(a[0]) * float64(b[0])
		sums[1] += float64(a[1]) * float64(b[1])
		sums[2] += float64(a[2]) * float64(b[2])
		sums[3] += float64(a[3]) * float64(b[3])
		a, b = a[4:], b[4:]
	}
	for i := range a {
		sums[0] += float64(a[i]) * float64(b[i])
	}
	return sums[0] + sums[1] + sums[2] + sums[3]
}

// Embeddings computes embeddings for a store. It is safe for concurrent use.
type Embeddings struct {
	embedder memory.Embedder
	now      func() time.Time

	mu     sync.Mutex
	model  string    // of the last embedding
	failed error     // of the last call
	until  time.Time // the embedder is not called before
}

// NewEmbeddings returns the embeddings of a store.
func NewEmbeddings(cfg memory.LongTermConfig) *Embeddings {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Embeddings{embedder: cfg.Embedder, now: cfg.Now}
}

// Plan is how a search ranks facts.
type Plan struct {
	Lexical, Graph bool
	// Embedding is the embedding of the query, nil if embeddings are not compared.
	Embedding *Embedding
	// Fallback is as in [memory.Results].
	Fallback string
}

// Modes returns the kinds of search of the plan.
func (p *Plan) Modes() (modes []memory.Mode) {
	if p.Lexical {
		modes = append(modes, memory.ModeLexical)
	}
	if p.Embedding != nil {
		modes = append(modes, memory.ModeSemantic)
	}
	if p.Graph {
		modes = append(modes, memory.ModeGraph)
	}
	return modes
}

// Plan returns how a search ranks facts, or [memory.ErrNoEmbedder]. p was checked.
func (e *Embeddings) Plan(ctx context.Context, p memory.SearchParams) (Plan, error) {
	plan := Plan{
		Lexical: p.Mode != memory.ModeSemantic && p.Mode != memory.ModeGraph,
		Graph:   p.Mode != memory.ModeSemantic && p.Mode != memory.ModeLexical,
	}
	switch {
	case e.embedder == nil && p.Mode.NeedsEmbedder():
		return plan, memory.ErrNoEmbedder
	case e.embedder == nil || p.Mode == memory.ModeLexical || p.Mode == memory.ModeGraph || p.Query == "":
		return plan, nil
	}
	all, err := e.embed(ctx, []string{p.Query})
	switch {
	case err == nil:
		plan.Embedding = &all[0]
	case ctx.Err() != nil:
		return plan, context.Cause(ctx)
	default:
		plan.Lexical, plan.Fallback = true, err.Error()
	}
	return plan, nil
}

// Content returns the embedding of the content of a fact, which is saved with it. It returns no
// embedding without an embedder, or if the embedder fails: the fact is saved all the same.
func (e *Embeddings) Content(ctx context.Context, content string) (Embedding, error) {
	if e.embedder == nil {
		return Embedding{}, nil
	}
	all, err := e.embed(ctx, []string{content})
	if err == nil {
		return all[0], nil
	}
	if ctx.Err() != nil {
		return Embedding{}, context.Cause(ctx)
	}
	return Embedding{}, nil
}

// Models returns the smallest and the greatest name that the model of embeddings may have, or
// [memory.ErrNoEmbedder]. They are equal once an embedding has shown the dimension. Facts of other models are
// pending.
func (e *Embeddings) Models() (first, last string, err error) {
	if e.embedder == nil {
		return "", "", memory.ErrNoEmbedder
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.model != "" {
		return e.model, e.model, nil
	}
	return e.name() + "/", e.name() + "/:", nil // ':' is after the digits
}

func (e *Embeddings) name() string {
	return strings.ReplaceAll(strings.ToValidUTF8(e.embedder.Name(), "?"), "\x00", "?")
}

// rejected returns the model of a text that it rejects.
func (e *Embeddings) rejected(ctx context.Context) (string, error) {
	if first, last, err := e.Models(); first == last || err != nil {
		return first, err
	}
	all, err := e.embed(ctx, []string{"fact"}) // shows the dimension
	if err != nil {
		return "", err
	}
	return all[0].Model, nil
}

// Contents returns the embeddings of contents, without a vector for those that the model rejects.
func (e *Embeddings) Contents(ctx context.Context, contents []string) ([]Embedding, error) {
	all, err := e.embed(ctx, contents)
	if a2a.CodeOf(err) != a2a.CodeInvalid {
		return all, err
	}
	if len(contents) == 1 {
		model, err := e.rejected(ctx)
		return []Embedding{{Model: model}}, err
	}
	all = all[:0]
	for i := range contents {
		one, err := e.Contents(ctx, contents[i:i+1])
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

// embed calls the embedder, unless it has just failed. Its errors name the embedder. The error of
// texts that it rejects has the code invalid_params.
func (e *Embeddings) embed(ctx context.Context, texts []string) ([]Embedding, error) {
	e.mu.Lock()
	err := e.failed
	wait := e.now().Before(e.until)
	e.mu.Unlock()
	if err != nil && wait {
		return nil, err
	}
	call, cancel := context.WithTimeout(ctx, embedTimeout)
	defer cancel()
	vectors, err := e.embedder.Embed(call, slices.Clone(texts))
	var all []Embedding
	if err == nil {
		all, err = e.check(vectors, len(texts))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil:
		e.failed, e.model = nil, all[0].Model
		return all, nil
	case a2a.CodeOf(err) == a2a.CodeInvalid:
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "memory: embedder %.64q: %v", e.embedder.Name(), err)
	}
	err = a2a.Wrap(a2a.CodeUnavailable, err, "memory: embedder %.64q: %v", e.embedder.Name(), err)
	if ctx.Err() == nil {
		e.failed, e.until = err, e.now().Add(embedPause)
	}
	return nil, err
}

// check returns vectors as embeddings.
func (e *Embeddings) check(vectors [][]float32, texts int) ([]Embedding, error) {
	if len(vectors) != texts {
		return nil, fmt.Errorf("returned %d embeddings for %d texts", len(vectors), texts)
	}
	all := make([]Embedding, texts)
	for i, v := range vectors {
		if len(v) == 0 || len(v) > maxComponents || len(v) != len(vectors[0]) {
			return nil, fmt.Errorf("text %d: returned %d components, want 1 to %d and the same for all texts", i, len(v), maxComponents)
		}
		unit, err := unitVector(v)
		if err != nil {
			return nil, fmt.Errorf("text %d: %w", i, err)
		}
		all[i] = Embedding{fmt.Sprintf("%s/%d", e.name(), len(v)), unit}
	}
	return all, nil
}

// unitVector returns a vector of the length 1.
func unitVector(v []float32) ([]float32, error) {
	var sum float64
	for _, c := range v {
		sum += float64(c) * float64(c)
	}
	norm := math.Sqrt(sum)
	if math.IsNaN(norm) || math.IsInf(norm, 0) || norm < 1e-15 {
		return nil, fmt.Errorf("returned a vector with the norm %g", norm)
	}
	unit := make([]float32, len(v))
	for i, c := range v {
		unit[i] = float32(float64(c) / norm)
	}
	return unit, nil
}

// EncodeVector returns the components as float32, little-endian. It returns nil for nil.
func EncodeVector(v []float32) []byte {
	if v == nil {
		return nil
	}
	b := make([]byte, 4*len(v))
	for i, c := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(c))
	}
	return b
}

// DecodeVector returns the components that [EncodeVector] encoded, nil for none.
func DecodeVector(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}
