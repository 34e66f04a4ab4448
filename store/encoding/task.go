package encoding

import (
	"fmt"
	"math/bits"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// snapshot is the content of a task after a change. Stores have its other fields in columns.
type snapshot struct {
	V         int                  `json:"v,omitempty"`
	Status    a2a.TaskStatus       `json:"status"`
	History   []store.HistoryEntry `json:"history,omitempty"`
	Artifacts []a2a.Artifact       `json:"artifacts,omitempty"`
	Metadata  map[string]any       `json:"metadata,omitempty"`
	Sender    *a2a.Principal       `json:"sender,omitempty"`
}

// snapshotOutline is a snapshot that is read without its artifacts.
type snapshotOutline struct {
	V        int                  `json:"v,omitempty"`
	Status   a2a.TaskStatus       `json:"status"`
	History  []store.HistoryEntry `json:"history,omitempty"`
	Metadata map[string]any       `json:"metadata,omitempty"`
	Sender   *a2a.Principal       `json:"sender,omitempty"`
}

// minSnapshotLog is the size in bytes below which a log is read as fast as a snapshot.
const minSnapshotLog = 4 << 10

// Snapshot encodes t, the Snapshot of a change that adds the given number of bytes to the log,
// if a store should save it in place of the earlier one. Otherwise it returns nil. A snapshot
// is saved when LogSize has doubled, if it at least halves the number of bytes that a read of
// the task reads. So a read reads at most about four times the size of the task, and all
// snapshots ever written are together no larger than the log. In a log with large messages
// most bytes are content of the task, which a snapshot would only repeat.
func Snapshot(t *store.Task, added int) ([]byte, error) {
	if t == nil || added == 0 {
		return nil, nil
	}
	after := t.LogSize + int64(added)
	if after < minSnapshotLog || bits.Len64(uint64(after)) == bits.Len64(uint64(t.LogSize)) {
		return nil, nil
	}
	buf, err := form.Append(make([]byte, 0, 2048), &snapshot{Status: t.Status, History: t.History, Artifacts: t.Artifacts, Metadata: t.Metadata, Sender: t.Sender})
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if 2*int64(len(buf)) > after {
		return nil, nil
	}
	return buf, nil
}

// DecodeSnapshot sets the content of t from a snapshot. Long strings of it share memory with
// data, which must not change afterwards.
func DecodeSnapshot(t *store.Task, data []byte, omitArtifacts bool) (err error) {
	var s snapshot
	if omitArtifacts {
		var o snapshotOutline
		err = form.UnmarshalShared(data, &o)
		s = snapshot{V: o.V, Status: o.Status, History: o.History, Metadata: o.Metadata, Sender: o.Sender}
	} else {
		err = form.UnmarshalShared(data, &s)
	}
	if err == nil {
		err = check(s.V)
	}
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	t.Status, t.History, t.Artifacts, t.Metadata, t.Sender = s.Status, s.History, s.Artifacts, s.Metadata, s.Sender
	return nil
}
