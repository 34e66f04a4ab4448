package v03_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
)

func TestParams(t *testing.T) {
	t.Parallel()
	one := 1
	for _, test := range []struct {
		raw  string
		want a2a.TaskQueryParams
		err  string
	}{
		{`{"id":"x","historyLength":1}`, a2a.TaskQueryParams{ID: "x", HistoryLength: &one}, ""},
		{`{"task_id":"x","history_length":1,"more":[]}`, a2a.TaskQueryParams{ID: "x", HistoryLength: &one}, ""},
		{`{"id":"x","metadata":{"snake_case":1,"camelCase":null}}`, a2a.TaskQueryParams{ID: "x", Metadata: map[string]any{"snake_case": 1.0, "camelCase": nil}}, ""},
		{``, a2a.TaskQueryParams{}, "id is required"},
		{`null`, a2a.TaskQueryParams{}, "id is required"},
		{`{}`, a2a.TaskQueryParams{}, "id is required"},
		{`[]`, a2a.TaskQueryParams{}, "params must be an object, not an array"},
		{`"x"`, a2a.TaskQueryParams{}, "params must be an object, not a string"},
		{`{"id":1}`, a2a.TaskQueryParams{}, "id must be a string, not a number"},
	} {
		got, err := v03.Params[a2a.TaskQueryParams]([]byte(test.raw))
		if test.err != "" {
			if err == nil || err.Error() != test.err || a2a.CodeOf(err) != a2a.CodeInvalid {
				t.Errorf("Params(%s) = %v, want %s", test.raw, err, test.err)
			}
			continue
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(a2a.TaskQueryParams{})); err != nil || diff != "" {
			t.Errorf("Params(%s): %v (-want +got)\n%s", test.raw, err, diff)
		}
	}
}

func TestParamsAreValidated(t *testing.T) {
	t.Parallel()
	send := func(raw string) error {
		_, err := v03.Params[a2a.MessageSendParams]([]byte(raw))
		return err
	}
	feedback := func(raw string) error {
		_, err := v03.Params[a2a.TaskFeedbackParams]([]byte(raw))
		return err
	}
	message := func(parts string) string {
		return `{"message":{"messageId":"m","role":"user","parts":[` + parts + `]}}`
	}
	big := base64.StdEncoding.EncodeToString(make([]byte, a2a.MaxInlineFile+1))
	for _, test := range []struct {
		name   string
		decode func(string) error
		raw    string
		want   string
		fields []any
	}{
		{"a message", send, message(`{"kind":"text","text":""}`), "", nil},
		{"a large file", send, message(`{"kind":"file","file":{"bytes":"` + big + `"}}`), "", nil},
		{
			"a large file with an invalid type", send, message(`{"kind":"file","file":{"mimeType":"x","bytes":"` + big + `"}}`),
			`message.parts[0].file.mimeType is "x", want a media type such as text/plain`, nil,
		},
		{"a relative uri", send, message(`{"kind":"file","file":{"uri":"a.pdf"}}`), `message.parts[0].file.uri is "a.pdf", want an absolute URL`, nil},
		{
			"several", send, `{"message":{"messageId":"","role":"user","parts":[]},"configuration":{"historyLength":-1,"acceptedOutputModes":["text",""]}}`,
			"message.messageId must not be empty; message.parts must not be empty; configuration.acceptedOutputModes[1] must not be empty; configuration.historyLength is -1, want 0 or more",
			[]any{"message.messageId", "message.parts", "configuration.acceptedOutputModes[1]", "configuration.historyLength"},
		},
		{"a decoding error", send, `{"message":{"messageId":"","parts":[]}}`, "message.role is required", nil},
		{"feedback", feedback, `{"task_id":"t","feedback":"good","rating":5}`, "", nil},
		{"feedback without a rating", feedback, `{"id":"t","feedback":"good","rating":null}`, "", nil},
		{"a rating of 0", feedback, `{"taskId":"t","feedback":"good","rating":0}`, "rating is 0, want 1 to 5", nil},
		{"a rating of 4.5", feedback, `{"taskId":"t","feedback":"good","rating":4.5}`, "rating is 4.5, want an integer of at most 64 bits", nil},
	} {
		err := test.decode(test.raw)
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v, want no error", test.name, err)
			}
			continue
		}
		var e *a2a.Error
		if !errors.As(err, &e) || e.Error() != test.want || e.Code != a2a.CodeInvalid {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
			continue
		}
		if first, _, _ := strings.Cut(test.want, " "); e.Data["field"] != first {
			t.Errorf("%s: field = %v, want %s", test.name, e.Data["field"], first)
		}
		if got, _ := e.Data["fields"].([]any); !cmp.Equal(got, test.fields) {
			t.Errorf("%s: fields = %v, want %v", test.name, got, test.fields)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	messages := []a2a.Message{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	for _, test := range []struct {
		n    int // -1 means nil
		have []a2a.Message
		want string
		set  bool // whether the result is not nil
	}{
		{-1, messages, "a b c", true},
		{-1, nil, "", false},
		{0, messages, "", true},
		{0, nil, "", true},
		{2, messages, "b c", true},
		{3, messages, "a b c", true},
		{1 << 40, messages, "a b c", true},
	} {
		var n *int
		if test.n >= 0 {
			n = &test.n
		}
		got := v03.History(test.have, n)
		var ids []string
		for _, m := range got {
			ids = append(ids, m.ID)
		}
		if strings.Join(ids, " ") != test.want || (got != nil) != test.set {
			t.Errorf("History(%d messages, %d) = %v, want %q, not nil: %t", len(test.have), test.n, got, test.want, test.set)
		}
	}
}
