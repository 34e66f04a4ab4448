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

// chunkOverhead is counted for each chunk in addition to its content, in bytes.
const chunkOverhead = 64

// ArtifactWriter streams one artifact. Each write is a chunk that is soon sent to readers of
// the task. The chunks together form one artifact, in which consecutive text is one part. It is
// safe for concurrent use.
//
// At the end of a turn, the artifact has the content that the final attempt wrote, as if there
// had been no earlier attempts. Content that earlier attempts stored and the final attempt
// writes again is stored once; their other content is replaced. If only earlier attempts wrote
// the artifact, the end of the turn removes it, or restores it to its state before the turn.
// Content written during a [Turn.Step] belongs to the step. A later attempt that finds the step
// recorded writes that content again.
type ArtifactWriter struct {
	t *Turn

	mu   sync.Mutex
	head a2a.Artifact // without parts
	// explicit is set if the id was given instead of derived from the name.
	explicit bool
	started  bool
	closed   bool
	pos      store.Position // end of the written content
	// generation counts the events of the turn that replaced the artifact's content, including
	// the one that started the current content.
	generation int
	// earlier is the artifact that earlier attempts stored, while the content written so far is
	// a prefix of it; otherwise nil. Content that is already stored is not committed again.
	earlier *earlierArtifact
}

// turnArtifacts are the artifacts that this attempt of a turn has started. Callers of the methods hold Turn.mu, which
// guards the fields.
type turnArtifacts struct {
	taskID string
	turn   int // number of the turn

	writers []*ArtifactWriter
	open    map[string]*ArtifactWriter // by name, the newest one that is not complete
	uses    map[string]int             // number of derived ids by name
	// generations counts the events that replaced an artifact, by artifact id. It is used for
	// explicit ids and if there were earlier attempts.
	generations map[string]int
	// startedOrder lists the ids of the artifacts that this attempt has started; startedIDs is the
	// set of these ids. Both are nil if there were no earlier attempts.
	startedOrder []string
	startedIDs   map[string]bool
}

// Artifact starts an artifact. Its id is derived from the task, the turn, the name, and how
// often the attempt has used the name. Every attempt of the turn therefore writes the same
// artifact, and a second artifact with the same name has another id.
func (t *Turn) Artifact(name string) *ArtifactWriter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.startArtifact(name)
}

// OpenArtifact returns the newest artifact with the given name that [Turn.Artifact] or
// OpenArtifact started and that is not complete. If there is none, it starts one. Use it for an
// artifact that is written both within and outside of steps. An artifact that a recorded step
// started is found as if the step had run again.
func (t *Turn) OpenArtifact(name string) *ArtifactWriter {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.artifacts.open[name]; w != nil {
		return w
	}
	return t.startArtifact(name)
}

// startArtifact starts an artifact that OpenArtifact can find. The caller holds t.mu.
func (t *Turn) startArtifact(name string) *ArtifactWriter {
	w := t.artifacts.newWriter(t, a2a.Artifact{ID: t.artifacts.nextID(name), Name: name}, false)
	t.artifacts.setOpen(w)
	if in, err := t.steps.innermost(); err == nil { // on an error, writes to w are rejected too
		in.addWrite(w, w.pos, w.pos, wroteStart)
	}
	return w
}

// setOpen makes Turn.OpenArtifact return w.
func (a *turnArtifacts) setOpen(w *ArtifactWriter) {
	if a.open == nil {
		a.open = make(map[string]*ArtifactWriter)
	}
	a.open[w.head.Name] = w
}

// newWriter starts an artifact of t.
func (a *turnArtifacts) newWriter(t *Turn, head a2a.Artifact, explicit bool) *ArtifactWriter {
	w := &ArtifactWriter{t: t, head: head, explicit: explicit}
	a.writers = append(a.writers, w)
	return w
}

// AddArtifact adds a complete artifact, of at least one part. If a.ID is empty, the id is derived
// from the name, as in [Turn.Artifact].
func (t *Turn) AddArtifact(a a2a.Artifact) error {
	if len(a.Parts) == 0 {
		return a2a.Errorf(a2a.CodeInvalid, "artifact %s: has no parts", a2a.Quote(a.Name))
	}
	parts, err := t.checkedParts(a.Name, a.Parts)
	if err != nil {
		return err
	}
	t.mu.Lock()
	in, err := t.steps.innermost()
	if t.ended {
		err = ErrEnded
	}
	if err != nil {
		t.mu.Unlock()
		return err
	}
	id := t.artifacts.nextID(a.Name)
	if a.ID != "" {
		id = a.ID
	}
	w := t.artifacts.newWriter(t, a2a.Artifact{ID: id, Name: a.Name, Description: a.Description, Metadata: a.Metadata, Extensions: a.Extensions}, a.ID != "")
	in.addWrite(w, w.pos, w.pos, wroteStart|wroteEnd)
	t.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return w.writeChunk(in, parts, true)
}

// Describe sets the description and metadata of the artifact. It has no effect after the first
// write.
func (w *ArtifactWriter) Describe(description string, metadata map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return
	}
	w.head.Description, w.head.Metadata = description, store.CopyMap(metadata)
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	if in, err := w.t.steps.innermost(); err == nil {
		in.addWrite(w, w.pos, w.pos, wroteDescription)
	}
}

// ID returns the artifact's id.
func (w *ArtifactWriter) ID() string { return w.head.ID }

// Write appends text. It implements io.Writer.
func (w *ArtifactWriter) Write(p []byte) (int, error) { return w.WriteString(string(p)) }

// WriteString appends text. It implements io.StringWriter.
func (w *ArtifactWriter) WriteString(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	if err := w.WriteParts(a2a.TextPart{Text: s}); err != nil {
		return 0, err
	}
	return len(s), nil
}

// WriteParts appends parts as one chunk. Without parts it does nothing. It returns an error while
// several steps run that are not nested in each other, because the step that the write belongs to
// is unknown.
func (w *ArtifactWriter) WriteParts(parts ...a2a.Part) error {
	in, err := w.t.writeScope()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return a2a.Errorf(a2a.CodeInvalid, "artifact %s is closed", a2a.Quote(w.head.Name))
	}
	if len(parts) == 0 {
		return nil
	}
	if parts, err = w.t.checkedParts(w.head.Name, parts); err != nil {
		return err
	}
	return w.writeChunk(in, parts, false)
}

// checkedParts returns parts in their stored form and counts them against the limit of the turn.
func (t *Turn) checkedParts(name string, parts []a2a.Part) ([]a2a.Part, error) {
	parts, err := t.files.store(parts)
	if err != nil {
		return nil, err
	}
	if err := t.r.out.checkAndCountParts(name, parts); err != nil {
		return nil, err
	}
	for i, p := range parts {
		text, ok := p.(a2a.TextPart)
		if !ok || utf8.ValidString(text.Text) {
			continue
		}
		// Replace invalid UTF-8 as the encoder does, so that positions match those in the log.
		text.Text = string([]rune(text.Text))
		parts = slices.Clone(parts)
		parts[i] = text
	}
	return parts, nil
}

// Close completes the artifact. A second call has no effect. The end of the turn closes artifacts
// that the handler left open. The newest chunk becomes the artifact's last one, unless it has been
// sent already: clients fail on a last chunk without content, and A2A does not require one. An
// artifact without content is not stored.
func (w *ArtifactWriter) Close() error {
	in, err := w.t.writeScope()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.close(in)
}

// close completes the artifact. The caller holds w.mu.
func (w *ArtifactWriter) close(in *stepScope) error {
	if w.closed {
		return nil
	}
	w.closed = true
	switch {
	case !w.started:
	case w.earlier != nil:
		return w.writeChunk(in, nil, true)
	default:
		w.t.r.out.markLast(w.head.ID)
	}
	w.noteWrite(in, w.pos, true)
	return nil
}

// writeChunk appends parts, and completes the artifact if last is set. The caller holds w.mu.
func (w *ArtifactWriter) writeChunk(in *stepScope, parts []a2a.Part, last bool) error {
	if !w.started {
		if err := w.t.r.e.checkHead(&w.head); err != nil {
			return err
		}
		w.earlier = w.reuseEarlier()
	}
	event := w.event(parts, w.started, last)
	if w.earlier != nil {
		event = w.earlier.eventFor(w, parts, last)
	}
	if event != nil {
		if err := w.t.r.out.enqueue(*event); err != nil {
			return err
		}
		w.earlier = nil
		if !event.Append {
			w.generation = w.countReplacement()
		}
	}
	from := w.pos
	w.started, w.pos = true, from.After(parts)
	w.noteWrite(in, from, last)
	return nil
}

// checkHead checks the size of the name, description and metadata of an artifact.
func (s *settings) checkHead(a *a2a.Artifact) error {
	if n, limit := len(a.Name)+len(a.Description), s.cfg.Limits.MetadataBytes; n > limit {
		return a2a.Invalid("artifact", "has a name and description of %d bytes, want at most %d", n, limit)
	}
	return s.checkMap("artifact.metadata", a.Metadata)
}

// noteWrite records, in the step in and the steps around it, the content written since from and,
// if last is set, the end of the artifact.
func (w *ArtifactWriter) noteWrite(in *stepScope, from store.Position, last bool) {
	if in == nil && !last {
		return
	}
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	var flags writeFlags
	if last {
		flags = wroteEnd
		if w.t.artifacts.open[w.head.Name] == w {
			delete(w.t.artifacts.open, w.head.Name)
		}
	}
	in.addWrite(w, from, w.pos, flags)
}

// event returns the event that stores parts as a chunk. If add is false, the chunk replaces the
// artifact's content.
func (w *ArtifactWriter) event(parts []a2a.Part, add, last bool) *store.Event {
	artifact := a2a.Artifact{ID: w.head.ID, Name: w.head.Name, Parts: parts}
	if !add {
		artifact.Description, artifact.Metadata, artifact.Extensions = w.head.Description, w.head.Metadata, w.head.Extensions
	}
	return &store.Event{State: a2a.StateWorking, Artifact: &artifact, Append: add, LastChunk: last}
}

// markLast marks the newest chunk of an artifact as its last one, if it is pending outside the commit
// in progress.
func (o *output) markLast(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fresh := o.pending[min(o.committing, len(o.pending)):]
	for i, e := range slices.Backward(fresh) {
		if e.Artifact != nil && e.Artifact.ID == id {
			fresh[i].LastChunk = true
			return
		}
	}
}

// checkAndCountParts checks parts and counts their bytes against the limit of the turn.
func (o *output) checkAndCountParts(name string, parts []a2a.Part) error {
	if n := o.hub.cfg.Limits.Parts; len(parts) > n {
		return a2a.Errorf(a2a.CodeTooLarge, "artifact %s: chunk has %d parts, want at most %d", a2a.Quote(name), len(parts), n)
	}
	for _, p := range parts {
		if err := checkEncodable(p); err != nil {
			return a2a.Errorf(a2a.CodeInvalid, "artifact %s: %s", a2a.Quote(name), err)
		}
	}
	return o.countArtifactBytes(name, parts)
}

// countArtifactBytes counts the bytes of parts against the limit of the turn.
func (o *output) countArtifactBytes(name string, parts []a2a.Part) error {
	size := chunkOverhead + store.PartsSize(parts)
	o.mu.Lock()
	defer o.mu.Unlock()
	if limit := o.hub.cfg.Limits.ArtifactBytes; o.artifactBytes+size > limit {
		return a2a.Errorf(a2a.CodeTooLarge, "artifact %s: the artifacts of the turn exceed the limit of %d bytes", a2a.Quote(name), limit)
	}
	o.artifactBytes += size
	return nil
}

// checkEncodable returns an error if JSON cannot encode a part. Text and files can always be
// encoded.
func checkEncodable(p a2a.Part) error {
	switch p := p.(type) {
	case a2a.TextPart:
		if len(p.Metadata) == 0 {
			return nil
		}
	case a2a.FilePart:
		if p.File != nil && len(p.Metadata) == 0 {
			return nil
		}
	case nil:
		return errors.New("a part must not be nil")
	}
	_, err := wire.Marshal(p)
	return err
}

// nextID returns the id of the next artifact with a name. The same call in another attempt
// of the turn returns the same id.
func (a *turnArtifacts) nextID(name string) string {
	if a.uses == nil {
		a.uses = make(map[string]int)
	}
	a.uses[name]++
	text := append(make([]byte, 0, 128), a.taskID...)
	text = strconv.AppendInt(append(text, 0), int64(a.turn), 10)
	text = append(append(text, 0), name...)
	text = strconv.AppendInt(append(text, 0), int64(a.uses[name]), 10)
	return hashID(sha256.Sum256(text))
}

// hashID formats the first 16 bytes of a hash as a UUID.
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
