package store

import (
	"math/bits"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Size is roughly how many bytes the content of a task takes, as far as it was
// read.
func (t *Task) Size() (size int) {
	if m := t.Status.Message; m != nil {
		size += PartsSize(m.Parts)
	}
	for i := range t.History {
		size += PartsSize(t.History[i].Message.Parts)
	}
	for i := range t.Artifacts {
		size += PartsSize(t.Artifacts[i].Parts)
	}
	return size
}

// PartsSize is roughly how many bytes the content of parts takes.
func PartsSize(parts []a2a.Part) (size int) {
	for _, p := range parts {
		switch p := p.(type) {
		case a2a.TextPart:
			size += len(p.Text) + 8*len(p.Embeddings)
		case a2a.FilePart:
			if f, ok := p.File.(a2a.FileWithBytes); ok {
				size += len(f.Bytes)
			}
		case a2a.DataPart:
			size += valueSize(p.Data)
		}
	}
	return size
}

// Size is roughly how many bytes the content of an event takes.
func (e *Event) Size() (size int) {
	if e.Message != nil {
		size += PartsSize(e.Message.Parts)
	}
	if e.Received != nil {
		size += PartsSize(e.Received.Parts)
	}
	if e.Artifact != nil {
		size += PartsSize(e.Artifact.Parts)
	}
	if len(e.Metadata) > 0 {
		size += valueSize(e.Metadata)
	}
	return size
}

// EventsSize returns the sum of the sizes of events.
func EventsSize(events []Event) (size int64) {
	for i := range events {
		size += int64(events[i].Size())
	}
	return size
}

// valueSize is roughly how many bytes a value that JSON can express takes: with 8 for
// each value, so that an empty one counts too.
func valueSize(v any) int {
	size := 8
	switch v := v.(type) {
	case string:
		size += len(v)
	case map[string]any:
		for name, member := range v {
			size += len(name) + valueSize(member)
		}
	case []any:
		for _, element := range v {
			size += valueSize(element)
		}
	}
	return size
}

// snapshotMinimum is the size in bytes up to which a log is read as fast as a snapshot.
const snapshotMinimum = 4 << 10

// SnapshotDue reports whether a store should encode the task, which is the Snapshot of a
// change that adds bytes to the log: each time LogSize has doubled. The store keeps
// the snapshot if SnapshotPays, in the place of an earlier one. So a read reads at most about
// four times the size of the task, and all snapshots that were ever written are together no
// larger than the log.
func (t *Task) SnapshotDue(added int) bool {
	after := t.LogSize + int64(added)
	return after >= snapshotMinimum && bits.Len64(uint64(after)) != bits.Len64(uint64(t.LogSize))
}

// SnapshotPays reports whether a snapshot of the given size at least halves what a read of the
// task reads. Most of a log that holds large messages is the content of the task: a snapshot
// would only repeat it.
func (t *Task) SnapshotPays(added, snapshot int) bool {
	return 2*int64(snapshot) <= t.LogSize+int64(added)
}
