package blobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/contract"
)

const (
	typeBlob  = "blob"
	typeChunk = "chunk"
	// chunkSize is the number of bytes of a blob per line.
	chunkSize = 192 << 10
)

type blobLine struct {
	_           struct{}  `wire:"const=type:blob,required"`
	Ref         string    `json:"ref" wire:"required"`
	Size        int64     `json:"size" wire:"required"`
	SHA256      string    `json:"sha256" wire:"required"`
	ContentType string    `json:"contentType" wire:"required"`
	Name        string    `json:"name,omitempty"`
	CreatedAt   time.Time `json:"createdAt" wire:"required"`
	ExpiresAt   time.Time `json:"expiresAt,omitempty"`
	TTL         int64     `json:"ttlMilliseconds" wire:"required"`
	Holders     []string  `json:"holders,omitempty"`
}

type chunkLine struct {
	_    struct{} `wire:"const=type:chunk,required"`
	Data []byte   `json:"data" wire:"required"`
}

func lineOf(b *blob.Info) *blobLine {
	return &blobLine{
		Ref: b.Ref, Size: b.Size, SHA256: b.Digest.String(), ContentType: b.ContentType, Name: b.Name, CreatedAt: b.Created, ExpiresAt: b.Expires,
		TTL: b.TTL.Milliseconds(), Holders: b.Holders,
	}
}

func (l *blobLine) blob() (b blob.Info, err error) {
	b = blob.Info{
		Ref: l.Ref, Size: l.Size, ContentType: l.ContentType, Name: l.Name, Created: store.Time(l.CreatedAt), Expires: store.Time(l.ExpiresAt),
		TTL: time.Duration(l.TTL) * time.Millisecond, Holders: l.Holders,
	}
	if n, err := hex.Decode(b.Digest[:], []byte(l.SHA256)); err != nil || n != len(b.Digest) || len(l.SHA256) != 2*len(b.Digest) {
		return b, &wire.Error{Path: "sha256", Rule: "must be 64 hexadecimal digits"}
	}
	if l.Size < 0 {
		return b, &wire.Error{Path: "size", Rule: "must not be negative"}
	}
	return b, nil
}

func (b *blobs) Export(ctx context.Context, owner string, line func(typ string, v any) error) error {
	for p := (blob.ListParams{Owner: owner, Limit: page}); ; {
		found, err := b.List(ctx, p)
		if err != nil {
			return err
		}
		for i := range found.Blobs {
			p.After = found.Blobs[i].Ref
			if err := b.export(ctx, owner, p.After, line); err != nil && !errors.Is(err, blob.ErrNotFound) { // deleted meanwhile
				return fmt.Errorf("blob %s: %w", p.After, err)
			}
		}
		if !found.More {
			return nil
		}
	}
}

// export writes a blob with its content.
func (b *blobs) export(ctx context.Context, owner, ref string, line func(typ string, v any) error) error {
	r, info, err := b.Open(ctx, owner, ref)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if err := line(typeBlob, lineOf(&info)); err != nil {
		return err
	}
	for buf := make([]byte, min(info.Size, chunkSize)); ; {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if err := line(typeChunk, &chunkLine{Data: buf[:n]}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), len(buf) == 0:
			return nil
		case err != nil:
			return fmt.Errorf("read content: %w", err)
		}
	}
}

// scanner implements [contract.Scanner]. Its items are blobs and chunks of the last blob's content.
type scanner struct {
	blob    blob.Info
	content hash.Hash // of the blob, nil without one
	size    int64
}

func (s *scanner) Scan(typ string, raw []byte) (any, error) {
	if typ == typeChunk {
		return s.scanChunk(raw)
	}
	if err := s.End(); err != nil {
		return nil, err
	}
	var l blobLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	b, err := l.blob()
	s.blob, s.content, s.size = b, sha256.New(), 0
	return b, err
}

func (s *scanner) scanChunk(raw []byte) (any, error) {
	var l chunkLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	s.content.Write(l.Data)
	if s.size += int64(len(l.Data)); s.size > s.blob.Size {
		return nil, a2a.Errorf(a2a.CodeInvalid, "blob %s has more than %d bytes", s.blob.Ref, s.blob.Size)
	}
	return l.Data, nil
}

// End checks the content of the last blob.
func (s *scanner) End() error {
	if s.content == nil {
		return nil
	}
	var sum blob.Digest
	s.content.Sum(sum[:0])
	s.content = nil
	switch {
	case s.size != s.blob.Size:
		return a2a.Errorf(a2a.CodeInvalid, "the content of blob %s before this line has %d bytes, want %d", s.blob.Ref, s.size, s.blob.Size)
	case sum != s.blob.Digest:
		return a2a.Errorf(a2a.CodeInvalid, "the content of blob %s before this line does not match its sha256", s.blob.Ref)
	}
	return nil
}

func (b *blobs) Import(p *contract.ImportParams) (contract.Importer, error) {
	restorer, ok := b.Store.(blob.Restorer)
	if !ok {
		return nil, Kind.NoTarget()
	}
	return &importer{ImportParams: p, blobs: b, restorer: restorer}, nil
}

type importer struct {
	*contract.ImportParams
	blobs    *blobs
	restorer blob.Restorer
	upload   *upload
}

// upload is a blob that is being restored.
type upload struct {
	ref  string
	w    *io.PipeWriter
	done chan struct{}
	err  error // of the restore, when it is done
}

func (m *importer) Add(ctx context.Context, item any) error {
	switch item := item.(type) {
	case blob.Info:
		return m.addBlob(ctx, item)
	default:
		return m.addChunk(item.([]byte))
	}
}

func (m *importer) addBlob(ctx context.Context, b blob.Info) error {
	if err := m.Flush(ctx); err != nil {
		return err
	}
	existing, err := m.blobs.Stat(ctx, m.Owner, b.Ref)
	switch {
	case err == nil && existing.Digest != b.Digest:
		return m.Conflict("blob %s exists with other content", b.Ref)
	case err == nil || !m.Write && errors.Is(err, blob.ErrNotFound):
		return nil
	case !errors.Is(err, blob.ErrNotFound):
		return err
	}
	if err := m.dropHolders(ctx, &b); err != nil {
		return err
	}
	r, w := io.Pipe()
	u := &upload{ref: b.Ref, w: w, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		u.err = m.restorer.Restore(ctx, m.Owner, b, r)
		_ = r.CloseWithError(errors.Join(io.ErrClosedPipe, u.err))
	}()
	m.upload = u
	return nil
}

// dropHolders removes the holders that are tasks which the target does not have: nothing would ever
// unpin the blob. Without another holder it expires after its TTL.
func (m *importer) dropHolders(ctx context.Context, b *blob.Info) error {
	var kept []string
	for _, holder := range b.Holders {
		exists, err := m.holds(ctx, holder)
		if err != nil {
			return err
		}
		if exists {
			kept = append(kept, holder)
		}
	}
	if len(b.Holders) > 0 && len(kept) == 0 {
		b.Expires = m.Now().Add(b.TTL)
	}
	b.Holders = kept
	return nil
}

// holds reports whether a holder is not a task or is a task of the target. The holder of a task is
// task/ID or task/ID/CREATED.
func (m *importer) holds(ctx context.Context, holder string) (bool, error) {
	id, ok := strings.CutPrefix(holder, "task/")
	if !ok {
		return true, nil
	}
	for {
		exists, err := m.TaskExists(ctx, id)
		if exists || err != nil {
			return exists, err
		}
		slash := strings.LastIndexByte(id, '/')
		if slash < 0 {
			return false, nil
		}
		id = id[:slash]
	}
}

func (m *importer) addChunk(data []byte) error {
	if m.upload == nil {
		return nil
	}
	if _, err := m.upload.w.Write(data); err != nil && !errors.Is(err, io.ErrClosedPipe) { // Flush returns its error
		return err
	}
	return nil
}

// Flush waits for the blob that is being restored.
func (m *importer) Flush(context.Context) error {
	u := m.upload
	if u == nil {
		return nil
	}
	m.upload = nil
	_ = u.w.Close()
	if <-u.done; u.err != nil {
		return fmt.Errorf("blob %s: %w", u.ref, u.err)
	}
	m.Added(countBlobs, 1)
	return nil
}

// errAborted ends the content of a blob after its import failed.
var errAborted = errors.New("import failed")

// Abort ends the restore of a blob.
func (m *importer) Abort() {
	if u := m.upload; u != nil {
		m.upload = nil
		_ = u.w.CloseWithError(errAborted)
		<-u.done
	}
}
