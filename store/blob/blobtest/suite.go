package blobtest

import (
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Suite tests the blobs of a backend.
var Suite = storetest.Suite{Name: "blobs", Run: func(t storetest.T, h storetest.Harness) { RunOn(t, Of(h)) }}

// Of returns the harness of the blobs of a backend.
func Of(h storetest.Harness) Harness {
	p := &storetest.Parts[Store, blob.Config]{Harness: h, Of: func(_ storetest.T, s store.Store, cfg blob.Config) Store {
		if b := blobsql.Of(s, cfg); b != nil {
			return b
		}
		return nil
	}}
	out := Harness{Open: p.Open}
	if h.Reopen != nil {
		out.Reopen = p.Reopen
	}
	return out
}
