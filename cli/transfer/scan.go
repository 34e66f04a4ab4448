package transfer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// maxLine is the maximum length of a line, in bytes.
const maxLine = 1 << 30

// sink receives the records of documents in order. The scanner has validated them except for
// conflicts with a store.
type sink interface {
	// context starts a document.
	context(ctx context.Context, c store.Context) error
	// task starts a task; its steps, events and feedback follow in this order.
	task(ctx context.Context, t *taskHead) error
	step(s store.Step)
	// event receives an event after it was applied to fold. It must not modify fold. size is
	// the length of the event's line.
	event(ctx context.Context, e *store.Event, fold *store.Task, size int) error
	feedback(ctx context.Context, f store.Feedback) error
	// record receives a record of a document that has records instead of a context.
	record(ctx context.Context, owner string, r store.RecordChange) error
	// kept starts a document that has data of contracts instead of a context.
	kept(owner string)
	// item receives an item of a contract.
	item(ctx context.Context, kind *contract.Kind, item any) error
	// end ends a document with the checksum sum and the numbers of its items.
	end(ctx context.Context, sum string, items contract.Counts) error
}

// taskHead is the content of a task's line.
type taskHead struct {
	ID     string
	State  a2a.TaskState
	Events int64
	Run    runState
	json   []byte // as encoded by taskJSON
}

// nextTypes lists the types that may follow a line of a type; "" is the start of the input.
// After an event checkOrder also checks whether the task has more events. keptTypes has the types
// of contracts.
var nextTypes = map[lineType][]lineType{
	"":           {typeHead},
	typeHead:     {typeContext, typeRecords, typeKept},
	typeRecords:  {typeRecord},
	typeRecord:   {typeRecord, typeEnd},
	typeContext:  {typeTask, typeEnd},
	typeTask:     {typeStep, typeEvent},
	typeStep:     {typeStep, typeEvent},
	typeEvent:    {typeFeedback, typeTask, typeEnd},
	typeFeedback: {typeFeedback, typeTask, typeEnd},
	typeEnd:      {typeHead},
}

// scanner reads and validates documents.
type scanner struct {
	r     *bufio.Reader
	out   sink
	types *keptTypes
	line  int64 // number of the current line
	buf   []byte

	// State of the current document.
	last         lineType
	sum          hash.Hash
	lines        contract.Counts // by type
	context      store.ContextKey
	head         *taskHead
	fold         *store.Task
	previousTask *store.Cursor // position of the previous task in the order of creation
	kept         keptScan
}

// scan reads documents to the end of r. They may have lines of kinds.
func scan(ctx context.Context, r io.Reader, kinds []*contract.Kind, out sink) error {
	s := &scanner{r: bufio.NewReaderSize(r, 1<<16), out: out, types: newKeptTypes(kinds)}
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		raw, err := s.read()
		if errors.Is(err, io.EOF) {
			return s.finish()
		}
		if err != nil {
			return err
		}
		if err := s.parseLine(ctx, raw); err != nil {
			return err
		}
	}
}

// finish returns an error if the input ends within a document.
func (s *scanner) finish() error {
	switch s.last {
	case typeEnd:
		return nil
	case "":
		return a2a.Errorf(a2a.CodeInvalid, "the input is empty")
	default:
		return s.errorf("the input is truncated: a line of type end is missing after this one")
	}
}

// errorf returns an error about the current line.
func (s *scanner) errorf(format string, args ...any) error {
	return a2a.Errorf(a2a.CodeInvalid, "line %d: %s", s.line, fmt.Sprintf(format, args...))
}

// malformed adds the line number to an error of the codec.
func (s *scanner) malformed(err error) error {
	var coded *a2a.Error
	var w *wire.Error
	if errors.As(err, &coded) || !errors.As(err, &w) {
		return err
	}
	return s.errorf("%s", w.Error())
}

// read returns the next line including its line break, if any. The line is valid until the next
// call.
func (s *scanner) read() ([]byte, error) {
	if cap(s.buf) > maxReusedBuffer {
		s.buf = nil
	}
	s.buf = s.buf[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		s.buf = append(s.buf, part...)
		switch {
		case len(s.buf) > maxLine:
			s.line++
			return nil, s.errorf("the line is longer than %d bytes", maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil, errors.Is(err, io.EOF) && len(s.buf) > 0:
			s.line++
			return s.buf, nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read export: %w", err)
	}
}

// parseLine validates one line and passes it to the sink.
func (s *scanner) parseLine(ctx context.Context, raw []byte) error {
	var kind struct {
		Type string `json:"type" wire:"required"`
	}
	err := wire.Unmarshal(raw, &kind)
	t := lineType(kind.Type)
	if raw[len(raw)-1] != '\n' && (err != nil || t != typeEnd) {
		return s.errorf("the input is truncated: the line has no line break")
	}
	if err != nil {
		return s.malformed(err)
	}
	if err := s.checkOrder(t); err != nil {
		return err
	}
	if t == typeHead {
		s.sum, s.lines = sha256.New(), nil
		s.context, s.head, s.fold, s.previousTask = store.ContextKey{}, nil, nil, nil
	}
	if t != typeEnd {
		s.sum.Write(raw)
		if t != typeHead {
			s.lines.Add(string(t), 1)
		}
	}
	if err := s.parse(ctx, t, raw); err != nil {
		return s.malformed(err)
	}
	s.last = t
	return nil
}

// checkOrder returns an error if a line of type t may not follow the previous line.
func (s *scanner) checkOrder(t lineType) error {
	want := s.next()
	if s.last == typeEvent && s.fold.Seq < s.head.Events {
		want = []lineType{typeEvent}
	}
	if slices.Contains(want, t) {
		return nil
	}
	names := make([]string, len(want))
	for i := range want {
		names[i] = string(want[i])
	}
	_, known := nextTypes[t]
	_, kept := s.types.types[t]
	if !known && !kept || t == "" {
		return s.errorf("type %s is unknown, want %s", a2a.Quote(string(t)), strings.Join(names, " or "))
	}
	return s.errorf("type is %s, want %s", t, strings.Join(names, " or "))
}

// next returns the types that may follow the previous line.
func (s *scanner) next() []lineType {
	if next, ok := nextTypes[s.last]; ok && s.last != typeKept {
		return next
	}
	return s.types.after(s.last)
}

func (s *scanner) parse(ctx context.Context, t lineType, raw []byte) error {
	switch t {
	case typeHead:
		return s.parseHead(raw)
	case typeContext:
		return s.parseContext(ctx, raw)
	case typeTask:
		return s.parseTask(ctx, raw)
	case typeStep:
		return s.parseStep(raw)
	case typeEvent:
		return s.parseEvent(ctx, raw)
	case typeFeedback:
		return s.parseFeedback(ctx, raw)
	case typeRecords:
		return s.parseRecords(raw)
	case typeRecord:
		return s.parseRecord(ctx, raw)
	case typeKept:
		return s.parseKept(ctx, raw)
	case typeEnd:
		return s.parseEnd(ctx, raw)
	default:
		return s.parseItem(ctx, t, raw)
	}
}

func (s *scanner) parseHead(raw []byte) error {
	var l headLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	if l.Version != Version {
		return s.errorf("version is %d, want %d: use a program as new as the one that wrote the file", l.Version, Version)
	}
	return nil
}

func (s *scanner) parseContext(ctx context.Context, raw []byte) error {
	var l contextLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	c := l.record()
	if err := errors.Join(checkOwner(c.Key.Owner), checkID("context.contextId", c.Key.ID), checkReferences(&c)); err != nil {
		return err
	}
	change := store.ContextChange{Context: c, Create: true}
	if err := change.Check(); err != nil {
		return s.errorf("%v", err)
	}
	s.context = c.Key
	return s.out.context(ctx, c)
}

func (s *scanner) parseTask(ctx context.Context, raw []byte) error {
	var l taskLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	switch {
	case l.Task.ContextID != s.context.ID:
		return &wire.Error{Path: "task.contextId", Rule: "must be the context of the document"}
	case l.Events < 1:
		return &wire.Error{Path: "events", Rule: "must be 1 or more"}
	case l.Run.Turn < 0 || l.Run.SeenSeq < 0 || l.Run.SeenSeq > l.Events || l.Run.StartSeq < 0 || l.Run.StartSeq > l.Events:
		return &wire.Error{Path: "run", Rule: "must have a turn of 0 or more, and seenSeq and startSeq from 0 to the number of events"}
	}
	if err := checkID("task.id", l.Task.ID); err != nil {
		return err
	}
	view, err := wire.Marshal(&l.Task)
	if err != nil {
		return err
	}
	s.head = &taskHead{ID: l.Task.ID, State: l.Task.Status.State, Events: l.Events, Run: l.Run, json: view}
	s.fold = &store.Task{Key: store.Key{Owner: s.context.Owner, ID: l.Task.ID}, ContextID: s.context.ID}
	return s.out.task(ctx, s.head)
}

func (s *scanner) parseStep(raw []byte) error {
	var l stepLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	if err := checkID("name", l.Name); err != nil {
		return err
	}
	s.out.step(store.Step{Turn: s.head.Run.Turn, Name: l.Name, Result: l.Result, Artifacts: l.Artifacts})
	return nil
}

func (s *scanner) parseEvent(ctx context.Context, raw []byte) error {
	var l eventLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	if want := s.fold.Seq + 1; l.Seq != want {
		return s.errorf("event %d of task %s, want event %d", l.Seq, a2a.Quote(s.head.ID), want)
	}
	if l.Event.State == "" {
		return &wire.Error{Path: "event.state", Rule: "is required"}
	}
	if l.Event.Time.IsZero() {
		return &wire.Error{Path: "event.time", Rule: "is required"}
	}
	if len(fileref.EventRefs(nil, &l.Event)) > 0 {
		return s.errorf("event %d of task %s has a reference to a file of a store", l.Seq, a2a.Quote(s.head.ID))
	}
	l.Event.Seq, l.Event.Time = l.Seq, store.Time(l.Event.Time)
	s.fold.Apply(l.Event)
	if l.Seq == 1 {
		if err := s.checkTaskOrder(); err != nil {
			return err
		}
	}
	if l.Seq == s.head.Events {
		if err := s.checkFold(); err != nil {
			return err
		}
	}
	return s.out.event(ctx, &l.Event, s.fold, len(raw))
}

// checkTaskOrder returns an error if the task was created before the previous one.
func (s *scanner) checkTaskOrder() error {
	q := store.Query{ByCreated: true}
	at := q.CursorOf(s.fold)
	if b := s.previousTask; b != nil && (at.Time.Before(b.Time) || at.Time.Equal(b.Time) && at.ID <= b.ID) {
		return s.errorf("task %s was created before the previous task", a2a.Quote(at.ID))
	}
	s.previousTask = at
	return nil
}

// checkFold returns an error if the task's line does not match its events.
func (s *scanner) checkFold() error {
	got, err := taskJSON(s.fold)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, s.head.json) {
		return s.errorf("the events of task %s do not match its line", a2a.Quote(s.head.ID))
	}
	s.head.json = nil
	return nil
}

func (s *scanner) parseFeedback(ctx context.Context, raw []byte) error {
	var l feedbackLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	f := l.record(s.context.Owner)
	switch {
	case f.Key.ID != s.head.ID:
		return &wire.Error{Path: "feedback.taskId", Rule: "must be the previous task"}
	case f.Rating < 0 || f.Rating > 5:
		return &wire.Error{Path: "feedback.rating", Rule: "must be 1 to 5"}
	}
	if err := checkID("feedback.feedbackId", f.ID); err != nil {
		return err
	}
	return s.out.feedback(ctx, f)
}

// parseRecords starts a document of records: its context has no id.
func (s *scanner) parseRecords(raw []byte) error {
	var l recordsLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	s.context.Owner = l.Owner
	return checkOwner(l.Owner)
}

func (s *scanner) parseRecord(ctx context.Context, raw []byte) error {
	var l recordLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	r := store.RecordChange{Namespace: l.Namespace, Key: l.Key, Value: l.Value, Expires: l.Expires}
	if err := store.CheckRecords(s.context.Owner, []store.RecordChange{r}); err != nil {
		return s.errorf("%v", err)
	}
	return s.out.record(ctx, s.context.Owner, r)
}

func (s *scanner) parseEnd(ctx context.Context, raw []byte) error {
	var l endLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	if err := s.endKind(); err != nil {
		return err
	}
	if l.SHA256 != hex.EncodeToString(s.sum.Sum(nil)) {
		return s.errorf("sha256 does not match the previous lines: the file was changed or damaged")
	}
	if err := s.checkLines(l.Lines); err != nil {
		return err
	}
	return s.out.end(ctx, l.SHA256, itemsOf(s.lines, s.types.kinds))
}

// checkLines returns an error unless the document has these numbers of lines by type.
func (s *scanner) checkLines(lines contract.Counts) error {
	all := maps.Clone(s.lines)
	for t := range lines {
		all.Add(t, 1)
	}
	for _, t := range slices.Sorted(maps.Keys(all)) {
		if lines[t] != s.lines[t] {
			return &wire.Error{Path: "lines." + t, Rule: fmt.Sprintf("is %d, but the document has %d such lines", lines[t], s.lines[t])}
		}
	}
	return nil
}
