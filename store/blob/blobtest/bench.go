package blobtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Bench measures Put and Open, and copies of files with fsync as the reference.
func Bench(b *testing.B, h Harness) {
	for _, size := range []int{kib, 64 * kib, mib, 16 * mib} {
		b.Run(fmt.Sprintf("put/%dKiB/file", size/kib), func(b *testing.B) { benchFilePut(b, size) })
		b.Run(fmt.Sprintf("put/%dKiB/blob", size/kib), func(b *testing.B) {
			s := h.Open(storetest.Wrap(b), blob.Config{})
			data := content(1, size)
			b.SetBytes(int64(size))
			for n := 0; b.Loop(); n++ {
				copy(data, fmt.Sprintf("%012d", n)) // other content
				if _, err := s.Put(b.Context(), bytes.NewReader(data), blob.PutParams{Owner: owner}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("get/%dKiB/file", size/kib), func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "file")
			if err := os.WriteFile(file, content(1, size), 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				f, err := os.Open(file)
				drain(b, f, err)
			}
		})
		b.Run(fmt.Sprintf("get/%dKiB/blob", size/kib), func(b *testing.B) {
			s := h.Open(storetest.Wrap(b), blob.Config{})
			info, err := s.Put(b.Context(), bytes.NewReader(content(1, size)), blob.PutParams{Owner: owner})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				r, _, err := s.Open(b.Context(), owner, info.Ref)
				drain(b, r, err)
			}
		})
	}
}

// drain reads all content.
func drain(b *testing.B, r io.ReadCloser, err error) {
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}); err != nil {
		b.Fatal(err)
	}
	r.Close()
}

// benchFilePut copies content to new files and syncs file and directory.
func benchFilePut(b *testing.B, size int) {
	dir := b.TempDir()
	d, err := os.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	data := content(1, size)
	b.SetBytes(int64(size))
	for n := 0; b.Loop(); n++ {
		name := filepath.Join(dir, strings.Repeat("x", 30)+fmt.Sprint(n))
		f, err := os.Create(name + ".part")
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
			err = d.Sync()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
