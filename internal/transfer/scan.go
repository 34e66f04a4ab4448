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
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// maxLine is the longest line that is read.
const maxLine = 1 << 30

// sink takes what documents say, in their order. What it is given has been checked
// as far as that is possible without a store.
type sink interface {
	// context begins a document.
	context(ctx context.Context, c store.Context) error
	// task begins a task; its steps, then its events, then its feedback follow.
	task(ctx context.Context, t *taskHead) error
	step(s store.Step)
	// event is told after the event was applied to fold, which is not to be changed.
	// size is that of its line.
	event(ctx context.Context, e *store.Event, fold *store.Task, size int) error
	feedback(ctx context.Context, f store.Feedback) error
	// end ends a document, which has this SHA-256.
	end(ctx context.Context, sum string) error
}

// taskHead is what is known of a task before its events.
type taskHead struct {
	ID     string
	State  a2a.TaskState
	Events int64
	Run    runState
	seen   []byte // the task as taskJSON has it
}

// next are the lines that may follow a line of a type; the empty type is the begin.
// What may follow an event depends on whether there are more to come.
var next = map[lineType][]lineType{
	"":           {typeHead},
	typeHead:     {typeContext},
	typeContext:  {typeTask, typeEnd},
	typeTask:     {typeStep, typeEvent},
	typeStep:     {typeStep, typeEvent},
	typeEvent:    {typeFeedback, typeTask, typeEnd},
	typeFeedback: {typeFeedback, typeTask, typeEnd},
	typeEnd:      {typeHead},
}

// scanner reads documents and checks them.
type scanner struct {
	r    *bufio.Reader
	out  sink
	line int64 // number of the line read last
	buf  []byte

	// Of the document under way.
	last    lineType
	sum     hash.Hash
	counted endLine
	context store.ContextKey
	head    *taskHead
	fold    *store.Task
	before  *store.Cursor // place of the task before
}

// scan reads documents to the end of r.
func scan(ctx context.Context, r io.Reader, out sink) error {
	s := &scanner{r: bufio.NewReaderSize(r, 1<<16), out: out}
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
		if err := s.take(ctx, raw); err != nil {
			return err
		}
	}
}

// finish checks that the input may end where it does.
func (s *scanner) finish() error {
	switch s.last {
	case typeEnd:
		return nil
	case "":
		return a2a.Errorf(a2a.CodeInvalid, "the export is empty")
	default:
		return s.wrong("the export is cut short: no line of type end comes after this one")
	}
}

// wrong is an error about the line read last.
func (s *scanner) wrong(format string, args ...any) error {
	return a2a.Errorf(a2a.CodeInvalid, "line %d: %s", s.line, fmt.Sprintf(format, args...))
}

// malformed tells an error of the codec with the line it is in.
func (s *scanner) malformed(err error) error {
	var coded *a2a.Error
	var w *wire.Error
	if errors.As(err, &coded) || !errors.As(err, &w) {
		return err
	}
	return s.wrong("%s", w.Error())
}

// read returns the next line with its line break, if it has one. The line is valid
// until the next call.
func (s *scanner) read() ([]byte, error) {
	if cap(s.buf) > keptLine {
		s.buf = nil
	}
	s.buf = s.buf[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		s.buf = append(s.buf, part...)
		switch {
		case len(s.buf) > maxLine:
			s.line++
			return nil, s.wrong("longer than %d bytes", maxLine)
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

// take reads one line.
func (s *scanner) take(ctx context.Context, raw []byte) error {
	var kind struct {
		Type string `json:"type" wire:"required"`
	}
	err := wire.Unmarshal(raw, &kind)
	t := lineType(kind.Type)
	if raw[len(raw)-1] != '\n' && (err != nil || t != typeEnd) {
		return s.wrong("no line break at its end: the export is cut short")
	}
	if err != nil {
		return s.malformed(err)
	}
	if err := s.allowed(t); err != nil {
		return err
	}
	if t == typeHead {
		s.sum, s.counted = sha256.New(), endLine{}
		s.context, s.head, s.fold, s.before = store.ContextKey{}, nil, nil, nil
	}
	if t != typeEnd {
		s.sum.Write(raw)
	}
	if err := s.parse(ctx, t, raw); err != nil {
		return s.malformed(err)
	}
	s.last = t
	return nil
}

// allowed reports a line that may not stand where it does.
func (s *scanner) allowed(t lineType) error {
	want := next[s.last]
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
	if _, known := next[t]; !known || t == "" {
		return s.wrong("type %s is unknown, want %s", a2a.Quote(string(t)), strings.Join(names, " or "))
	}
	return s.wrong("type is %s, want %s", t, strings.Join(names, " or "))
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
	case typeEnd:
		return s.parseEnd(ctx, raw)
	}
	return s.wrong("type %s is unknown", a2a.Quote(string(t)))
}

func (s *scanner) parseHead(raw []byte) error {
	var l headLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	if l.Version != Version {
		return s.wrong("version of the format is %d, this program reads %d: use a program as new as the one that wrote the export", l.Version, Version)
	}
	return nil
}

func (s *scanner) parseContext(ctx context.Context, raw []byte) error {
	var l contextLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	c := l.record()
	if err := errors.Join(checkID("owner", c.Key.Owner), checkID("context.contextId", c.Key.ID), checkRelatives(&c)); err != nil {
		return err
	}
	change := store.ContextChange{Context: c, Create: true}
	if err := change.Check(); err != nil {
		return s.wrong("%v", err)
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
		return &wire.Error{Path: "task.contextId", Rule: "is not the context of the document"}
	case l.Events < 1:
		return &wire.Error{Path: "events", Rule: "must be 1 or more"}
	case l.Run.Turn < 0 || l.Run.SeenSeq < 0 || l.Run.SeenSeq > l.Events || l.Run.StartSeq < 0 || l.Run.StartSeq > l.Events:
		return &wire.Error{Path: "run", Rule: "must have a turn of 0 or more, and a seenSeq and a startSeq that are one of an event, or 0"}
	}
	if err := checkID("task.id", l.Task.ID); err != nil {
		return err
	}
	seen, err := wire.Marshal(&l.Task)
	if err != nil {
		return err
	}
	s.head = &taskHead{ID: l.Task.ID, State: l.Task.Status.State, Events: l.Events, Run: l.Run, seen: seen}
	s.fold = &store.Task{Key: store.Key{Owner: s.context.Owner, ID: l.Task.ID}, ContextID: s.context.ID}
	s.counted.Tasks++
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
	s.counted.Steps++
	s.out.step(store.Step{Turn: s.head.Run.Turn, Name: l.Name, Result: l.Result, Artifacts: l.Artifacts})
	return nil
}

func (s *scanner) parseEvent(ctx context.Context, raw []byte) error {
	var l eventLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	if want := s.fold.Seq + 1; l.Seq != want {
		return s.wrong("event %d of task %s, want event %d", l.Seq, a2a.Quote(s.head.ID), want)
	}
	if l.Event.State == "" {
		return &wire.Error{Path: "event.state", Rule: "is required"}
	}
	if l.Event.Time.IsZero() {
		return &wire.Error{Path: "event.time", Rule: "is required"}
	}
	l.Event.Seq, l.Event.Time = l.Seq, store.Time(l.Event.Time)
	s.fold.Apply(l.Event)
	s.counted.Events++
	if l.Seq == 1 {
		if err := s.checkPlace(); err != nil {
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

// checkPlace reports a task that was created before the one that stands before it.
func (s *scanner) checkPlace() error {
	q := store.Query{ByCreated: true}
	at := q.CursorOf(s.fold)
	if b := s.before; b != nil && (at.Time.Before(b.Time) || at.Time.Equal(b.Time) && at.ID <= b.ID) {
		return s.wrong("task %s was created before the task that stands before it", a2a.Quote(at.ID))
	}
	s.before = at
	return nil
}

// checkFold reports a task that is not what its events make.
func (s *scanner) checkFold() error {
	got, err := taskJSON(s.fold)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, s.head.seen) {
		return s.wrong("the events of task %s do not make the task that its own line tells", a2a.Quote(s.head.ID))
	}
	s.head.seen = nil
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
		return &wire.Error{Path: "feedback.taskId", Rule: "is not the task before"}
	case f.Rating < 0 || f.Rating > 5:
		return &wire.Error{Path: "feedback.rating", Rule: "must be 1 to 5"}
	}
	if err := checkID("feedback.feedbackId", f.ID); err != nil {
		return err
	}
	s.counted.Feedback++
	return s.out.feedback(ctx, f)
}

func (s *scanner) parseEnd(ctx context.Context, raw []byte) error {
	var l endLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	s.counted.SHA256 = hex.EncodeToString(s.sum.Sum(nil))
	if l.SHA256 != s.counted.SHA256 {
		return s.wrong("sha256 is not that of the lines before: the export was changed or damaged")
	}
	if l != s.counted {
		return s.wrong("says there are %d tasks, %d steps, %d events and %d feedback, but there are %d, %d, %d and %d", l.Tasks, l.Steps, l.Events, l.Feedback,
			s.counted.Tasks, s.counted.Steps, s.counted.Events, s.counted.Feedback)
	}
	return s.out.end(ctx, l.SHA256)
}
