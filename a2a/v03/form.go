package v03

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// MetadataData is a key in the metadata of a part. Its value is the name of the member of the
// part's data that has the original data.
const MetadataData = "holdfast.data"

// wrapped is the member with the original data if that is not an object.
const wrapped = "value"

// The forms of the specification, for params and for results. Only params reject data that
// official clients cannot send.
var params, results = newForm(checkData), newForm(func(any) error { return nil })

// newForm returns a form that restricts the values of the model to the values of the
// specification, because official clients cannot decode others. It accepts them on input, except
// data for which check returns an error.
func newForm(check func(any) error) *wire.Form {
	f := wire.NewForm()
	wire.Convert(f, func(m, w *a2a.DataPart) {
		*w = *m
		WrapData(w)
	}, func(w, m *a2a.DataPart) error {
		*m = *w
		UnwrapData(m)
		return check(m.Data)
	})
	wire.Convert(f, encodeMessage, decodeMessage)
	wire.Convert(f, func(m *a2a.TasksPage[json.RawMessage], w *tasksPage) {
		w.TasksPage, w.NextPageTokenSnake, w.PageSizeSnake, w.TotalSizeSnake = *m, m.NextPageToken, m.PageSize, m.TotalSize
	}, func(w *tasksPage, m *a2a.TasksPage[json.RawMessage]) error {
		*m = w.TasksPage
		return nil
	})
	wire.UnionIn(f, "kind", map[string]a2a.Event{
		"task": (*a2a.Task)(nil), "message": (*a2a.Message)(nil),
		"status-update": (*a2a.TaskStatusUpdateEvent)(nil), "artifact-update": (*a2a.TaskArtifactUpdateEvent)(nil),
	})
	return f
}

// WrapData replaces data that is not an object by an object with the data as a member, and sets
// [MetadataData] in a copy of the part's metadata.
func WrapData(p *a2a.DataPart) {
	if isObject(p.Data) {
		return
	}
	metadata := make(map[string]any, len(p.Metadata)+1)
	maps.Copy(metadata, p.Metadata)
	metadata[MetadataData] = wrapped
	p.Data, p.Metadata = map[string]any{wrapped: p.Data}, metadata
}

// UnwrapData is the reverse of WrapData. It changes the part's metadata in place.
func UnwrapData(p *a2a.DataPart) {
	object, ok := p.Data.(map[string]any)
	if !ok || len(object) != 1 || p.Metadata[MetadataData] != wrapped {
		return
	}
	p.Data = object[wrapped]
	if delete(p.Metadata, MetadataData); len(p.Metadata) == 0 {
		p.Metadata = nil
	}
}

// encodeMessage shows a message with the system role as a message with the user role.
func encodeMessage(m, w *a2a.Message) {
	*w = *m
	v10.EncodeRole(&w.Role, &w.Metadata)
}

// decodeMessage is the reverse of encodeMessage.
func decodeMessage(w, m *a2a.Message) error {
	*m = *w
	v10.DecodeRole(&m.Role, &m.Metadata)
	return nil
}

// tasksPage is a page of tasks with some members under two names. The specification does not define
// tasks/list, and the official Go client reads the names of A2A 1.0 in snake_case.
type tasksPage struct {
	a2a.TasksPage[json.RawMessage] `wire:"inline"`

	NextPageTokenSnake string `json:"next_page_token"`
	PageSizeSnake      int    `json:"page_size"`
	TotalSizeSnake     *int   `json:"total_size,omitempty"`
}

// isObject reports whether the JSON of data is an object. Data of handlers may have any type.
func isObject(data any) bool {
	switch d := data.(type) {
	case map[string]any:
		return d != nil
	case nil, []any, string, float64, bool, json.Number:
		return false
	}
	raw, err := json.Marshal(data)
	return err == nil && raw[0] == '{'
}

// checkData rejects data that is neither an object nor an array.
func checkData(data any) error {
	kind := "a number"
	switch data.(type) {
	case map[string]any, []any:
		return nil
	case nil:
		kind = "null"
	case string:
		kind = "a string"
	case bool:
		kind = "a boolean"
	}
	return &wire.Error{Path: "data", Rule: fmt.Sprintf("must be an object or an array, not %s", kind)}
}
