package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// chunkOverhead is what a chunk costs beside its content.
const chunkOverhead = 64

// ArtifactWriter streams one artifact. Each write is a chunk, told to those who
// follow soon after; together they are one artifact, in which text that goes on
// is one part. It is safe for concurrent use.
type ArtifactWriter struct {
	t    *Turn
	head a2a.Artifact

	mu     sync.Mutex
	begun  bool
	closed bool
}

// Artifact begins an artifact. Its id is made from the name, so that an attempt
// that begins again replaces what an interrupted one left; the second artifact
// of one name in a turn gets an id of its own.
func (t *Turn) Artifact(name string) *ArtifactWriter {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &ArtifactWriter{t: t, head: a2a.Artifact{ID: t.artifactID(name), Name: name}}
	t.writers = append(t.writers, w)
	return w
}

// AddArtifact adds a whole artifact. An empty ID is made from the name.
func (t *Turn) AddArtifact(a a2a.Artifact) error {
	w := t.Artifact(a.Name)
	w.mu.Lock()
	if a.ID != "" {
		w.head.ID = a.ID
	}
	w.head.Description, w.head.Metadata, w.head.Extensions = a.Description, a.Metadata, a.Extensions
	w.mu.Unlock()
	if err := w.WriteParts(a.Parts...); err != nil {
		return err
	}
	return w.Close()
}

// Describe sets what the artifact is. It must be called before the first write.
func (w *ArtifactWriter) Describe(description string, metadata map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head.Description, w.head.Metadata = description, metadata
}

// ID is the artifact's id.
func (w *ArtifactWriter) ID() string { return w.head.ID }

// Write adds text. It implements io.Writer.
func (w *ArtifactWriter) Write(p []byte) (int, error) { return w.WriteString(string(p)) }

// WriteString adds text. It implements io.StringWriter.
func (w *ArtifactWriter) WriteString(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	if err := w.WriteParts(a2a.TextPart{Text: s}); err != nil {
		return 0, err
	}
	return len(s), nil
}

// WriteParts adds parts as one chunk.
func (w *ArtifactWriter) WriteParts(parts ...a2a.Part) error {
	if err := w.t.usable(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return a2a.Errorf(a2a.CodeInvalid, "artifact %s is closed", a2a.Quote(w.head.Name))
	}
	if err := w.t.r.reserve(w.head.Name, parts); err != nil {
		return err
	}
	return w.chunk(parts, false)
}

// Close completes the artifact. Closing twice is harmless; a handler that
// returns closes what it left open.
func (w *ArtifactWriter) Close() error {
	if err := w.t.usable(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if w.begun && w.t.r.markLast(w.head.ID) {
		return nil
	}
	return w.chunk([]a2a.Part{a2a.TextPart{}}, true)
}

// chunk tells a chunk. The caller holds w.mu.
func (w *ArtifactWriter) chunk(parts []a2a.Part, last bool) error {
	artifact := a2a.Artifact{ID: w.head.ID, Name: w.head.Name, Parts: parts}
	if !w.begun {
		artifact.Description, artifact.Metadata, artifact.Extensions = w.head.Description, w.head.Metadata, w.head.Extensions
	}
	event := store.Event{State: a2a.StateWorking, Artifact: &artifact, Append: w.begun, LastChunk: last}
	w.begun = true
	return w.t.r.enqueue(event)
}

// markLast makes the newest chunk of an artifact its last if it has not been
// committed yet.
func (r *run) markLast(id string) bool {
	// A commit under way has its own copy of the chunk.
	if !r.l.commit.TryLock() {
		return false
	}
	defer r.l.commit.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost != nil {
		return false
	}
	for i, e := range slices.Backward(r.pending) {
		if e.Artifact != nil && e.Artifact.ID == id {
			r.pending[i].LastChunk = true
			return true
		}
	}
	return false
}

// reserve counts the bytes of parts against the limit of the turn.
func (r *run) reserve(name string, parts []a2a.Part) error {
	if n := r.e.cfg.Limits.Parts; len(parts) > n {
		return a2a.Errorf(a2a.CodeTooLarge, "artifact %s: a chunk of %d parts, at most %d are taken", a2a.Quote(name), len(parts), n)
	}
	for _, p := range parts {
		if err := encodable(p); err != nil {
			return a2a.Errorf(a2a.CodeInvalid, "artifact %s: %s", a2a.Quote(name), err)
		}
	}
	size := chunkOverhead + store.PartsSize(parts)
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit := r.e.cfg.Limits.ArtifactBytes; r.artifacts+size > limit {
		return a2a.Errorf(a2a.CodeTooLarge, "artifact %s: the artifacts of a turn may hold %d bytes in all", a2a.Quote(name), limit)
	}
	r.artifacts += size
	return nil
}

// encodable reports why JSON cannot express a part; text and files always can
// be.
func encodable(p a2a.Part) error {
	switch p := p.(type) {
	case a2a.TextPart:
		if len(p.Metadata) == 0 {
			return nil
		}
	case a2a.FilePart:
		if p.File != nil && len(p.Metadata) == 0 {
			return nil
		}
	case a2a.DataPart:
		if p.Data == nil {
			return errors.New("the data of a part must not be null")
		}
	case nil:
		return errors.New("a part must not be nil")
	}
	_, err := wire.Marshal(p)
	return err
}

// artifactID makes the id of the artifact that a turn gives a name to. The same
// call in another attempt of the turn makes the same id. The caller holds t.mu.
func (t *Turn) artifactID(name string) string {
	uses := "artifact\x00" + name
	t.names[uses]++
	text := append(make([]byte, 0, 128), t.task.Key.ID...)
	text = strconv.AppendInt(append(text, 0), int64(t.run.Turn), 10)
	text = append(append(text, 0), name...)
	text = strconv.AppendInt(append(text, 0), int64(t.names[uses]), 10)
	return hashID(sha256.Sum256(text))
}

// hashID makes an id of a hash.
func hashID(sum [sha256.Size]byte) string {
	sum[6] = sum[6]&0x0f | 0x80 // UUID version 8, variant 10
	sum[8] = sum[8]&0x3f | 0x80
	id := make([]byte, 0, 36)
	for i, part := range [][]byte{sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]} {
		if i > 0 {
			id = append(id, '-')
		}
		id = hex.AppendEncode(id, part)
	}
	return string(id)
}
