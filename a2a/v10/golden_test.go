package v10_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/rpc"
)

var _ rpc.Codec = v10.Codec{}

var at = time.Date(2026, 1, 2, 3, 4, 5, 120e6, time.UTC)

// ignoreConstants ignores the blank fields of the model.
var ignoreConstants = cmpopts.IgnoreUnexported(
	a2a.Task{}, a2a.Message{}, a2a.TextPart{}, a2a.FilePart{}, a2a.DataPart{}, a2a.TaskStatusUpdateEvent{}, a2a.TaskArtifactUpdateEvent{},
	a2a.APIKeySecurityScheme{}, a2a.HTTPAuthSecurityScheme{}, a2a.OAuth2SecurityScheme{}, a2a.OpenIDConnectSecurityScheme{}, a2a.MutualTLSSecurityScheme{}, a2a.Context{},
)

func ptr[T any](v T) *T { return &v }

const messageJSON = `{"messageId":"m","contextId":"c","taskId":"t","role":"ROLE_USER","parts":[
	{"text":"hello","filename":"h.md","mediaType":"text/markdown","metadata":{"snake_key":1}},
	{"text":""},
	{"raw":"AAEC/w==","filename":"a.bin","mediaType":"application/octet-stream"},
	{"url":"https://example.com/a"},
	{"data":{"contextId":"x","context_id":"y"},"mediaType":"application/json"},
	{"data":[1,"two"]},{"data":"text"},{"data":false},{"data":null}
],"referenceTaskIds":["t0"],"extensions":["https://example.com/x"],"metadata":{"k":[null]}}`

func message() a2a.Message {
	return a2a.Message{
		ID: "m", ContextID: "c", TaskID: "t", Role: a2a.RoleUser, Parts: []a2a.Part{
			a2a.TextPart{Text: "hello", Filename: "h.md", MediaType: "text/markdown", Metadata: map[string]any{"snake_key": 1.0}},
			a2a.TextPart{},
			a2a.FilePart{File: a2a.FileWithBytes{Name: "a.bin", MimeType: "application/octet-stream", Bytes: []byte{0, 1, 2, 255}}},
			a2a.FilePart{File: a2a.FileWithURI{URI: "https://example.com/a"}},
			a2a.DataPart{Data: map[string]any{"contextId": "x", "context_id": "y"}, MediaType: "application/json"},
			a2a.DataPart{Data: []any{1.0, "two"}},
			a2a.DataPart{Data: "text"},
			a2a.DataPart{Data: false},
			a2a.DataPart{},
		},
		ReferenceTaskIDs: []string{"t0"}, Extensions: []string{"https://example.com/x"}, Metadata: map[string]any{"k": []any{nil}},
	}
}

const (
	artifactJSON = `{"artifactId":"a","name":"n","description":"d","parts":[{"text":"x"}],"extensions":["e"],"metadata":{"k":1}}`
	taskJSON     = `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"s","role":"ROLE_AGENT","parts":[{"text":"?"}]},
		"timestamp":"2026-01-02T03:04:05.120Z"},"history":[` + messageJSON + `],"artifacts":[` + artifactJSON + `],"metadata":{"k":"v"}}`
	webhookJSON = `{"taskId":"t","id":"w","url":"https://example.com/hook","token":"s","authentication":{"scheme":"Bearer","credentials":"c"}}`
)

func task() *a2a.Task {
	return &a2a.Task{
		ID: "t", ContextID: "c",
		Status:  a2a.TaskStatus{State: a2a.StateInputRequired, Message: &a2a.Message{ID: "s", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart{Text: "?"}}}, Timestamp: at},
		History: []a2a.Message{message()}, Artifacts: []a2a.Artifact{artifact()}, Metadata: map[string]any{"k": "v"},
	}
}

func artifact() a2a.Artifact {
	return a2a.Artifact{ID: "a", Name: "n", Description: "d", Parts: []a2a.Part{a2a.TextPart{Text: "x"}}, Extensions: []string{"e"}, Metadata: map[string]any{"k": 1.0}}
}

func webhook() a2a.TaskPushNotificationConfig {
	return a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{
		ID: "w", URL: "https://example.com/hook", Token: "s",
		Authentication: a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Bearer"}, Credentials: "c"},
	}}
}

func TestResultsInBothDirections(t *testing.T) {
	t.Parallel()
	m, w, zero := message(), webhook(), 0
	for _, test := range []struct {
		name, method string
		model        any
		want         string
	}{
		{"message", a2a.MethodGet, &m, messageJSON},
		{"artifact", a2a.MethodGet, ptr(artifact()), artifactJSON},
		{"task", a2a.MethodGet, task(), taskJSON},
		{"a bare task", a2a.MethodCancel, &a2a.Task{ID: "t", Status: a2a.TaskStatus{State: a2a.StateWorking}}, `{"id":"t","status":{"state":"TASK_STATE_WORKING"}}`},
		{"a list", a2a.MethodList, &a2a.ListTasksResult{Tasks: []a2a.Task{*task()}, NextPageToken: "n", PageSize: 1, TotalSize: ptr(7)}, `{"tasks":[` + taskJSON + `],"nextPageToken":"n","pageSize":1,"totalSize":7}`},
		{"an empty list", a2a.MethodList, &a2a.ListTasksResult{Tasks: []a2a.Task{}, PageSize: 50, TotalSize: &zero}, `{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}`},
		{"a webhook", a2a.MethodPushSet, &w, webhookJSON},
		{"webhooks", a2a.MethodPushList, &a2a.ListTaskPushNotificationConfigResult{Configs: []a2a.TaskPushNotificationConfig{w}, NextPageToken: "n"}, `{"configs":[` + webhookJSON + `],"nextPageToken":"n"}`},
		{"no webhooks", a2a.MethodPushList, &a2a.ListTaskPushNotificationConfigResult{Configs: []a2a.TaskPushNotificationConfig{}}, `{"configs":[]}`},
		{"an extension", a2a.MethodContextsGet, &a2a.Context{ID: "c", Role: "r", CreatedAt: at, UpdatedAt: at, History: []a2a.Message{m}}, `{"contextId":"c","role":"r","createdAt":"2026-01-02T03:04:05.120Z","updatedAt":"2026-01-02T03:04:05.120Z","history":[` + messageJSON + `]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			method, _ := a2a.MethodByName(test.method)
			got, err := v10.Codec{}.AppendResult(nil, &method, test.model)
			if err != nil || !sameJSON(t, string(got), test.want) {
				t.Errorf("AppendResult() = %s, %v, want %s", got, err, test.want)
			}
			back := reflect.New(reflect.TypeOf(test.model).Elem()).Interface()
			if err := (v10.Codec{}).DecodeResult([]byte(test.want), back); err != nil {
				t.Errorf("DecodeResult(%s) = %v", test.want, err)
			} else if diff := cmp.Diff(test.model, back, ignoreConstants); diff != "" {
				t.Errorf("DecodeResult(%s) (-want +got):\n%s", test.want, diff)
			}
		})
	}
	deleted, _ := a2a.MethodByName(a2a.MethodPushDelete)
	if got, err := (v10.Codec{}).AppendResult(nil, &deleted, (*a2a.DeletedPushNotificationConfig)(nil)); err != nil || string(got) != "{}" {
		t.Errorf("AppendResult() of a deletion = %s, %v, want {}", got, err)
	}
}

func TestEventsInBothDirections(t *testing.T) {
	t.Parallel()
	m := message()
	for want, event := range map[string]a2a.Event{
		`{"task":` + taskJSON + `}`:       task(),
		`{"message":` + messageJSON + `}`: &m,
		`{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"metadata":{"k":1}}}`: &a2a.TaskStatusUpdateEvent{
			TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateCompleted}, Final: true, Metadata: map[string]any{"k": 1.0},
		},
		`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":` + artifactJSON + `,"append":true,"lastChunk":true,"metadata":{"k":1}}}`: &a2a.TaskArtifactUpdateEvent{
			TaskID: "t", ContextID: "c", Artifact: artifact(), Append: true, LastChunk: true, Metadata: map[string]any{"k": 1.0},
		},
	} {
		got, err := v10.Codec{}.AppendEvent(nil, event)
		if err != nil || !sameJSON(t, string(got), want) {
			t.Errorf("AppendEvent() = %s, %v, want %s", got, err, want)
		}
		back, err := v10.Codec{}.DecodeEvent([]byte(want))
		if diff := cmp.Diff(event, back, ignoreConstants); err != nil || diff != "" {
			t.Errorf("DecodeEvent(%s): %v (-want +got):\n%s", want, err, diff)
		}
		if _, ok := event.(a2a.SendMessageResult); !ok {
			continue
		}
		send, _ := a2a.MethodByName(a2a.MethodSend)
		if got, err := (v10.Codec{}).AppendResult(nil, &send, event); err != nil || !sameJSON(t, string(got), want) {
			t.Errorf("AppendResult() of SendMessage = %s, %v, want %s", got, err, want)
		}
		var result a2a.SendMessageResult
		if err := (v10.Codec{}).DecodeResult([]byte(want), &result); err != nil || !cmp.Equal(event, a2a.Event(result), ignoreConstants) {
			t.Errorf("DecodeResult(%s) = %v, %v", want, result, err)
		}
	}
	for text, wantErr := range map[string]bool{
		`{"timeline":{}}`: false, `{}`: true, `[]`: true, `{"task":{}}`: true, `{"message":null}`: true,
		`{"task":` + taskJSON + `,"message":` + messageJSON + `}`: true,
	} {
		if e, err := (v10.Codec{}).DecodeEvent([]byte(text)); e != nil && err == nil || (err != nil) != wantErr {
			t.Errorf("DecodeEvent(%s) = %v, %v, want an error: %t", text, e, err, wantErr)
		}
	}
}

// setRules sets the members of params that have no JSON: DecodeParams sets what A2A 1.0 requires.
func setRules(params any) {
	switch p := params.(type) {
	case *a2a.MessageSendParams:
		p.ExistingTask = true
		if c := p.Configuration; c != nil && c.PushNotificationConfig != nil {
			c.PushNotificationConfig.PayloadFormat = a2a.PayloadStreamResponse
		}
	case *a2a.TaskIDParams:
		p.UntilFinished = true
	case *a2a.TaskPushNotificationConfig:
		p.Config.PayloadFormat = a2a.PayloadStreamResponse
	}
}

func TestParamsInBothDirections(t *testing.T) {
	t.Parallel()
	m, one, config := message(), 1, webhook().Config
	m.Parts = m.Parts[:3]
	m3 := `{"messageId":"m","contextId":"c","taskId":"t","role":"ROLE_USER","parts":[
		{"text":"hello","filename":"h.md","mediaType":"text/markdown","metadata":{"snake_key":1}},{"text":""},
		{"raw":"AAEC/w==","filename":"a.bin","mediaType":"application/octet-stream"}],"referenceTaskIds":["t0"],"extensions":["https://example.com/x"],"metadata":{"k":[null]}}`
	for _, test := range []struct {
		model any
		want  string
	}{
		{&a2a.MessageSendParams{Message: m, Configuration: &a2a.MessageSendConfiguration{Blocking: true}}, `{"message":` + m3 + `,"configuration":{}}`},
		{
			&a2a.MessageSendParams{Message: m, Metadata: map[string]any{"k": 1.0}, Configuration: &a2a.MessageSendConfiguration{
				AcceptedOutputModes: []string{"text/plain"}, HistoryLength: new(int), PushNotificationConfig: &config, LongRunning: true,
			}},
			`{"message":` + m3 + `,"metadata":{"k":1},"configuration":{"acceptedOutputModes":["text/plain"],"historyLength":0,"returnImmediately":true,"longRunning":true,
				"taskPushNotificationConfig":{"id":"w","url":"https://example.com/hook","token":"s","authentication":{"scheme":"Bearer","credentials":"c"}}}}`,
		},
		{&a2a.TaskQueryParams{ID: "t", HistoryLength: &one}, `{"id":"t","historyLength":1}`},
		{&a2a.TaskIDParams{ID: "t", Metadata: map[string]any{"k": 1.0}}, `{"id":"t","metadata":{"k":1}}`},
		{
			&a2a.ListTasksParams{ContextID: "c", States: []a2a.TaskState{a2a.StateAuthRequired, a2a.StateTrustVerificationRequired}, StatusAfter: at, PageSize: &one, PageToken: "p", HistoryLength: &one, IncludeArtifacts: true, IncludeTotal: true},
			`{"contextId":"c","status":"TASK_STATE_AUTH_REQUIRED","statusTimestampAfter":"2026-01-02T03:04:05.120Z","pageSize":1,"pageToken":"p","historyLength":1,"includeArtifacts":true}`,
		},
		{&a2a.ListTasksParams{IncludeTotal: true}, `{}`},
		{ptr(webhook()), webhookJSON},
		{&a2a.GetTaskPushNotificationConfigParams{TaskID: "t", ConfigID: "w"}, `{"taskId":"t","id":"w"}`},
		{&a2a.ListTaskPushNotificationConfigParams{TaskID: "t"}, `{"taskId":"t"}`},
		{&a2a.DeleteTaskPushNotificationConfigParams{TaskID: "t", ConfigID: "w"}, `{"taskId":"t","id":"w"}`},
		{&a2a.ReplayParams{TaskID: "t", ConfigID: "w"}, `{"taskId":"t","pushNotificationConfigId":"w"}`},
	} {
		got, err := v10.Codec{}.EncodeParams(test.model)
		if err != nil || !sameJSON(t, string(got), test.want) {
			t.Errorf("EncodeParams(%T) = %s, %v, want %s", test.model, got, err, test.want)
		}
		back := reflect.New(reflect.TypeOf(test.model).Elem()).Interface()
		err = v10.Codec{}.DecodeParams([]byte(test.want), back)
		setRules(test.model)
		if diff := cmp.Diff(test.model, back, ignoreConstants); err != nil || diff != "" {
			t.Errorf("DecodeParams(%s): %v (-want +got):\n%s", test.want, err, diff)
		}
	}
	for want, params := range map[string]any{`{"tenant":"n"}`: a2a.CreateContextParams{}, `{"tenant":"n","id":"t"}`: a2a.TaskIDParams{ID: "t"}} {
		if got, err := (v10.Codec{Tenant: "n"}).EncodeParams(params); err != nil || string(got) != want {
			t.Errorf("EncodeParams(%T) with a tenant = %s, %v, want %s", params, got, err, want)
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Errorf("%s: %v", a, err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}
