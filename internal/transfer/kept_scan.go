package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// keptItem is a part of a document with kept data, in the order of its lines.
type keptItem struct {
	session *history.Session
	message *history.Message // of the last session
	fact    []memory.Memory
	// document is one of a collection.
	document *keptDocument
	graph    *keptGraph
	blob     *blob.Info
	chunk    []byte // of the last blob
	state    *keptState
}

// keptDocument is a document with the settings of its collection.
type keptDocument struct {
	collection vector.Collection
	vector.Document
}

// write returns the write of documents of the same collection.
func (d *keptDocument) write(documents ...vector.Document) vector.WriteParams {
	return vector.WriteParams{Documents: documents, Metric: d.collection.Metric, Embedder: d.collection.Embedder}
}

// keptState is a session state.
type keptState struct {
	key    memory.Key
	values map[string]any
}

// keptScan is the state of the scanner in a document with kept data.
type keptScan struct {
	session history.Session
	lastSeq int64
	blob    blob.Info
	content hash.Hash // of the blob, nil without one
	size    int64
	graph   *graphScan
}

// parseKept starts a document of kept data.
func (s *scanner) parseKept(ctx context.Context, raw []byte) error {
	var l keptHeadLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	s.context, s.kept = store.ContextKey{Owner: l.Owner, ID: keptID}, keptScan{}
	if err := checkOwner(l.Owner); err != nil {
		return err
	}
	return s.out.kept(ctx, l.Owner, keptItem{})
}

// parseItem parses a line of a document of kept data.
func (s *scanner) parseItem(ctx context.Context, t lineType, raw []byte) (err error) {
	if t != typeChunk {
		if err := s.endBlob(); err != nil {
			return err
		}
	}
	var item keptItem
	switch t {
	case typeSession:
		item.session, err = s.parseSession(raw)
	case typeMessage:
		item.message, err = s.parseMessage(raw)
	case typeFact:
		item.fact, err = s.parseFact(raw)
	case typeDocument:
		item.document, err = s.parseDocument(raw)
	case typeEntity:
		item.graph, err = s.parseEntity(raw)
	case typeRelationship:
		item.graph, err = s.parseRelationship(raw)
	case typeBlob:
		item.blob, err = s.parseBlob(raw)
	case typeChunk:
		item.chunk, err = s.parseChunk(raw)
	default:
		item.state, err = s.parseState(raw)
	}
	if err != nil {
		return s.invalid(err)
	}
	return s.out.kept(ctx, s.context.Owner, item)
}

// invalid adds the line to an error of a contract's rules.
func (s *scanner) invalid(err error) error {
	var coded *a2a.Error
	if errors.As(err, &coded) && coded.Code == a2a.CodeInvalid && !strings.HasPrefix(coded.Message, fmt.Sprintf("line %d: ", s.line)) {
		return s.errorf("%s", coded.Message)
	}
	return err
}

func (s *scanner) parseSession(raw []byte) (*history.Session, error) {
	var l sessionLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	s.kept.session, s.kept.lastSeq = l.session(s.context.Owner), 0
	s.counted.Sessions++
	session := s.kept.session
	return &session, session.Key.Check()
}

func (s *scanner) parseMessage(raw []byte) (*history.Message, error) {
	var l messageLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	m := l.message()
	if m.Seq <= s.kept.lastSeq {
		return nil, s.errorf("message %d follows message %d", m.Seq, s.kept.lastSeq)
	}
	s.kept.lastSeq = m.Seq
	s.counted.Messages++
	return &m, history.CheckRestore(&s.kept.session, []history.Message{m})
}

func (s *scanner) parseFact(raw []byte) ([]memory.Memory, error) {
	var l factLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	versions := l.fact(s.context.Owner)
	s.counted.Facts++
	_, err := memory.CheckVersions(versions)
	return versions, err
}

func (s *scanner) parseDocument(raw []byte) (*keptDocument, error) {
	var l documentLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	s.counted.Documents++
	d, err := l.document()
	if err != nil {
		return nil, err
	}
	w, err := vector.NewWrite(vector.Key{Owner: s.context.Owner, Collection: l.Collection}, d.write(d.Document))
	if err == nil {
		_, err = w.Admit(nil)
	}
	return d, err
}

func (s *scanner) parseBlob(raw []byte) (*blob.Info, error) {
	var l blobLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	b, err := l.blob()
	s.kept.blob, s.kept.content, s.kept.size = b, sha256.New(), 0
	s.counted.Blobs++
	return &b, err
}

func (s *scanner) parseChunk(raw []byte) ([]byte, error) {
	var l chunkLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	s.kept.content.Write(l.Data)
	if s.kept.size += int64(len(l.Data)); s.kept.size > s.kept.blob.Size {
		return nil, s.errorf("blob %s has more than %d bytes", s.kept.blob.Ref, s.kept.blob.Size)
	}
	return l.Data, nil
}

// endBlob checks the content of the last blob.
func (s *scanner) endBlob() error {
	k := &s.kept
	if k.content == nil {
		return nil
	}
	var sum blob.Digest
	k.content.Sum(sum[:0])
	k.content = nil
	switch {
	case k.size != k.blob.Size:
		return s.errorf("the content of blob %s before this line has %d bytes, want %d", k.blob.Ref, k.size, k.blob.Size)
	case sum != k.blob.Digest:
		return s.errorf("the content of blob %s before this line does not match its sha256", k.blob.Ref)
	}
	return nil
}

func (s *scanner) parseState(raw []byte) (*keptState, error) {
	var l stateLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	s.counted.States++
	state := &keptState{memory.Key{Owner: s.context.Owner, Agent: l.Agent, Session: l.Session}, l.Values}
	return state, state.key.Check()
}
