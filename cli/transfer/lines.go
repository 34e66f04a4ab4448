package transfer

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Version is the format version that this package reads and writes.
const Version = 1

// lineType is the value of the member type of a line.
type lineType string

const (
	typeHead     lineType = "holdfast-export"
	typeContext  lineType = "context"
	typeTask     lineType = "task"
	typeStep     lineType = "step"
	typeEvent    lineType = "event"
	typeFeedback lineType = "feedback"
	typeRecords  lineType = "records"
	typeRecord   lineType = "record"
	typeKept     lineType = "kept"
	typeEnd      lineType = "end"
)

// counted are the names of counts of the items that a line of a type counts.
var counted = map[lineType]string{typeContext: Contexts, typeTask: Tasks, typeEvent: Events, typeFeedback: Feedback, typeRecord: Records}

type headLine struct {
	_       struct{} `wire:"const=type:holdfast-export,required"`
	Version int      `json:"version" wire:"required"`
}

type contextLine struct {
	_       struct{}    `wire:"const=type:context,required"`
	Owner   string      `json:"owner" wire:"required"`
	Context a2a.Context `json:"context" wire:"required"`
}

// taskLine is a task as returned to clients, with the internal state of the store.
type taskLine struct {
	_      struct{} `wire:"const=type:task,required"`
	Task   a2a.Task `json:"task" wire:"required"`
	Events int64    `json:"events" wire:"required"`
	Run    runState `json:"run" wire:"required"`
}

type runState struct {
	Turn    int   `json:"turn" wire:"required"`
	SeenSeq int64 `json:"seenSeq" wire:"required"`
	// StartSeq is the task's version at the start of the turn.
	StartSeq int64 `json:"startSeq,omitempty"`
}

type stepLine struct {
	_      struct{} `wire:"const=type:step,required"`
	Name   string   `json:"name" wire:"required"`
	Result []byte   `json:"result" wire:"required"`
	// Artifacts are the step's changes to artifacts, as encoded by the engine.
	Artifacts []byte `json:"artifacts,omitempty"`
}

type eventLine struct {
	_     struct{}    `wire:"const=type:event,required"`
	Seq   int64       `json:"seq" wire:"required"`
	Event store.Event `json:"event" wire:"required"`
}

type feedbackLine struct {
	_        struct{}         `wire:"const=type:feedback,required"`
	Feedback a2a.TaskFeedback `json:"feedback" wire:"required"`
}

// recordsLine starts a document with the records of an owner, instead of a context's.
type recordsLine struct {
	_     struct{} `wire:"const=type:records,required"`
	Owner string   `json:"owner" wire:"required"`
}

type recordLine struct {
	_         struct{} `wire:"const=type:record,required"`
	Namespace string   `json:"namespace" wire:"required"`
	Key       string   `json:"key" wire:"required"`
	Value     []byte   `json:"value" wire:"required"`
	// Expires is absent if the record never expires.
	Expires time.Time `json:"expires,omitempty"`
}

type endLine struct {
	_ struct{} `wire:"const=type:end,required"`
	// Lines are the numbers of lines by type, between the first and this line of the document.
	Lines contract.Counts `json:"lines" wire:"required"`
	// SHA256 is the checksum of all previous lines of the document, with their line breaks.
	SHA256 string `json:"sha256" wire:"required"`
}

func contextLineOf(c *store.Context) *contextLine {
	return &contextLine{Owner: c.Key.Owner, Context: a2a.Context{
		ID: c.Key.ID, Name: c.Name, Description: c.Description, Role: c.Role, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
		Status: c.Status, Tags: c.Tags, Metadata: c.Metadata, ParentID: c.ParentID, ReferenceIDs: c.ReferenceIDs, Extensions: c.Extensions,
	}}
}

// record returns the context of the line.
func (l *contextLine) record() store.Context {
	c := &l.Context
	return store.Context{
		Key:  store.ContextKey{Owner: l.Owner, ID: c.ID},
		Name: c.Name, Description: c.Description, Role: c.Role, Status: c.Status, Tags: c.Tags, Metadata: c.Metadata,
		ParentID: c.ParentID, ReferenceIDs: c.ReferenceIDs, Extensions: c.Extensions,
		CreatedAt: store.Time(c.CreatedAt), UpdatedAt: store.Time(c.UpdatedAt),
	}
}

// taskJSON encodes a task as returned to clients. Equal tasks have equal encodings.
func taskJSON(t *store.Task) ([]byte, error) {
	view := taskView(t)
	return wire.Marshal(&view)
}

func taskView(t *store.Task) a2a.Task {
	out := a2a.Task{ID: t.Key.ID, ContextID: t.ContextID, Status: t.Status, Metadata: t.Metadata}
	for i := range t.History {
		out.History = append(out.History, t.History[i].Message)
	}
	if len(t.Artifacts) > 0 {
		out.Artifacts = t.Artifacts
	}
	return out
}

func feedbackLineOf(f *store.Feedback) *feedbackLine {
	out := a2a.TaskFeedback{ID: f.ID, TaskID: f.Key.ID, Feedback: f.Text, Metadata: f.Metadata, CreatedAt: f.CreatedAt}
	if f.Rating != 0 {
		out.Rating = &f.Rating
	}
	return &feedbackLine{Feedback: out}
}

func (l *feedbackLine) record(owner string) store.Feedback {
	f := &l.Feedback
	out := store.Feedback{
		Key: store.Key{Owner: owner, ID: f.TaskID}, ID: f.ID, Text: f.Feedback, Metadata: f.Metadata, CreatedAt: store.Time(f.CreatedAt),
	}
	if f.Rating != nil {
		out.Rating = *f.Rating
	}
	return out
}

// unfinished reports whether a task in state s is neither final nor waiting for its client.
func unfinished(s a2a.TaskState) bool { return !s.Terminal() && !s.Paused() }

// checkID returns an error for an id or a name that no store accepts.
func checkID(field, id string) error {
	if id == "" || strings.ContainsRune(id, 0) {
		return &wire.Error{Path: field, Rule: "must not be empty or contain a NUL"}
	}
	return nil
}

// checkOwner returns an error for an owner that no document may have. Records of the server itself have
// owners that start with a control character.
func checkOwner(owner string) error {
	if r, _ := utf8.DecodeRuneInString(owner); unicode.IsControl(r) {
		return &wire.Error{Path: "owner", Rule: "must not start with a control character"}
	}
	return checkID("owner", owner)
}

// checkReferences returns an error for a parent or a reference that no store accepts.
func checkReferences(c *store.Context) error {
	if c.ParentID != "" {
		if err := checkID("context.parentContextId", c.ParentID); err != nil {
			return err
		}
	}
	for i, id := range c.ReferenceIDs {
		if err := checkID(fmt.Sprintf("context.referenceContextIds[%d]", i), id); err != nil {
			return err
		}
	}
	return nil
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
