package interop_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The types of this file are what the scenarios assert on: the part of the A2A model that both
// versions share. The clients decode the wire themselves; from03 and from10 only rename the members
// of their types.

type part struct {
	text, bytes, uri string // bytes are in base64
	name, mediaType  string
	data             any
}

type message struct {
	id, taskID, contextID string
	parts                 []part
}

type artifact struct {
	name  string
	parts []part
}

// event is a task, an item of a stream or an answer to a message.
type event struct {
	kind              string // task, message, status or artifact
	taskID, contextID string
	state             string // as in 0.3
	said              string // text of the status message
	history           []message
	artifacts         []artifact // of a task, or the one of an artifact event
	last              bool       // of an artifact event
}

// hook is a push notification configuration.
type hook struct{ id, taskID, url, token string }

// failure is an error that the server returned, by its code in JSON-RPC.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return fmt.Sprintf("%d: %v", f.code, f.err) }

const (
	codeInvalidParams        = -32602
	codeTaskNotFound         = -32001
	codeTaskNotCancelable    = -32002
	codeUnsupportedOperation = -32004
)

func text(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.text)
	}
	return b.String()
}

type wirePart struct {
	Kind string `json:"kind,omitempty"`
	Text string `json:"text,omitempty"`
	Data any    `json:"data,omitempty"`
	// 0.3
	File *wireFile `json:"file,omitempty"`
	// 1.0
	Raw       string `json:"raw,omitempty"`
	URL       string `json:"url,omitempty"`
	Filename  string `json:"filename,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
}

type wireFile struct {
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Bytes    string `json:"bytes,omitempty"`
	URI      string `json:"uri,omitempty"`
}

type wireMessage struct {
	Kind      string     `json:"kind,omitempty"`
	MessageID string     `json:"messageId"`
	Role      string     `json:"role"`
	TaskID    string     `json:"taskId,omitempty"`
	ContextID string     `json:"contextId,omitempty"`
	Parts     []wirePart `json:"parts"`
}

type wireArtifact struct {
	Name  string     `json:"name"`
	Parts []wirePart `json:"parts"`
}

type wireEvent struct {
	wireMessage
	ID     string `json:"id"`
	Status *struct {
		State   string       `json:"state"`
		Message *wireMessage `json:"message"`
	} `json:"status"`
	History   []wireMessage  `json:"history"`
	Artifacts []wireArtifact `json:"artifacts"`
	Artifact  *wireArtifact  `json:"artifact"`
	LastChunk bool           `json:"lastChunk"`
}

type wireHook struct {
	ID                     string    `json:"id,omitempty"`
	TaskID                 string    `json:"taskId,omitempty"`
	URL                    string    `json:"url,omitempty"`
	Token                  string    `json:"token,omitempty"`
	PushNotificationConfig *wireHook `json:"pushNotificationConfig,omitempty"`
}

// to03 and to10 return the message as the JSON of a version, from which a client makes its own type.
func to03(m message) json.RawMessage {
	w := wireMessage{Kind: "message", MessageID: m.id, Role: "user", TaskID: m.taskID, ContextID: m.contextID, Parts: []wirePart{}}
	for _, p := range m.parts {
		switch {
		case p.data != nil:
			w.Parts = append(w.Parts, wirePart{Kind: "data", Data: p.data})
		case p.bytes != "" || p.uri != "":
			w.Parts = append(w.Parts, wirePart{Kind: "file", File: &wireFile{Name: p.name, MimeType: p.mediaType, Bytes: p.bytes, URI: p.uri}})
		default:
			w.Parts = append(w.Parts, wirePart{Kind: "text", Text: p.text})
		}
	}
	return encode(w)
}

func to10(m message) json.RawMessage {
	w := wireMessage{MessageID: m.id, Role: "ROLE_USER", TaskID: m.taskID, ContextID: m.contextID, Parts: []wirePart{}}
	for _, p := range m.parts {
		w.Parts = append(w.Parts, wirePart{Text: p.text, Data: p.data, Raw: p.bytes, URL: p.uri, Filename: p.name, MediaType: p.mediaType})
	}
	return encode(w)
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// from03 reads a Task, a Message or an item of a stream of 0.3.
func from03(raw []byte) (event, error) {
	var w wireEvent
	if err := json.Unmarshal(raw, &w); err != nil {
		return event{}, err
	}
	kind, ok := map[string]string{"task": "task", "message": "message", "status-update": "status", "artifact-update": "artifact"}[w.Kind]
	if !ok {
		return event{}, fmt.Errorf("kind %q of %s", w.Kind, raw)
	}
	return w.event(kind), nil
}

// from10 reads a StreamResponse or a SendMessageResponse of 1.0.
func from10(raw []byte) (event, error) {
	var union map[string]json.RawMessage
	if err := json.Unmarshal(raw, &union); err != nil {
		return event{}, err
	}
	for member, kind := range map[string]string{"task": "task", "message": "message", "statusUpdate": "status", "artifactUpdate": "artifact"} {
		if item, ok := union[member]; ok && len(union) == 1 {
			var w wireEvent
			if err := json.Unmarshal(item, &w); err != nil {
				return event{}, err
			}
			return w.event(kind), nil
		}
	}
	return event{}, fmt.Errorf("no event: %s", raw)
}

func (w *wireEvent) event(kind string) event {
	e := event{kind: kind, taskID: w.TaskID, contextID: w.ContextID, last: w.LastChunk}
	if kind == "task" {
		e.taskID = w.ID
	}
	if kind == "message" {
		e.said = text(w.parts())
	}
	if w.Status != nil {
		e.state = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(w.Status.State, "TASK_STATE_")), "_", "-")
		if w.Status.Message != nil {
			e.said = text(w.Status.Message.parts())
		}
	}
	for _, m := range w.History {
		e.history = append(e.history, message{id: m.MessageID, taskID: m.TaskID, contextID: m.ContextID, parts: m.parts()})
	}
	if w.Artifact != nil {
		w.Artifacts = append(w.Artifacts, *w.Artifact)
	}
	for _, a := range w.Artifacts {
		e.artifacts = append(e.artifacts, artifact{name: a.Name, parts: (&wireMessage{Parts: a.Parts}).parts()})
	}
	return e
}

func (w *wireMessage) parts() []part {
	var parts []part
	for _, p := range w.Parts {
		q := part{text: p.Text, data: p.Data, bytes: p.Raw, uri: p.URL, name: p.Filename, mediaType: p.MediaType}
		if f := p.File; f != nil {
			q = part{bytes: f.Bytes, uri: f.URI, name: f.Name, mediaType: f.MimeType}
		}
		parts = append(parts, q)
	}
	return parts
}

func (w *wireHook) hook() hook {
	if c := w.PushNotificationConfig; c != nil {
		return hook{id: c.ID, taskID: w.TaskID, url: c.URL, token: c.Token}
	}
	return hook{id: w.ID, taskID: w.TaskID, url: w.URL, token: w.Token}
}
