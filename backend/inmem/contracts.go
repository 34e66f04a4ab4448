package inmem

import (
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// LongTerm returns the long-term memory of the store. The memories of one store share their facts.
func (s *Store) LongTerm(cfg memory.LongTermConfig) memory.LongTermStore {
	return s.contracts.LongTerm(cfg)
}

// Graph returns the graphs of the store. now returns the current time; nil means time.Now.
func (s *Store) Graph(now func() time.Time) graph.Complete { return s.contracts.Graph(now) }

// History returns the transcripts of the store. They implement all interfaces of package history.
func (s *Store) History() history.Provider { return s.contracts.History(time.Now) }

// Vectors returns the documents of the store. The stores that it returns share their documents.
func (s *Store) Vectors(cfg vector.Config) vector.Store { return s.contracts.Vectors(cfg) }

// Blobs returns the blobs of the store.
func (s *Store) Blobs(cfg blob.Config) *blobdriver.Blobs { return s.contracts.Blobs(cfg) }

// BlobRefs returns the rows of blobs, for a blob.Store with other contents. Stores of one
// BlobRefs have the same contents.
func (s *Store) BlobRefs() blobdriver.Refs { return s.contracts.BlobRefs() }
