package blobtest

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/store/blob"
)

// Objects is a blobdriver.Contents in memory, for tests. Its zero value is empty.
type Objects struct {
	// Fault, if set, is called before each operation ("create", "open", "remove", "list"). The
	// operation fails with the error that it returns.
	Fault func(operation string) error

	mu   sync.Mutex
	data map[string][]byte
}

func (o *Objects) fault(operation string) error {
	if o.Fault == nil {
		return nil
	}
	return o.Fault(operation)
}

// Names returns the names of all objects, sorted.
func (o *Objects) Names() (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.data {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Change replaces the bytes of an object.
func (o *Objects) Change(name string, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.data == nil {
		o.data = make(map[string][]byte)
	}
	o.data[name] = data
}

// Create implements blobdriver.Contents. If the size is known, it reads no more than that.
func (o *Objects) Create(_ context.Context, object blob.Object, r io.Reader, size int64) error {
	if size >= 0 {
		r = io.LimitReader(r, size)
	}
	data, err := io.ReadAll(r)
	if err == nil {
		err = o.fault("create")
	}
	if err == nil {
		o.Change(object.Name, data)
	}
	return err
}

// Open implements blobdriver.Contents.
func (o *Objects) Open(_ context.Context, object blob.Object, offset, _ int64) (io.ReadCloser, error) {
	if err := o.fault("open"); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	data, ok := o.data[object.Name]
	if !ok || offset > int64(len(data)) {
		return nil, blob.ErrCorrupt
	}
	return io.NopCloser(bytes.NewReader(data[offset:])), nil
}

// Remove implements blobdriver.Contents.
func (o *Objects) Remove(_ context.Context, object blob.Object) error {
	if err := o.fault("remove"); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.data, object.Name)
	return nil
}

// List implements blobdriver.Contents.
func (o *Objects) List(_ context.Context, after blob.Object, limit int) (found []blob.Object, err error) {
	if err := o.fault("list"); err != nil {
		return nil, err
	}
	for _, name := range o.Names() {
		if strings.Compare(name, after.Name) > 0 && len(found) < limit {
			found = append(found, blob.Object{Name: name})
		}
	}
	return found, nil
}
