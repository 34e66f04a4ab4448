package v03_test

import (
	"encoding/base64"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
)

func TestDecodeParams(t *testing.T) {
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
		var got a2a.TaskQueryParams
		err := v03.Codec{}.DecodeParams([]byte(test.raw), &got)
		if test.err != "" {
			if err == nil || err.Error() != test.err || a2a.CodeOf(err) != a2a.CodeInvalid {
				t.Errorf("DecodeParams(%s) = %v, want %s", test.raw, err, test.err)
			}
			continue
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(a2a.TaskQueryParams{})); err != nil || diff != "" {
			t.Errorf("DecodeParams(%s): %v (-want +got)\n%s", test.raw, err, diff)
		}
	}
}

func TestParamsAreValidated(t *testing.T) {
	t.Parallel()
	send := func(raw string) error {
		return v03.Codec{}.DecodeParams([]byte(raw), new(a2a.MessageSendParams))
	}
	feedback := func(raw string) error {
		return v03.Codec{}.DecodeParams([]byte(raw), new(a2a.TaskFeedbackParams))
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

func TestBinduProfileReturnsTheWholeHistoryOfLists(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		raw   string
		bindu bool
		want  int // -1 means nil
	}{
		{`{}`, false, -1},
		{`{}`, true, math.MaxInt32},
		{`{"historyLength":2}`, true, 2},
		{`{"metadata":{"history_length":2}}`, true, -1}, // the engine reads the filters
	} {
		var p a2a.ListTasksParams
		err := v03.Codec{Bindu: test.bindu}.DecodeParams([]byte(test.raw), &p)
		got := -1
		if p.HistoryLength != nil {
			got = *p.HistoryLength
		}
		if err != nil || got != test.want {
			t.Errorf("DecodeParams(%s) with Bindu %t: HistoryLength = %d, %v, want %d", test.raw, test.bindu, got, err, test.want)
		}
	}
}

func TestDecodeErrorReversesAppendError(t *testing.T) {
	t.Parallel()
	for _, code := range a2a.Codes() {
		want := &a2a.Error{Code: code, Message: "m", Data: map[string]any{"code": string(code), "field": "f", "requestId": "r"}}
		raw := v03.Codec{}.AppendError(nil, &a2a.Error{Code: code, Message: "m", Data: map[string]any{"field": "f"}}, "r", "")
		if got, err := (v03.Codec{}).DecodeError(raw); err != nil || !cmp.Equal(got, want) {
			t.Errorf("DecodeError(%s) = %+v, %v, want %+v", raw, got, err, want)
		}
	}
	if e, err := (v03.Codec{}).DecodeError([]byte(`{"code":"x"}`)); err == nil {
		t.Errorf("DecodeError of a code that is no number = %+v, want an error", e)
	}
}

func TestDecodeEventSkipsUnknownKinds(t *testing.T) {
	t.Parallel()
	if e, err := (v03.Codec{}).DecodeEvent([]byte(`{"kind":"song"}`)); e != nil || err != nil {
		t.Errorf("DecodeEvent of an unknown kind = %v, %v, want nil", e, err)
	}
	for _, bad := range []string{`{}`, `{"kind":"task"}`, `[]`} {
		if e, err := (v03.Codec{}).DecodeEvent([]byte(bad)); err == nil {
			t.Errorf("DecodeEvent(%s) = %+v, want an error", bad, e)
		}
	}
}

func TestCardsNameStateTransitionHistoryOnlyIfTrue(t *testing.T) {
	t.Parallel()
	for _, has := range []bool{false, true} {
		card, err := v03.Codec{}.AppendCard(nil, &a2a.AgentCard{Capabilities: a2a.AgentCapabilities{StateTransitionHistory: has}})
		if err != nil || strings.Contains(string(card), "stateTransitionHistory") != has {
			t.Errorf("card with StateTransitionHistory %t = %s, %v, want the member only if true", has, card, err)
		}
	}
}

func TestListOfWebhooksMayBeNull(t *testing.T) {
	t.Parallel()
	list := a2a.ListTaskPushNotificationConfigResult{Configs: make([]a2a.TaskPushNotificationConfig, 1)}
	if err := (v03.Codec{}).DecodeResult([]byte("null"), &list); err != nil || len(list.Configs) != 0 {
		t.Errorf("DecodeResult(null) = %+v, %v, want no webhooks", list, err)
	}
}
