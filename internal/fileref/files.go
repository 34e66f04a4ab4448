package fileref

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
)

// Config configures [Files].
type Config struct {
	// Blobs has the content. Required.
	Blobs blob.Store
	// Records keeps the secret of links. Required.
	Records Records
	// Inline is the maximum size in bytes of a file that clients get within a response. Larger
	// files are links. Negative means that all files are links.
	Inline int64
	// LinkTTL is how long a link is valid. Required.
	LinkTTL time.Duration
	// Now returns the wall-clock time. Required.
	Now func() time.Time
}

// Records is the part of a store that keeps the secret of links.
type Records interface {
	Record(ctx context.Context, key store.RecordKey) (store.Record, error)
	SaveRecords(ctx context.Context, owner string, changes ...store.RecordChange) error
}

// Files stores, opens and shows the content of large files. A nil *Files stores nothing: all
// content stays in the parts. It is safe for concurrent use.
type Files struct {
	cfg Config

	mu          sync.Mutex
	secrets     secrets // nil until they are needed
	secretsRead time.Time
}

// New returns files with a config.
func New(cfg Config) *Files { return &Files{cfg: cfg} }

// Blobs returns the store of the content.
func (f *Files) Blobs() blob.Store { return f.cfg.Blobs }

// StoreParts returns parts with references instead of large files. It stores each content once per
// task, name and media type, and does not pin it.
func (f *Files) StoreParts(ctx context.Context, task store.Key, parts []a2a.Part) ([]a2a.Part, error) {
	if f == nil || !HasLarge(parts) {
		return parts, nil
	}
	out := slices.Clone(parts)
	for i, p := range parts {
		file, content, ok := large(p)
		if !ok {
			continue
		}
		r, err := f.put(ctx, task, content)
		if err != nil {
			return nil, err
		}
		out[i] = r.part(file, content.Name, content.MimeType, content.Embeddings)
	}
	return out, nil
}

func (f *Files) put(ctx context.Context, task store.Key, content a2a.FileWithBytes) (Ref, error) {
	p := params(task, content.Name, content.MimeType)
	p.Size, p.Digest = int64(len(content.Bytes)), blob.Sum(content.Bytes)
	info, err := f.cfg.Blobs.Put(ctx, bytes.NewReader(content.Bytes), p)
	return Ref{Blob: info.Ref, Size: info.Size, Digest: info.Digest}, err
}

// Upload reads all of r and returns it as a file. A large file is a reference to an unpinned blob,
// which is stored once like the files of StoreParts.
func (f *Files) Upload(ctx context.Context, task store.Key, name, mimeType string, r io.Reader) (a2a.File, error) {
	head, err := io.ReadAll(io.LimitReader(r, Threshold+1))
	if err != nil {
		return nil, err
	}
	if len(head) <= Threshold {
		return a2a.FileWithBytes{Name: name, MimeType: mimeType, Bytes: head}, nil
	}
	info, err := f.cfg.Blobs.Put(ctx, io.MultiReader(bytes.NewReader(head), r), params(task, name, mimeType))
	if err != nil {
		return nil, err
	}
	ref := Ref{Blob: info.Ref, Size: info.Size, Digest: info.Digest}
	return a2a.FileWithURI{Name: name, MimeType: mimeType, URI: ref.uri()}, nil
}

// params describes the blob of a file. Names and media types that blobs cannot have are omitted;
// the part keeps them.
func params(task store.Key, name, mimeType string) blob.PutParams {
	key := sha256.New()
	for _, text := range []string{task.ID, name, mimeType} {
		fmt.Fprintf(key, "%d:%s", len(text), text)
	}
	if len(name) > blob.MaxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		name = ""
	}
	kind, _, err := mime.ParseMediaType(mimeType)
	if err != nil || !strings.Contains(kind, "/") || len(mimeType) > blob.MaxContentType || strings.ContainsFunc(mimeType, unicode.IsControl) {
		mimeType = ""
	}
	return blob.PutParams{
		Owner: task.Owner, Name: name, ContentType: mimeType,
		IdempotencyKey: "file/" + hex.EncodeToString(key.Sum(nil)), KeyPerContent: true,
	}
}

// Check returns an error if a part refers to a blob that the owner does not have.
func (f *Files) Check(ctx context.Context, owner string, parts []a2a.Part) error {
	for i, p := range parts {
		file, r, ok := refOf(p)
		if !ok {
			if uri, ok := file.File.(a2a.FileWithURI); ok && reserved(uri.URI) {
				return a2a.Invalid(fmt.Sprintf("parts[%d].file.uri", i), "is not a valid reference")
			}
			continue
		}
		if f == nil {
			return a2a.Errorf(a2a.CodeUnsupported, "parts[%d].file.uri: the agent has no store for blobs", i)
		}
		info, err := f.cfg.Blobs.Stat(ctx, owner, r.Blob)
		switch {
		case errors.Is(err, blob.ErrNotFound), err == nil && (info.Size != r.Size || info.Digest != r.Digest):
			return a2a.Invalid(fmt.Sprintf("parts[%d].file.uri", i), "refers to a file that does not exist")
		case err != nil:
			return err
		}
	}
	return nil
}

// Open returns the content of a reference. The caller closes it. Errors have a text for the client.
func (f *Files) Open(ctx context.Context, owner string, r Ref) (io.ReadCloser, error) {
	if f == nil {
		return nil, a2a.Errorf(a2a.CodeUnsupported, "the agent has no store for blobs")
	}
	in, info, err := f.cfg.Blobs.Open(ctx, owner, r.Blob)
	if err != nil {
		return nil, contentError(err)
	}
	if info.Size != r.Size || info.Digest != r.Digest {
		return nil, errors.Join(contentError(blob.ErrNotFound), in.Close())
	}
	return NewVerifier(in, info), nil
}

// Read returns the whole content of a reference.
func (f *Files) Read(ctx context.Context, owner string, r Ref) ([]byte, error) {
	in, err := f.Open(ctx, owner, r)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data := make([]byte, r.Size)
	if _, err := io.ReadFull(in, data); err != nil {
		return nil, contentError(err)
	}
	return data, nil
}

// Errors of content that cannot be read.
var (
	errMissing error = a2a.Errorf(a2a.CodeInvalid, "the content of the file does not exist anymore")
	errDamaged error = a2a.Errorf(a2a.CodeInternal, "the content of the file is damaged")
)

// contentError returns the error of an operation on a blob with a text for the client.
func contentError(err error) error {
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return errMissing
	case errors.Is(err, blob.ErrCorrupt), errors.Is(err, io.ErrUnexpectedEOF):
		return errDamaged
	}
	return err
}
