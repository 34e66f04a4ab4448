package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
)

// BlobDir is the name of the directory of large blobs in the data directory. A backup must contain the
// database and this directory, and copy the database first.
const BlobDir = "blobs"

var _ blobsql.FileSource = (*kit)(nil)

// BlobContents implements blobsql.FileSource: contents of blobs above 128 KiB are files in BlobDir.
func (k *kit) BlobContents() blobdriver.Contents { return k.blobs }

// blobFiles implements blobdriver.Contents with one file per object. The last character of its name
// selects one of 32 directories.
type blobFiles struct {
	*database
	dir     string
	dirs    sync.Map // directories that exist, by their name
	buffers sync.Pool
}

func newBlobFiles(db *database) *blobFiles {
	return &blobFiles{
		database: db, dir: filepath.Join(db.cfg.Dir, BlobDir),
		buffers: sync.Pool{New: func() any { return new([copyBuffer]byte) }},
	}
}

// copyBuffer is the memory of a copy in bytes.
const copyBuffer = 256 << 10

// check returns an error if the store is closed or read-only. Close does not wait for calls that read or
// write files: they may take long, and the closed database accepts no ref to a file that they write.
func (b *blobFiles) check(ctx context.Context) error {
	if b.cfg.ReadOnly {
		return errReadOnly
	}
	err := b.enter(ctx)
	if err == nil {
		b.leave()
	}
	return err
}

// path returns the directory and the file of an object.
func (b *blobFiles) path(o blob.Object) (dir, file string) {
	dir = filepath.Join(b.dir, o.Name[len(o.Name)-1:])
	return dir, filepath.Join(dir, o.Name)
}

// Create implements blobdriver.Contents. It returns after file and directory were synced. The file needs
// no temporary name: its name is new, and only a later commit makes it reachable.
func (b *blobFiles) Create(ctx context.Context, o blob.Object, r io.Reader, _ int64) error {
	if err := b.check(ctx); err != nil {
		return err
	}
	dir, file := b.path(o)
	if err := b.makeDir(dir); err != nil {
		return fileError(err)
	}
	err := b.write(dir, file, r)
	if err != nil {
		_ = os.Remove(file)
	}
	return fileError(err)
}

// makeDir creates the directories of a file, once.
func (b *blobFiles) makeDir(dir string) error {
	if _, ok := b.dirs.Load(dir); ok {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := errors.Join(syncDir(b.dir), syncDir(b.cfg.Dir)); err != nil {
		return err
	}
	b.dirs.Store(dir, true)
	return nil
}

// write writes a file and syncs it and its directory, at the same time.
func (b *blobFiles) write(dir, file string, r io.Reader) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buffer := b.buffers.Get().(*[copyBuffer]byte)
	defer b.buffers.Put(buffer)
	// Hides ReadFrom and WriteTo, which would use other buffers.
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{r}, buffer[:]); err != nil {
		return err
	}
	synced := make(chan error, 1)
	go func() { synced <- syncDir(dir) }()
	return errors.Join(f.Sync(), <-synced)
}

// Open implements blobdriver.Contents.
func (b *blobFiles) Open(ctx context.Context, o blob.Object, offset, _ int64) (io.ReadCloser, error) {
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
	_, file := b.path(o)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, blob.ErrCorrupt
	}
	if err == nil {
		if _, err = f.Seek(offset, io.SeekStart); err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		return nil, fileError(err)
	}
	return f, nil
}

// Remove implements blobdriver.Contents.
func (b *blobFiles) Remove(ctx context.Context, o blob.Object) error {
	if err := b.check(ctx); err != nil {
		return err
	}
	_, file := b.path(o)
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return fileError(err)
	}
	return nil
}

// List implements blobdriver.Contents. Objects are ordered by directory and name.
func (b *blobFiles) List(ctx context.Context, after blob.Object, limit int) (found []blob.Object, err error) {
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave()
	dirs, err := os.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	first := ""
	if after.Name != "" {
		first = after.Name[len(after.Name)-1:]
	}
	for _, dir := range dirs {
		if err != nil || len(found) == limit {
			break
		}
		if !dir.IsDir() || dir.Name() < first {
			continue
		}
		from := ""
		if dir.Name() == first {
			from = after.Name
		}
		var names []string
		names, err = objectNames(filepath.Join(b.dir, dir.Name()), from)
		for _, name := range names[:min(len(names), limit-len(found))] {
			found = append(found, blob.Object{Name: name})
		}
	}
	return found, fileError(err)
}

// objectNames returns the names of the objects in a directory that sort after the given name.
func objectNames(dir, after string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); name > after && strings.HasSuffix(name, filepath.Base(dir)) {
			names = append(names, name)
		}
	}
	return names, err
}

// fileError wraps an error of a file with its code. Errors that have a code, and errors of
// the reader of a new content, are returned unchanged.
func fileError(err error) error {
	var file *fs.PathError
	if !errors.As(err, &file) {
		return err
	}
	if code, text := classify(err); code == a2a.CodeExhausted {
		return a2a.Wrap(code, err, "%s", text)
	}
	return a2a.Wrap(a2a.CodeUnavailable, fmt.Errorf("sqlite: blob file: %w", err), "the blob directory reports a disk error")
}
