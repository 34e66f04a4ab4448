package sqlrow

import (
	"unsafe"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/content"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// Content is what a change adds to the log of its task, encoded.
type Content struct {
	EventsJSON   string
	SnapshotJSON string          // "" if none is worth storing
	Values       []content.Value // large values cut from EventsJSON and SnapshotJSON
	Large        int64           // size of the large values of EventsJSON
	logSize      int64           // of the task after the change
	recordBytes  int
}

// Encode encodes the content of a change.
func Encode(c *store.Change) (e Content, err error) {
	var events, snapshot []byte
	if len(c.Events) > 0 {
		events, err = encoding.Events(c.Events, c.Key, c.ContextID())
	}
	if err == nil {
		snapshot, err = encoding.Snapshot(c.Snapshot, len(events))
	}
	if err != nil {
		return e, a2a.Wrap(a2a.CodeInvalid, err, "task %s cannot be written as JSON", a2a.Quote(c.Key.ID))
	}
	switch {
	case snapshot != nil:
		e.logSize = int64(len(snapshot))
	case c.Snapshot != nil:
		e.logSize = c.Snapshot.LogSize + int64(len(events))
	}
	e.recordBytes = RecordBytes(c.Records)
	e.EventsJSON, e.Values = content.Cut(Text(events), nil)
	e.Large = int64(len(events) - len(e.EventsJSON))
	e.SnapshotJSON, e.Values = content.Cut(Text(snapshot), e.Values)
	return e, nil
}

// RecordBytes returns the size of the values that changes of records write.
func RecordBytes(changes []store.RecordChange) (n int) {
	for i := range changes {
		n += len(changes[i].Value)
	}
	return n
}

// Size returns the number of bytes of JSON and of records that the change writes.
func (e *Content) Size() int {
	size := len(e.EventsJSON) + len(e.SnapshotJSON) + e.recordBytes
	for i := range e.Values {
		size += len(e.Values[i].JSON)
	}
	return size
}

// Result returns the result of a change with the LogSize of its task.
func (e *Content) Result(c *store.Change, r store.Result) store.Result {
	if c.Snapshot != nil && r.Err == nil && r.Seq == c.Snapshot.Seq {
		r.LogSize = e.logSize
	}
	return r
}

// Text returns bytes as a string without copying them. The bytes must not change afterwards.
func Text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
