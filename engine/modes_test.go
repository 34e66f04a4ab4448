package engine_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
)

func TestPartsOfOtherMediaTypesAreRejected(t *testing.T) {
	t.Parallel()
	file := func(mime string) a2a.Part {
		return a2a.FilePart{File: a2a.FileWithBytes{MimeType: mime, Bytes: []byte("x")}}
	}
	typed := a2a.DataPart{Data: map[string]any{}, Metadata: map[string]any{"contentType": "application/x-unknown"}}
	for _, tt := range []struct {
		modes string
		part  a2a.Part
		ok    bool
	}{
		{"text/plain", a2a.TextPart{Text: "x"}, true},
		{"text/markdown", a2a.TextPart{Text: "x"}, true},
		{"application/json", a2a.TextPart{Text: "x"}, false},
		{"text/plain", a2a.DataPart{Data: map[string]any{}}, false},
		{"application/json", a2a.DataPart{Data: map[string]any{}}, true},
		{"application/json", typed, false},
		{"data", typed, true},
		{"image/*", file("image/png"), true},
		{"text/plain, IMAGE/PNG", file("image/png; q=1"), true},
		{"text/plain", file("image/png"), false},
		{"text/plain", file(""), true},
		{"file", file("image/png"), true},
		{"*/*", file("image/png"), true},
		{"", typed, true},
	} {
		var modes []string
		if tt.modes != "" {
			modes = strings.Split(tt.modes, ", ")
		}
		e := start(t, engine.Config{InputModes: modes, Handler: replyHandler})
		p := message("")
		p.Message.Parts = []a2a.Part{tt.part}
		_, err := e.Send(t.Context(), alice, p, engine.SendOptions{})
		switch code := a2a.CodeOf(err); {
		case tt.ok && err != nil:
			t.Errorf("modes %q, part %+v: Send = %v, want nil", tt.modes, tt.part, err)
		case !tt.ok && (code != a2a.CodeContentType || !strings.Contains(err.Error(), "incompatible content types")):
			t.Errorf("modes %q, part %+v: Send = %v, want content_type_not_supported", tt.modes, tt.part, err)
		}
	}
}
