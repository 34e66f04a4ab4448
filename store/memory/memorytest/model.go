package memorytest

import (
	"context"
	"errors"
	"hash/fnv"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// concepts are words of the same meaning for [model].
var concepts = []string{
	"tea coffee espresso latte drink drinks beverage", "cat dog parrot pet animal", "train flight journey travel trip", "salary invoice price cost money",
}

// model is an embedder that knows a few words: the words of a concept are close to each other. A test
// can make it fail.
type model struct {
	name string // default "concepts"
	more int    // components more than usual

	mu       sync.Mutex
	fail     error
	change   func(all [][]float32) [][]float32
	hang     bool // until the context is done
	embedded []string
}

// errDown is the error of an embedder that does not respond.
var errDown = errors.New("connection refused")

func (m *model) Name() string {
	if m.name == "" {
		return "concepts"
	}
	return m.name
}

// set sets the failure of later calls.
func (m *model) set(fail error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = fail
}

// calls returns the texts that were embedded.
func (m *model) calls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.embedded...)
}

// Embed implements memory.Embedder. It rejects texts with the word "unreadable".
func (m *model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if m.fail != nil {
		return nil, m.fail
	}
	m.embedded = append(m.embedded, texts...)
	all := make([][]float32, len(texts))
	for i, text := range texts {
		if strings.Contains(text, "unreadable") {
			return nil, a2a.Errorf(a2a.CodeInvalid, "text %d is unreadable", i)
		}
		all[i] = m.vector(text)
	}
	if m.change != nil {
		all = m.change(all)
	}
	return all, nil
}

// vector returns an embedding: a component for each concept and some for other words. The first one
// is the same for all texts, so that no cosine is 0.
func (m *model) vector(text string) []float32 {
	const others = 16
	v := make([]float32, 1+len(concepts)+others+m.more)
	v[0] = 0.3
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return strings.ContainsRune(" .,?!", r) }) {
		at := -1
		for c, words := range concepts {
			if strings.Contains(" "+words+" ", " "+strings.TrimSuffix(word, "s")+" ") {
				at = 1 + c
			}
		}
		if at >= 0 {
			v[at]++
			continue
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(word))
		v[1+len(concepts)+int(h.Sum32()%others)] += 0.25
	}
	return v
}

// embed opens the store of the fixture anew, with an embedder.
func (f *longTermFixture) embed() *model {
	m := new(model)
	f.s = f.h.Open(f.T, memory.LongTermConfig{Now: f.clock.Now, Embedder: m})
	return m
}

// reconfigure opens the data of the fixture with another embedder, nil for none.
func (f *longTermFixture) reconfigure(e memory.Embedder) {
	f.Helper()
	if f.h.Reconfigure == nil {
		f.Skipf("stores cannot share data")
	}
	f.s = f.h.Reconfigure(f.T, f.s, memory.LongTermConfig{Now: f.clock.Now, Embedder: e})
}
