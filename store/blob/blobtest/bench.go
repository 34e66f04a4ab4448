package blobtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// Reference is the reference for the speed of blobs: it stores and reads a content under a new name.
type Reference struct {
	Put func(name string, data []byte) error
	Get func(name string) (io.ReadCloser, error)
}

// Bench compares Put and Open with a reference, by one caller and for contents of 1 KiB to 16 MiB.
func Bench(b *testing.B, h Harness, open func(b *testing.B) Reference) {
	for _, size := range []int{kib, 64 * kib, mib, 16 * mib} {
		b.Run(fmt.Sprintf("%dKiB", size/kib), func(b *testing.B) {
			s, r, data := h.Open(storetest.Wrap(b), blob.Config{}), open(b), content(1, size)
			put := func(n int) (blob.Info, error) {
				copy(data, fmt.Sprintf("%012d", n)) // other content
				return s.Put(b.Context(), bytes.NewReader(data), blob.PutParams{Owner: owner})
			}
			info, err := put(-1)
			name := fmt.Sprintf("%d-%030d", size, 0)
			if err == nil {
				err = r.Put(name, data)
			}
			if err != nil {
				b.Fatal(err)
			}
			calls := max(2, min(100, 20*mib/size))
			b.Run("put", func(b *testing.B) {
				suite.Compare(b, suite.Comparison{Calls: calls, Reference: func(_, n int) error {
					return r.Put(fmt.Sprintf("%d-%030d", size, n+1), data)
				}, Measured: func(_, n int) error {
					_, err := put(n)
					return err
				}})
			})
			b.Run("get", func(b *testing.B) {
				suite.Compare(b, suite.Comparison{Calls: calls, Reference: func(int, int) error {
					return drain(r.Get(name))
				}, Measured: func(int, int) error {
					content, _, err := s.Open(b.Context(), owner, info.Ref)
					return drain(content, err)
				}})
			})
		})
	}
}

// drain reads all content.
func drain(r io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	_, err = io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r})
	return err
}

// Files copies contents to new files, and syncs file and directory.
func Files(b *testing.B) Reference {
	dir := b.TempDir()
	return Reference{Put: func(name string, data []byte) error {
		name = filepath.Join(dir, name)
		f, err := os.Create(name + ".part") // a temporary directory
		if err == nil {
			_, err = io.Copy(struct{ io.Writer }{f}, struct{ io.Reader }{bytes.NewReader(data)})
		}
		if err == nil {
			err = f.Sync()
		}
		if err == nil {
			err = f.Close()
		}
		if err == nil {
			err = os.Rename(name+".part", name)
		}
		if err == nil {
			err = syncDir(dir)
		}
		return err
	}, Get: func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(dir, name)) }}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		err = d.Sync()
		_ = d.Close()
	}
	return err
}
