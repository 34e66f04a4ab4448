package a2a

import (
	"math"
	"slices"
)

// The Validate methods report all violations of protocol rules that depend on the value alone
// as an [*InvalidError]. They repeat the checks of decoding (missing members, unknown values)
// for values that a program can construct. Ids of messages, tasks and contexts are opaque.

// MaxInlineFile is the recommended maximum size of an inline file in bytes. An agent may set
// another limit.
const MaxInlineFile = 1 << 20

// Validate reports all violated rules.
func (t TextPart) Validate() error {
	var p Problems
	p.mediaType("mediaType", t.MediaType)
	p.vector(t.Embeddings)
	return p.Err()
}

// Validate reports all violated rules, including the rules of the file.
func (f FilePart) Validate() error {
	var p Problems
	switch file := f.File.(type) {
	case FileWithBytes:
		p.In("file", file.Validate())
	case FileWithURI:
		p.In("file", file.Validate())
	default:
		p.Add("file", "must have exactly one of bytes, uri")
	}
	p.vector(f.Embeddings)
	return p.Err()
}

// Validate reports all violated rules.
func (p DataPart) Validate() error {
	var found Problems
	found.mediaType("mediaType", p.MediaType)
	found.vector(p.Embeddings)
	return found.Err()
}

// Validate reports all violated rules. Decoding detects files with both bytes and uri, and
// bytes that are not base64.
func (f FileWithBytes) Validate() error {
	var p Problems
	if n := len(f.Bytes); n > MaxInlineFile {
		p.Advise("bytes", "has %d bytes, want at most %d inline", n, MaxInlineFile)
	}
	p.mediaType("mimeType", f.MimeType)
	p.vector(f.Embeddings)
	return p.Err()
}

// Validate reports all violated rules.
func (f FileWithURI) Validate() error {
	var p Problems
	p.absolute("uri", f.URI)
	p.mediaType("mimeType", f.MimeType)
	p.vector(f.Embeddings)
	return p.Err()
}

func (p *Problems) vector(v []float64) {
	for i, f := range v {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			p.Add(Index("embeddings", i), "must be a finite number")
		}
	}
}

func (p *Problems) parts(parts []Part) {
	p.Check(len(parts) > 0, "parts", "must not be empty")
	for i, part := range parts {
		if len(p.list) >= maxProblems {
			return
		}
		v, ok := part.(interface{ Validate() error })
		if !ok {
			p.Add(Index("parts", i), "must not be null")
		} else if err := v.Validate(); err != nil {
			p.In(Index("parts", i), err)
		}
	}
}

// Validate reports all violated rules.
func (m Message) Validate() error {
	var p Problems
	p.notEmpty("messageId", m.ID)
	if !slices.Contains(m.Role.EnumValues(), string(m.Role)) {
		p.Add("role", "is %s, want user, agent or system", Quote(string(m.Role)))
	}
	p.parts(m.Parts)
	return p.Err()
}

// Validate reports all violated rules.
func (a Artifact) Validate() error {
	var p Problems
	p.notEmpty("artifactId", a.ID)
	p.parts(a.Parts)
	return p.Err()
}

// Validate reports all violated rules.
func (s MessageSendParams) Validate() error {
	var p Problems
	p.In("message", s.Message.Validate())
	if s.Configuration != nil {
		p.In("configuration", s.Configuration.Validate())
	}
	return p.Err()
}

// Validate reports all violated rules.
func (c MessageSendConfiguration) Validate() error {
	var p Problems
	for i, mode := range c.AcceptedOutputModes {
		if mode == "" {
			p.Add(Index("acceptedOutputModes", i), "must not be empty")
		}
	}
	p.historyLength(c.HistoryLength)
	if c.PushNotificationConfig != nil {
		p.In("pushNotificationConfig", c.PushNotificationConfig.Validate())
	}
	return p.Err()
}

// Validate reports all violated rules.
func (q TaskQueryParams) Validate() error {
	var p Problems
	p.notEmpty("id", q.ID)
	p.historyLength(q.HistoryLength)
	return p.Err()
}

// Validate reports all violated rules.
func (i TaskIDParams) Validate() error {
	var p Problems
	p.notEmpty("id", i.ID)
	return p.Err()
}

// Validate reports all violated rules, except the rules of paging, which the server checks.
func (l ListTasksParams) Validate() error {
	var p Problems
	p.historyLength(l.HistoryLength)
	return p.Err()
}

// Validate reports all violated rules.
func (s TaskSendParams) Validate() error {
	var p Problems
	p.notEmpty("taskId", s.TaskID)
	p.notEmpty("contextId", s.ContextID)
	if s.Message != nil {
		p.In("message", s.Message.Validate())
	}
	p.historyLength(s.HistoryLength)
	return p.Err()
}

// Validate reports all violated rules.
func (f TaskFeedbackParams) Validate() error {
	var p Problems
	p.notEmpty("taskId", f.TaskID)
	if f.Rating != nil && (*f.Rating < 1 || *f.Rating > 5) {
		p.Add("rating", "is %d, want 1 to 5", *f.Rating)
	}
	return p.Err()
}

// Validate reports all violated rules. [CheckParents] detects cycles of several contexts.
func (c Context) Validate() error {
	var p Problems
	p.notEmpty("contextId", c.ID)
	p.Check(!c.UpdatedAt.Before(c.CreatedAt), "updatedAt", "is before createdAt")
	p.Check(c.ID == "" || c.ParentID != c.ID, "parentContextId", "is the context itself")
	p.Check(c.Status == "" || slices.Contains(c.Status.EnumValues(), string(c.Status)), "status", "is %s, want active, paused, completed or archived", Quote(string(c.Status)))
	return p.Err()
}

// CheckParents returns an error if setting parent as the parent of the context id would close
// a cycle. parentOf returns the parent of a context, "" if it has none.
func CheckParents(id, parent string, parentOf func(id string) string) error {
	var p Problems
	seen := map[string]bool{id: true}
	for at := parent; at != ""; at = parentOf(at) {
		if seen[at] {
			p.Add("parentContextId", "is %s, which makes the context its own ancestor", Quote(parent))
			break
		}
		seen[at] = true
	}
	return p.Err()
}

// Validate reports all violated rules.
func (q ContextQueryParams) Validate() error {
	var p Problems
	p.notEmpty("contextId", q.ContextID)
	p.historyLength(q.HistoryLength)
	return p.Err()
}

// Validate reports all violated rules.
func (l ListContextsParams) Validate() error {
	var p Problems
	p.historyLength(l.HistoryLength)
	return p.Err()
}

// Validate reports all violated rules that depend on the params alone. The server checks the
// limits of contexts.
func (u UpdateContextParams) Validate() error {
	var p Problems
	p.notEmpty("contextId", u.ContextID)
	return p.Err()
}

// Validate reports all violated rules that depend on the params alone. The server checks the
// metadata.
func (d DeleteTaskParams) Validate() error {
	var p Problems
	p.notEmpty("id", d.ID)
	return p.Err()
}

// Validate reports all violated rules that depend on the params alone. The server checks the
// metadata.
func (c ClearContextParams) Validate() error {
	var p Problems
	p.notEmpty("contextId", c.ContextID)
	return p.Err()
}

// Validate reports all violated rules. A response has either a result or an error, except the
// response to tasks/pushNotificationConfig/delete, which has a null result in A2A.
func (r Response[R]) Validate() error {
	var p Problems
	empty := any(r.Result) == nil || isZero(r.Result)
	_, nullable := any(r.Result).(*DeletedPushNotificationConfig)
	p.Check(r.Error == nil || empty, "result", "must be absent if there is an error")
	p.Check(r.Error != nil || !empty || nullable, "result", "is required if there is no error")
	return p.Err()
}
