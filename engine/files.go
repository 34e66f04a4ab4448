package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
)

// newFiles returns the files of tasks, nil if there is no store for blobs: files then stay in the
// messages and artifacts.
func newFiles(c *Config) *fileref.Files {
	s := blobs.In(c.Contracts.Stores)
	if s == nil {
		return nil
	}
	return fileref.New(fileref.Config{Blobs: s, Records: c.Store, Inline: c.Files.InlineBytes, LinkTTL: c.Files.LinkTTL, Now: c.clock})
}

// Files returns the files of tasks, for the parts of the program that show tasks to clients. It is
// nil if there is no store for blobs.
func (e *Engine) Files() *fileref.Files { return e.files }

// storeFiles stores the large files of the message as blobs, unless the message is rejected or
// repeats an earlier request.
func (s *sendCall) storeFiles(ctx context.Context) error {
	m := &s.params.Message
	if s.e.files == nil || !fileref.HasLarge(m.Parts) {
		return nil
	}
	record, err := s.identity.previous(ctx)
	if err == nil && record != nil {
		err = &duplicateError{record: record}
	}
	if err == nil {
		err = s.e.checkTaskSize(m.TaskID, 0, int64(store.PartsSize(m.Parts)))
	}
	if err != nil {
		return err
	}
	m.Parts, err = s.e.files.StoreParts(ctx, store.Key{Owner: s.principal.ID, ID: m.TaskID}, m.Parts)
	return err
}

// storeFilesOfTask is storeFiles for a message to an existing task. It stores nothing if the task
// accepts no messages, so the message is compared with the task's messages or rejected.
func (s *sendCall) storeFilesOfTask(ctx context.Context) error {
	if s.e.files == nil || !fileref.HasLarge(s.params.Message.Parts) {
		return nil
	}
	key := store.Key{Owner: s.principal.ID, ID: s.params.Message.TaskID}
	t, err := s.e.cfg.Store.Task(ctx, key, store.TaskOptions{Outline: true})
	if err != nil || t.Status.State.Terminal() {
		return err
	}
	return s.storeFiles(ctx)
}

// canonical returns a message in a form that is the same for files of equal content.
func canonical(m *a2a.Message) *a2a.Message {
	if m == nil {
		return nil
	}
	c := *m
	c.Parts = fileref.Canonical(m.Parts)
	return &c
}

// pinFiles makes a change pin the blobs to which its events refer, so that they exist as long as
// the task. If the blobs are in another store, pinFiles pins them before the change: after a crash
// in between, a blob may be kept for a task that does not exist. It returns the blobs that it
// pinned before the change, also if it returns an error.
func (s *settings) pinFiles(ctx context.Context, c *store.Change) (pinned []string, err error) {
	if s.files == nil {
		return nil, nil
	}
	var refs []string
	for i := range c.Events {
		refs = fileref.EventRefs(refs, &c.Events[i])
	}
	owner, holder := c.Key.Owner, fileref.Holder(c.Key.ID)
	own, ok := s.files.Blobs().(blob.Transactional)
	ok = ok && s.cfg.own[blobs.Kind]
	for _, ref := range refs {
		if !ok {
			if err := s.files.Blobs().Pin(ctx, owner, ref, holder); err != nil {
				return pinned, err
			}
			pinned = append(pinned, ref)
			continue
		}
		effect, err := own.PinEffect(owner, ref, holder)
		if err != nil {
			return nil, err
		}
		c.Effects = append(slices.Clip(c.Effects), effect)
	}
	return pinned, nil
}

// unpinFiles unpins the blobs that pinFiles pinned for a change that was rejected, if the task does
// not exist. The blobs of an existing task remain pinned, because the task may refer to them. If
// another process creates the task in the meantime, unpinFiles pins them again.
func (s *settings) unpinFiles(ctx context.Context, key store.Key, pinned []string) {
	if len(pinned) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), contractTimeout)
	defer cancel()
	all, holder := s.files.Blobs(), fileref.Holder(key.ID)
	exists, err := s.stored(ctx, key)
	if exists || err != nil {
		return
	}
	for _, ref := range pinned {
		if failed := all.Unpin(ctx, key.Owner, ref, holder); !errors.Is(failed, blob.ErrNotFound) {
			err = errors.Join(err, failed)
		}
	}
	if exists, checkErr := s.stored(ctx, key); exists || checkErr != nil {
		for _, ref := range pinned {
			err = errors.Join(err, all.Pin(ctx, key.Owner, ref, holder))
		}
	}
	if err != nil {
		s.log.Warn("files of a rejected message may be kept", "task", key.ID, "error", err)
	}
}

// stored reports whether a task exists.
func (s *settings) stored(ctx context.Context, key store.Key) (bool, error) {
	versions, err := s.cfg.Store.Versions(ctx, []store.Key{key})
	return len(versions) > 0, err
}

// turnFiles stores and loads the files of a turn.
type turnFiles struct {
	*settings
	key    store.Key // of the task
	memory *handlerMemory
	stores *storeCalls
	loaded atomic.Int64 // size of the files that load has loaded
}

// store returns the parts of a handler in the form in which they are stored: large files are
// references.
func (f *turnFiles) store(parts []a2a.Part) (stored []a2a.Part, err error) {
	ctx := f.stores.ctx
	err = f.stores.waitOut(ctx, "files.store", nil, func() (err error) {
		if err = f.files.Check(ctx, f.key.Owner, parts); err == nil {
			stored, err = f.files.StoreParts(ctx, f.key, parts)
		}
		return err
	})
	return stored, f.stores.hide(err)
}

// load replaces references in messages by the content of the files, while the content fits the
// limit of a task and the memory of one owner. Damaged files remain references. The memory is held
// until the handler returns.
func (f *turnFiles) load(ctx context.Context, messages []a2a.Message) error {
	for i := range messages {
		m := &messages[i]
		if f.files == nil || !fileref.Contains(m.Parts) {
			continue
		}
		m.Parts = slices.Clone(m.Parts)
		for j, p := range m.Parts {
			loaded, err := f.loadPart(ctx, p)
			if err != nil {
				return err
			}
			m.Parts[j] = loaded
		}
	}
	return nil
}

func (f *turnFiles) loadPart(ctx context.Context, p a2a.Part) (a2a.Part, error) {
	part, ok := p.(a2a.FilePart)
	if !ok {
		return p, nil
	}
	ref, ok := fileref.Of(part.File)
	if !ok || f.loaded.Load()+ref.Size > f.taskLimit() {
		return p, nil
	}
	data, err := f.read(ctx, ref)
	switch code := a2a.CodeOf(err); {
	case err == nil:
	case code == a2a.CodeExhausted, code.Retryable(), ctx.Err() != nil:
		return nil, err
	default:
		f.stores.log().Warn("file of a message cannot be loaded", "blob", ref.Blob, "error", err)
		return p, nil
	}
	f.loaded.Add(ref.Size)
	file := part.File.(a2a.FileWithURI)
	part.File = a2a.FileWithBytes{Name: file.Name, MimeType: file.MimeType, Bytes: data, Embeddings: file.Embeddings}
	return part, nil
}

// read returns the content of a file. The memory is held until the handler returns.
func (f *turnFiles) read(ctx context.Context, ref fileref.Ref) ([]byte, error) {
	release, err := f.memory.reserve(ctx, ref.Size)
	if err != nil {
		return nil, err
	}
	var data []byte
	err = f.stores.waitOut(ctx, "files.read", nil, func() (err error) {
		data, err = f.files.Read(ctx, f.key.Owner, ref)
		return err
	})
	if err != nil {
		release()
		return nil, f.stores.hide(err)
	}
	return data, nil
}

// upload returns the content of r as a file.
func (f *turnFiles) upload(ctx context.Context, name, mimeType string, r io.Reader) (a2a.File, error) {
	if f.files != nil {
		src := fileref.NewSource(r)
		var file a2a.File
		err := f.stores.waitOut(ctx, "files.store", src.Rewind, func() (err error) {
			file, err = f.files.Upload(ctx, f.key, name, mimeType, src)
			return err
		})
		return file, f.stores.hide(err)
	}
	limit := int64(f.cfg.Limits.ArtifactBytes)
	data, err := io.ReadAll(io.LimitReader(r, limit+1)) // WriteParts rejects more than the limit
	return a2a.FileWithBytes{Name: name, MimeType: mimeType, Bytes: data}, err
}

// IsReference reports whether the content of a file is stored outside of the part: whether ReadFile
// and OpenFile read it.
func IsReference(f a2a.File) bool {
	_, ok := fileref.Of(f)
	return ok
}

// ReadFile returns the content of a reference; see [IsReference]. The memory is held until the
// handler returns; see [Turn.Reserve].
func (t *Turn) ReadFile(ctx context.Context, f a2a.File) ([]byte, error) {
	ref, ok := fileref.Of(f)
	if !ok {
		return nil, a2a.Invalid("file", "is not a reference")
	}
	return t.files.read(ctx, ref)
}

// OpenFile returns a reader of the content of a reference; see [IsReference]. The caller closes it.
// If the file is damaged, the reader returns an error before the end of the file.
func (t *Turn) OpenFile(ctx context.Context, f a2a.File) (io.ReadCloser, error) {
	ref, ok := fileref.Of(f)
	if !ok {
		return nil, a2a.Invalid("file", "is not a reference")
	}
	if err := t.usable(); err != nil {
		return nil, err
	}
	return t.r.stores.openContent(ctx, "files.open", func() (io.ReadCloser, error) { return t.r.e.files.Open(ctx, t.Owner(), ref) })
}

// WriteFile appends the content of r as a file, which it reads to the end. Content above 64 KiB is streamed to the
// store of blobs in constant memory. Without such a store, WriteFile reads r into memory, up to [Limits.ArtifactBytes].
// Each attempt reads r, and equal content is stored once, as by [ArtifactWriter.WriteParts]. While the store does not
// answer, WriteFile waits if r is an io.Seeker or nothing was read yet. Otherwise it returns the error; if the handler
// returns that error, the turn runs again, and the attempt is not counted. name and mimeType may be "".
func (w *ArtifactWriter) WriteFile(ctx context.Context, name, mimeType string, r io.Reader) error {
	if err := w.t.usable(); err != nil {
		return err
	}
	file, err := w.t.files.upload(ctx, name, mimeType, r)
	if err != nil {
		return err
	}
	return w.WriteParts(a2a.FilePart{File: file})
}
