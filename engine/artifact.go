package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// chunkOverhead is what a chunk costs beside its content.
const chunkOverhead = 64

// ArtifactWriter streams one artifact. Each write is a chunk, sent soon after to those
// who follow; together the chunks are one artifact, in which text that continues is one
// part. It is safe for concurrent use.
//
// The artifact at the end of a turn is what the turn's final attempt wrote, as if
// earlier attempts had not been: content that they stored and the final attempt writes
// again is stored once, other content of theirs is replaced. An artifact that only they
// wrote is withdrawn at the end, or goes back to what it was before the turn. Content
// written during a [Turn.Step] is part of the step and written by it again when a later
// attempt gets the step's record instead of running it.
type ArtifactWriter struct {
	t *Turn

	mu   sync.Mutex
	head a2a.Artifact // without parts
	// explicit is set when the id was not made from the name.
	explicit bool
	begun    bool
	closed   bool
	pos      store.Position // the end of what has been written
	// generation counts the events of the turn that replaced the artifact, up to the
	// one that what has been written follows.
	generation int
	// earlier is what earlier attempts have stored, while what has been written is no
	// more than the beginning of it: then nothing of that has been committed again.
	earlier *leftover
}

// Artifact begins an artifact. Its id is made from the name, so that another attempt
// of the turn writes the same artifact; the second artifact of one name in a turn gets
// an id of its own.
func (t *Turn) Artifact(name string) *ArtifactWriter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.startStream(name)
}

// OpenArtifact returns the artifact of a name that [Turn.Artifact] or OpenArtifact
// began and that is not complete, or begins one. Use it for an artifact that is written
// both within steps and outside of them: when a recorded step began it, it is open as if
// the step had run again.
func (t *Turn) OpenArtifact(name string) *ArtifactWriter {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.open[name]; w != nil {
		return w
	}
	return t.startStream(name)
}

// startStream begins an artifact that OpenArtifact finds. The caller holds t.mu.
func (t *Turn) startStream(name string) *ArtifactWriter {
	w := t.newWriter(a2a.Artifact{ID: t.artifactID(name), Name: name}, false)
	t.keepOpen(w)
	if in, err := t.scope(); err == nil { // else its writes are refused
		in.note(w, w.pos, w.pos, didStart)
	}
	return w
}

// keepOpen has OpenArtifact find w. The caller holds t.mu.
func (t *Turn) keepOpen(w *ArtifactWriter) {
	if t.open == nil {
		t.open = make(map[string]*ArtifactWriter)
	}
	t.open[w.head.Name] = w
}

// newWriter begins an artifact. The caller holds t.mu.
func (t *Turn) newWriter(head a2a.Artifact, explicit bool) *ArtifactWriter {
	w := &ArtifactWriter{t: t, head: head, explicit: explicit}
	t.writers = append(t.writers, w)
	return w
}

// AddArtifact adds a whole artifact. An empty ID is made from the name.
func (t *Turn) AddArtifact(a a2a.Artifact) error {
	parts, err := t.checkedParts(a.Name, a.Parts)
	if err != nil {
		return err
	}
	t.mu.Lock()
	in, err := t.writable()
	if err != nil {
		t.mu.Unlock()
		return err
	}
	id := t.artifactID(a.Name)
	if a.ID != "" {
		id = a.ID
	}
	w := t.newWriter(a2a.Artifact{ID: id, Name: a.Name, Description: a.Description, Metadata: a.Metadata, Extensions: a.Extensions}, a.ID != "")
	in.note(w, w.pos, w.pos, didStart|didEnd)
	t.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return w.chunk(in, parts, true)
}

// Describe sets what the artifact is. It must be called before the first write.
func (w *ArtifactWriter) Describe(description string, metadata map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun {
		return
	}
	w.head.Description, w.head.Metadata = description, store.CopyMap(metadata)
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	if in, err := w.t.scope(); err == nil {
		in.note(w, w.pos, w.pos, didDescribe)
	}
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

// WriteParts adds parts as one chunk. Without parts it begins an artifact that has an
// empty text, and adds nothing to one that has begun. It is refused while several steps
// run at the same time that are not nested in each other, since it is not known whose
// write it is.
func (w *ArtifactWriter) WriteParts(parts ...a2a.Part) error {
	in, err := w.t.writing()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return a2a.Errorf(a2a.CodeInvalid, "artifact %s is closed", a2a.Quote(w.head.Name))
	}
	if len(parts) == 0 && w.begun {
		return nil
	}
	if parts, err = w.t.checkedParts(w.head.Name, parts); err != nil {
		return err
	}
	return w.chunk(in, parts, false)
}

// checkedParts returns parts as they can be stored, at least one, and counts them
// against the limit of the turn.
func (t *Turn) checkedParts(name string, parts []a2a.Part) ([]a2a.Part, error) {
	if len(parts) == 0 {
		parts = []a2a.Part{a2a.TextPart{}} // an artifact without parts is one that is withdrawn
	}
	if err := t.r.reserve(name, parts); err != nil {
		return nil, err
	}
	for i, p := range parts {
		text, ok := p.(a2a.TextPart)
		if !ok || utf8.ValidString(text.Text) {
			continue
		}
		// As it is encoded, so that positions in it are those in the log.
		text.Text = string([]rune(text.Text))
		parts = slices.Clone(parts)
		parts[i] = text
	}
	return parts, nil
}

// Close completes the artifact. Closing twice is harmless; a turn that ends closes what
// its handler left open.
func (w *ArtifactWriter) Close() error {
	in, err := w.t.writing()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.close(in)
}

// close completes the artifact. The caller holds w.mu.
func (w *ArtifactWriter) close(in *scope) error {
	if w.closed {
		return nil
	}
	w.closed = true
	if w.begun && w.earlier == nil && w.t.r.markLast(w.head.ID) {
		w.noted(in, w.pos, true)
		return nil
	}
	return w.chunk(in, []a2a.Part{a2a.TextPart{}}, true)
}

// chunk adds parts, and completes the artifact if they are the last. The caller holds
// w.mu.
func (w *ArtifactWriter) chunk(in *scope, parts []a2a.Part, last bool) error {
	if !w.begun {
		if err := w.t.r.e.checkHead(&w.head); err != nil {
			return err
		}
		w.earlier = w.t.claimEarlier(w)
	}
	event := w.event(parts, w.begun, last)
	if w.earlier != nil {
		event = w.earlier.continued(w, parts, last)
	}
	if event != nil {
		if err := w.t.r.enqueue(*event); err != nil {
			return err
		}
		w.earlier = nil
		if !event.Append {
			w.generation = w.t.replaced(w)
		}
	}
	from := w.pos
	w.begun, w.pos = true, from.After(parts)
	w.noted(in, from, last)
	return nil
}

// checkHead applies the limits of what describes an artifact.
func (e *Engine) checkHead(a *a2a.Artifact) error {
	if n, limit := len(a.Name)+len(a.Description), e.cfg.Limits.MetadataBytes; n > limit {
		return a2a.Invalid("artifact", "has a name and a description of %d bytes, at most %d are taken", n, limit)
	}
	return e.checkMap("artifact.metadata", a.Metadata)
}

// noted adds what has been written since a position to the step in that it was.
func (w *ArtifactWriter) noted(in *scope, from store.Position, last bool) {
	if in == nil && !last {
		return
	}
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	var did deed
	if last {
		did = didEnd
		if w.t.open[w.head.Name] == w {
			delete(w.t.open, w.head.Name)
		}
	}
	in.note(w, from, w.pos, did)
}

// event makes the event of a chunk.
func (w *ArtifactWriter) event(parts []a2a.Part, add, last bool) *store.Event {
	artifact := a2a.Artifact{ID: w.head.ID, Name: w.head.Name, Parts: parts}
	if !add {
		artifact.Description, artifact.Metadata, artifact.Extensions = w.head.Description, w.head.Metadata, w.head.Extensions
	}
	return &store.Event{State: a2a.StateWorking, Artifact: &artifact, Append: add, LastChunk: last}
}

// markLast marks the newest chunk of an artifact as its last and reports whether it did: only a
// pending chunk can be marked that is not part of the commit in progress.
func (r *run) markLast(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost != nil {
		return false
	}
	fresh := r.pending[min(r.committing, len(r.pending)):]
	for i, e := range slices.Backward(fresh) {
		if e.Artifact != nil && e.Artifact.ID == id {
			fresh[i].LastChunk = true
			return true
		}
	}
	return false
}

// reserve checks parts and counts their bytes against the limit of the turn.
func (r *run) reserve(name string, parts []a2a.Part) error {
	if n := r.e.cfg.Limits.Parts; len(parts) > n {
		return a2a.Errorf(a2a.CodeTooLarge, "artifact %s: a chunk of %d parts, at most %d are taken", a2a.Quote(name), len(parts), n)
	}
	for _, p := range parts {
		if err := encodable(p); err != nil {
			return a2a.Errorf(a2a.CodeInvalid, "artifact %s: %s", a2a.Quote(name), err)
		}
	}
	return r.account(name, parts)
}

// account counts the bytes of parts that can be stored.
func (r *run) account(name string, parts []a2a.Part) error {
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
