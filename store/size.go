package store

import "github.com/holdfast-dev/holdfast/a2a"

// Size returns the approximate size in bytes of the task's content, as far as it was read.
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

// PartsSize returns the approximate size in bytes of the content of parts.
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

// Size returns the approximate size in bytes of the event's content.
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

// valueSize returns the approximate size in bytes of a JSON value. Each value counts at
// least 8, so that empty values count too.
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
