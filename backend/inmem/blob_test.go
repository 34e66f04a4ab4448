package inmem

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestBlobs(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobtest.Harness{Open: func(t storetest.T, cfg blob.Config) blobtest.Store {
		s := New()
		t.Cleanup(func() { _ = s.Close() })
		return s.Blobs(cfg)
	}})
}
