package vectortest

import (
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Suite tests the documents of a backend.
var Suite = storetest.Suite{Name: "documents", Run: func(t storetest.T, h storetest.Harness) { RunOn(t, Of(h)) }}

// Of returns the harness of the documents of a backend.
func Of(h storetest.Harness) Harness {
	p := &storetest.Parts[vector.Store, vector.Config]{Harness: h, Of: func(t storetest.T, s store.Store, cfg vector.Config) vector.Store {
		part, ok := s.(interface {
			Vectors(cfg vector.Config) vector.Store
		})
		if !ok {
			return nil
		}
		documents := part.Vectors(cfg)
		if _, err := documents.Collections(t.Context(), "o"); a2a.CodeOf(err) == a2a.CodeUnsupported { // turned off
			t.Skipf("%v", err)
		}
		return documents
	}}
	out := Harness{Open: p.Open, Tasks: p.Store}
	if h.Reopen != nil {
		out.Reopen = p.Reopen
	}
	return out
}
