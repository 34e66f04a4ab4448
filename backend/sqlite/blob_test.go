package sqlite

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// blobStore is the blobs of a store.
type blobStore struct {
	*blobdriver.Blobs
	s *Store
}

var blobHarness = blobtest.Harness{
	Open: func(t storetest.T, cfg blob.Config) blobtest.Store {
		s := open(t, Config{Dir: t.TempDir(), Logger: testLogger(t)})
		return blobStore{blobsql.Of(s, cfg), s}
	},
	Reopen: func(t storetest.T, s blobtest.Store, cfg blob.Config) blobtest.Store {
		old := s.(blobStore).s
		if err := old.Close(); err != nil {
			t.Fatalf("Close() = %v", err)
		}
		reopened := open(t, old.cfg)
		return blobStore{blobsql.Of(reopened, cfg), reopened}
	},
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobHarness)
}

func TestBlobsSurviveKill(t *testing.T) {
	t.Parallel()
	blobtest.KillLoop(t, blobtest.KillConfig{Open: func(dir string, cfg blob.Config) (blobtest.Store, func() error, error) {
		s, err := Open(bg, Config{Dir: dir})
		if err != nil {
			return nil, nil, err
		}
		return blobsql.Of(s, cfg), s.Close, nil
	}})
}

func TestBlobStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	db, err := sql.Open("sqlite", dataSource(s.path, "query_only(1)"))
	must(t, err)
	defer func() { _ = db.Close() }()
	for _, text := range blobsql.Statements() {
		plan := explain(t, db, sqlkit.ForSQLite(text))
		if strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN") && !strings.Contains(plan, "USING") || !strings.Contains(plan, "SEARCH") {
			t.Errorf("%s has the plan\n%s", text, plan)
		}
	}
}

func TestReadOnlyStoresReadBlobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := make([]byte, 300<<10)
	put := func(s *Store, data []byte) (string, error) {
		return blob.Scope{Blobs: blobsql.Of(s, blob.Config{}), Owner: "o"}.Store(bg, data, "")
	}
	s := open(t, Config{Dir: dir})
	ref, err := put(s, data)
	must(t, err)
	must(t, s.Close())
	s = open(t, Config{Dir: dir, ReadOnly: true})
	if got, err := (blob.Scope{Blobs: blobsql.Of(s, blob.Config{}), Owner: "o"}).Resolve(bg, ref); err != nil || len(got) != len(data) {
		t.Errorf("Resolve() = %d bytes, %v, want the content", len(got), err)
	}
	for _, size := range []int{1, len(data) - 1} {
		if _, err := put(s, data[:size]); a2a.CodeOf(err) != a2a.CodeUnsupported {
			t.Errorf("Store() of %d bytes = %v, want the code unsupported", size, err)
		}
	}
}

func TestBlobStreamsNeedConstantMemory(t *testing.T) { blobtest.Stream(t, blobHarness) } // not in parallel

func BenchmarkBlobSpeed(b *testing.B) { blobtest.Bench(b, blobHarness, blobtest.Files) }
