package v03_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
)

// ignoreConstants ignores the blank fields of constant members.
var ignoreConstants = cmpopts.IgnoreUnexported(
	a2a.Message{}, a2a.TextPart{}, a2a.FilePart{}, a2a.DataPart{}, a2a.Task{}, a2a.TaskStatusUpdateEvent{}, a2a.TaskArtifactUpdateEvent{},
)

func protoTask() *a2a.Task {
	return &a2a.Task{
		ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateCanceled, Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)},
		History: []a2a.Message{{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{
			a2a.TextPart{Text: "hi", Metadata: map[string]any{"k": 1.0}},
			a2a.FilePart{File: a2a.FileWithBytes{Name: "a.txt", MimeType: "text/plain", Bytes: []byte{0xfb, 0xff}}},
			a2a.FilePart{File: a2a.FileWithURI{URI: "https://example.com/a"}, Text: "caption"},
			a2a.DataPart{Data: map[string]any{"a": 1.0}},
			a2a.DataPart{Data: []any{1.0}},
		}}},
		Artifacts: []a2a.Artifact{{ID: "a", Parts: []a2a.Part{a2a.TextPart{Text: "out"}}, LastChunk: true}},
	}
}

const protoTaskJSON = `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_CANCELLED","timestamp":"2026-01-02T03:04:05.006Z"},` +
	`"history":[{"messageId":"m","role":"ROLE_USER","content":[{"text":"hi","metadata":{"k":1}},{"file":{"fileWithBytes":"+/8=","mimeType":"text/plain","name":"a.txt"}},` +
	`{"file":{"fileWithUri":"https://example.com/a"}},{"data":{"data":{"a":1}}},{"data":{"data":{"value":[1]}},"metadata":{"holdfast.data":"value"}}]}],` +
	`"artifacts":[{"artifactId":"a","parts":[{"text":"out"}]}]}`

func TestProtoJSONHasTheMembersOfTheProtocolBuffers(t *testing.T) {
	t.Parallel()
	method := func(name string) *a2a.Method {
		m, _ := a2a.MethodByName(name)
		return &m
	}
	webhook := a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{
		ID: "w", URL: "https://example.com/w", Authentication: a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Bearer"}, Credentials: "x"}, PayloadFormat: a2a.PayloadTask,
	}}
	const webhookJSON = `{"name":"tasks/t/pushNotificationConfigs/w","pushNotificationConfig":{"id":"w","url":"https://example.com/w","authentication":{"schemes":["Bearer"],"credentials":"x"}}}`
	status := a2a.TaskStatus{State: a2a.StatePaymentRequired}
	for _, test := range []struct {
		method string // "" is an item of a stream
		result any
		want   string
	}{
		{a2a.MethodGet, protoTask(), protoTaskJSON},
		{a2a.MethodSend, protoTask(), `{"task":` + protoTaskJSON + `}`},
		{a2a.MethodSend, &a2a.Message{ID: "m", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart{Text: "a"}}}, `{"message":{"messageId":"m","role":"ROLE_AGENT","content":[{"text":"a"}]}}`},
		{"", protoTask(), `{"task":` + protoTaskJSON + `}`},
		{"", &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: status}, `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_INPUT_REQUIRED"},"final":false,"metadata":{"holdfast.state":"payment-required"}}}`},
		{"", &a2a.TaskArtifactUpdateEvent{TaskID: "t", ContextID: "c", Artifact: a2a.Artifact{ID: "a", Parts: []a2a.Part{}}, LastChunk: true}, `{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[]},"lastChunk":true}}`},
		{a2a.MethodPushGet, &webhook, webhookJSON},
		{a2a.MethodPushList, &a2a.ListTaskPushNotificationConfigResult{Configs: []a2a.TaskPushNotificationConfig{webhook}}, `{"configs":[` + webhookJSON + `]}`},
		{a2a.MethodPushList, &a2a.ListTaskPushNotificationConfigResult{Configs: []a2a.TaskPushNotificationConfig{}}, `{"configs":[]}`},
		{a2a.MethodPushDelete, (*a2a.DeletedPushNotificationConfig)(nil), `{}`},
	} {
		var got []byte
		var err error
		if test.method == "" {
			got, err = v03.ProtoCodec{}.AppendEvent(nil, test.result.(a2a.Event))
		} else {
			got, err = v03.ProtoCodec{}.AppendResult(nil, method(test.method), test.result)
		}
		if err != nil || string(got) != test.want {
			t.Errorf("%s of %T = %s, %v\nwant %s", test.method, test.result, got, err, test.want)
		}
	}
}

func TestProtoJSONRoundTrip(t *testing.T) {
	t.Parallel()
	raw, err := v03.ProtoCodec{Extensions: true}.AppendEvent(nil, protoTask())
	if err != nil {
		t.Fatal(err)
	}
	got, err := v03.ProtoCodec{}.DecodeEvent(raw)
	if diff := cmp.Diff(a2a.Event(protoTask()), got, ignoreConstants); err != nil || diff != "" {
		t.Errorf("DecodeEvent(%s): %v (-want +got)\n%s", raw, err, diff)
	}
	if e, err := (v03.ProtoCodec{}).DecodeEvent([]byte(`{"song":{}}`)); e != nil || err != nil {
		t.Errorf("DecodeEvent of an unknown kind = %v, %v, want nil", e, err)
	}
	for _, bad := range []string{`{}`, `{"task":{}}`, `{"status_update":{"status":1}}`, `[]`} {
		if e, err := (v03.ProtoCodec{}).DecodeEvent([]byte(bad)); err == nil {
			t.Errorf("DecodeEvent(%s) = %+v, want an error", bad, e)
		}
	}
}

func TestProtoParamsAreAcceptedInBothSpellings(t *testing.T) {
	t.Parallel()
	one := 1
	message := a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{
		a2a.TextPart{Text: "a"}, a2a.FilePart{File: a2a.FileWithURI{URI: "https://a", MimeType: "a/b"}, Text: "c"}, a2a.FilePart{File: a2a.FileWithBytes{Bytes: []byte{0}}}, a2a.DataPart{Data: map[string]any{"data": 1.0}},
	}}
	sent := &a2a.MessageSendParams{Message: message, Configuration: &a2a.MessageSendConfiguration{Blocking: true, HistoryLength: &one, PushNotificationConfig: &a2a.PushNotificationConfig{URL: "https://w"}}}
	webhook := &a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{ID: "w", URL: "https://w"}}
	for _, test := range []struct {
		text      string
		got, want any
	}{
		{`{"message":{"messageId":"m","role":"ROLE_USER","content":[{"text":"a"},{"file":{"fileWithUri":"https://a","mimeType":"a/b"},"caption":"c"},{"file":{"fileWithBytes":"AA=="}},{"data":{"data":{"data":1}}}]},"configuration":{"blocking":true,"historyLength":1,"pushNotification":{"url":"https://w"}}}`, new(a2a.MessageSendParams), sent},
		{`{"request":{"message_id":"m","role":1,"content":[{"text":"a"},{"file":{"file_with_uri":"https://a","mime_type":"a/b"},"caption":"c"},{"file":{"file_with_bytes":"AA","file_with_uri":""}},{"data":{"data":{"data":1}}}]},"configuration":{"blocking":true,"history_length":"1","push_notification":{"url":"https://w","authentication":{}}}}`, new(a2a.MessageSendParams), sent},
		{`{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"a"},{"kind":"file","file":{"uri":"https://a","mimeType":"a/b"},"text":"c"},{"kind":"file","file":{"bytes":"AA=="}},{"kind":"data","data":{"data":1}}]},"configuration":{"blocking":true,"historyLength":1,"pushNotificationConfig":{"url":"https://w"}}}`, new(a2a.MessageSendParams), sent},
		{`{"id":"t","historyLength":0}`, new(a2a.TaskQueryParams), &a2a.TaskQueryParams{ID: "t"}},
		{`{"id":"t","historyLength":1}`, new(a2a.TaskQueryParams), &a2a.TaskQueryParams{ID: "t", HistoryLength: &one}},
		{`{"states":["TASK_STATE_CANCELLED","payment-required"],"status":"working"}`, new(a2a.ListTasksParams), &a2a.ListTasksParams{States: []a2a.TaskState{a2a.StateWorking, a2a.StateResumed, a2a.StateCanceled, a2a.StatePaymentRequired}}},
		{`{"taskId":"t","name":"tasks/t/pushNotificationConfigs/w","pushNotificationConfig":{"url":"https://w"}}`, new(a2a.TaskPushNotificationConfig), webhook},
		{`{"taskId":"t","name":"tasks/t/pushNotificationConfigs/","pushNotificationConfig":{"id":"w","url":"https://w"}}`, new(a2a.TaskPushNotificationConfig), webhook},
		{`{"id":"t","push_notification_config":{"id":"w","url":"https://w"}}`, new(a2a.TaskPushNotificationConfig), webhook},
		{`{"parent":"tasks/t","config_id":"w","config":{"push_notification_config":{"url":"https://w","token":"","authentication":{}}}}`, new(a2a.TaskPushNotificationConfig), webhook},
		{`{"parent":"tasks/t","config":{"name":"tasks/t/pushNotificationConfigs/w","pushNotificationConfig":{"url":"https://w"}}}`, new(a2a.TaskPushNotificationConfig), webhook},
	} {
		err := v03.ProtoCodec{}.DecodeParams([]byte(test.text), test.got)
		if diff := cmp.Diff(test.want, test.got, ignoreConstants); err != nil || diff != "" {
			t.Errorf("DecodeParams(%s): %v (-want +got)\n%s", test.text, err, diff)
		}
	}
}

func TestProtoParamsAreRejectedByName(t *testing.T) {
	t.Parallel()
	send := func(part string) string {
		return `{"message":{"messageId":"m","role":"ROLE_USER","content":[` + part + `]}}`
	}
	for _, test := range []struct {
		text   string
		params any
		want   string
	}{
		{`{}`, new(a2a.MessageSendParams), `message is required`},
		{send(``), new(a2a.MessageSendParams), `message.content must not be empty`},
		{`{"message":{"messageId":"m","role":"ROLE_UNSPECIFIED","content":[{"text":""}]}}`, new(a2a.MessageSendParams), `message.role is "ROLE_UNSPECIFIED", want one of ROLE_USER, ROLE_AGENT`},
		{send(`{}`), new(a2a.MessageSendParams), `message.content[0] must have exactly one of text, file, data`},
		{send(`{"text":"a","file":{"fileWithUri":"https://a"}}`), new(a2a.MessageSendParams), `message.content[0] must have exactly one of text, file, data`},
		{send(`{"kind":"song"}`), new(a2a.MessageSendParams), `message.content[0].kind is "song", want one of text, file, data`},
		{send(`{"data":1}`), new(a2a.MessageSendParams), `message.content[0].data must be an object or an array, not a number`},
		{send(`{"file":{}}`), new(a2a.MessageSendParams), `message.content[0].file must have exactly one of fileWithUri, fileWithBytes`},
		{send(`{"file":{"fileWithUri":"a"}}`), new(a2a.MessageSendParams), `message.content[0].file.fileWithUri is "a", want an absolute URL`},
		{`{"id":"t","historyLength":-1}`, new(a2a.TaskQueryParams), `historyLength is -1, want 0 or more`},
		{`{"taskId":"t"}`, new(a2a.TaskPushNotificationConfig), `pushNotificationConfig is required`},
		{`{"taskId":"t","config":{}}`, new(a2a.TaskPushNotificationConfig), `config.pushNotificationConfig is required`},
		{`{"pushNotificationConfig":{"url":"https://w"}}`, new(a2a.TaskPushNotificationConfig), `name is required`},
		{`{"taskId":"t","name":"tasks/u/pushNotificationConfigs/w","pushNotificationConfig":{"url":"https://w"}}`, new(a2a.TaskPushNotificationConfig), `name names another task than the path`},
	} {
		err := v03.ProtoCodec{}.DecodeParams([]byte(test.text), test.params)
		var e *a2a.Error
		if !errors.As(err, &e) || e.Error() != test.want || e.Code != a2a.CodeInvalid {
			t.Errorf("DecodeParams(%s) = %v, want %s", test.text, err, test.want)
			continue
		}
		if field, _, _ := strings.Cut(test.want, " "); e.Data["field"] != field {
			t.Errorf("DecodeParams(%s): field %v, want %s", test.text, e.Data["field"], field)
		}
	}
}

func TestBareWebhookIsTheBodyOfTheSpecification(t *testing.T) {
	t.Parallel()
	p := a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{ID: "w", URL: "https://w"}}
	raw, err := v03.ProtoCodec{BareWebhooks: true}.EncodeParams(&p)
	const want = `{"name":"tasks/t/pushNotificationConfigs/w","pushNotificationConfig":{"id":"w","url":"https://w"},"taskId":"t"}`
	if err != nil || string(raw) != want {
		t.Errorf("EncodeParams() = %s, %v, want %s", raw, err, want)
	}
	var again a2a.TaskPushNotificationConfig
	if err := (v03.ProtoCodec{}).DecodeParams(raw, &again); err != nil || again.TaskID != "t" || again.Config.URL != "https://w" {
		t.Errorf("DecodeParams(%s) = %+v, %v, want the webhook", raw, again, err)
	}
}
