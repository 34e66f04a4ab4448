package v10_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

func send(part string) string {
	return `{"message":{"messageId":"m","role":"ROLE_USER","parts":[` + part + `]}}`
}

func TestParamsAreAcceptedAsProtoJSONRequires(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		got  any
		want any
	}{
		{`{"id":"t","history_length":"1"}`, new(a2a.TaskQueryParams), &a2a.TaskQueryParams{ID: "t", HistoryLength: ptr(1)}},
		{`{"id":"t","historyLength":1e1,"more":[{}]}`, new(a2a.TaskQueryParams), &a2a.TaskQueryParams{ID: "t", HistoryLength: ptr(10)}},
		{`{"id":"t","historyLength":0}`, new(a2a.TaskQueryParams), &a2a.TaskQueryParams{ID: "t", HistoryLength: new(int)}},
		{`{"id":"t","historyLength":null,"metadata":null}`, new(a2a.TaskQueryParams), &a2a.TaskQueryParams{ID: "t"}},
		{`{"task_id":"t"}`, new(a2a.ListTaskPushNotificationConfigParams), &a2a.ListTaskPushNotificationConfigParams{TaskID: "t"}},
		{`{"status":"TASK_STATE_COMPLETED"}`, new(a2a.ListTasksParams), &a2a.ListTasksParams{States: []a2a.TaskState{a2a.StateCompleted}, IncludeTotal: true}},
		{`{"status":2,"page_size":5}`, new(a2a.ListTasksParams), &a2a.ListTasksParams{States: []a2a.TaskState{a2a.StateWorking, a2a.StateResumed}, PageSize: ptr(5), IncludeTotal: true}},
		{`{"status":"TASK_STATE_UNSPECIFIED"}`, new(a2a.ListTasksParams), &a2a.ListTasksParams{IncludeTotal: true}},
		{`{"status_timestamp_after":"2026-01-02T05:04:05.12+02:00"}`, new(a2a.ListTasksParams), &a2a.ListTasksParams{StatusAfter: at, IncludeTotal: true}},
		{`null`, new(a2a.ListTasksParams), &a2a.ListTasksParams{IncludeTotal: true}},
		{``, new(a2a.ListTasksParams), &a2a.ListTasksParams{IncludeTotal: true}},
		{
			`{"message":{"message_id":"m","role":1,"parts":[{"raw":"-_8","media_type":"a/b","text":null}],"context_id":null,"kind":"message"},"configuration":{"return_immediately":true}}`,
			new(a2a.MessageSendParams), &a2a.MessageSendParams{ExistingTask: true, Configuration: &a2a.MessageSendConfiguration{}, Message: a2a.Message{
				ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.FilePart{File: a2a.FileWithBytes{MimeType: "a/b", Bytes: []byte{0xfb, 0xff}}}},
			}},
		},
		{
			send(`{"raw":"+/8="},{"text":"\ud800"}`), new(a2a.MessageSendParams),
			&a2a.MessageSendParams{ExistingTask: true, Configuration: &a2a.MessageSendConfiguration{Blocking: true}, Message: a2a.Message{
				ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.FilePart{File: a2a.FileWithBytes{Bytes: []byte{0xfb, 0xff}}}, a2a.TextPart{Text: "\ufffd"}},
			}},
		},
	} {
		err := v10.Codec{}.DecodeParams([]byte(test.text), test.got)
		if diff := cmp.Diff(test.want, test.got, ignoreConstants); err != nil || diff != "" {
			t.Errorf("DecodeParams(%s): %v (-want +got):\n%s", test.text, err, diff)
		}
	}
}

func TestParamsAreRejectedByName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text   string
		params any
		want   string
	}{
		{`[]`, new(a2a.TaskQueryParams), `params must be an object, not an array`},
		{`{}`, new(a2a.TaskQueryParams), `id is required`},
		{`{"id":5}`, new(a2a.TaskQueryParams), `id must be a string, not a number`},
		{`{"id":""}`, new(a2a.TaskQueryParams), `id must not be empty`},
		{`{"id":"t","historyLength":-1}`, new(a2a.TaskQueryParams), `historyLength is -1, want 0 or more`},
		{`{"id":"t","historyLength":"x"}`, new(a2a.TaskQueryParams), `historyLength is "x", want a number`},
		{`{"id":"t","historyLength":" 1"}`, new(a2a.TaskQueryParams), `historyLength is " 1", want a number`},
		{`{"id":"t","historyLength":"1 2"}`, new(a2a.TaskQueryParams), `historyLength is "1 2", want a number`},
		{`{"id":"t","historyLength":1.5}`, new(a2a.TaskQueryParams), `historyLength is 1.5, want an integer of at most 64 bits`},
		{`{"id":"t","id":"t"}`, new(a2a.TaskQueryParams), `id occurs more than once`},
		{`{"status":"working"}`, new(a2a.ListTasksParams), `status is "working", want one of TASK_STATE_SUBMITTED, TASK_STATE_WORKING, TASK_STATE_COMPLETED, TASK_STATE_FAILED, TASK_STATE_CANCELED, TASK_STATE_INPUT_REQUIRED, TASK_STATE_REJECTED, TASK_STATE_AUTH_REQUIRED`},
		{`{"status":9}`, new(a2a.ListTasksParams), `status is 9, want one of`},
		{`{"status":-1}`, new(a2a.ListTasksParams), `status is -1, want one of`},
		{`{"message":{"messageId":"m","parts":[{"text":""}]}}`, new(a2a.MessageSendParams), `message.role is required`},
		{`{"message":{"messageId":"m","role":"user","parts":[{"text":""}]}}`, new(a2a.MessageSendParams), `message.role is "user", want one of ROLE_USER, ROLE_AGENT`},
		{`{"message":{"messageId":"m","role":0,"parts":[{"text":""}]}}`, new(a2a.MessageSendParams), `message.role is 0, want one of ROLE_USER, ROLE_AGENT`},
		{`{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}`, new(a2a.MessageSendParams), `message.parts must not be empty`},
		{send(`{}`), new(a2a.MessageSendParams), `message.parts[0] must have exactly one of text, raw, url, data`},
		{send(`{"text":"a","url":"https://a"}`), new(a2a.MessageSendParams), `message.parts[0] must have exactly one of text, raw, url, data`},
		{send(`{"kind":"file","file":{"uri":"https://a"}}`), new(a2a.MessageSendParams), `message.parts[0] must have exactly one of text, raw, url, data`},
		{send(`null`), new(a2a.MessageSendParams), `message.parts[0] must not be null`},
		{send(`{"raw":"%"}`), new(a2a.MessageSendParams), `message.parts[0].raw must be base64 (RFC 4648 section 4)`},
		{send(`{"text":1}`), new(a2a.MessageSendParams), `message.parts[0].text must be a string, not a number`},
		{send(`{"url":"a"}`), new(a2a.MessageSendParams), `message.parts[0].url is "a", want an absolute URL`},
		{send(`{"raw":"","mediaType":"x"}`), new(a2a.MessageSendParams), `message.parts[0].mediaType is "x", want a media type such as text/plain`},
		{send(`{"text":"","mediaType":"x"}`), new(a2a.MessageSendParams), `message.parts[0].mediaType is "x", want a media type such as text/plain`},
		{send(`{"text":"a"}`) + "x", new(a2a.MessageSendParams), `not JSON: offset 71: unexpected text after the end`},
		{strings.TrimSuffix(send(`{"text":""}`), "}") + `,"configuration":{"taskPushNotificationConfig":{"url":"x"}}}`, new(a2a.MessageSendParams), `configuration.taskPushNotificationConfig.url is "x", want an absolute URL`},
		{`{"taskId":"t","url":"x"}`, new(a2a.TaskPushNotificationConfig), `url is "x", want an absolute URL`},
		{`{"taskId":"t","url":"https://a","authentication":{"scheme":""}}`, new(a2a.TaskPushNotificationConfig), `authentication.scheme must not be empty`},
		{`{"taskId":"t","url":"https://a","authentication":{}}`, new(a2a.TaskPushNotificationConfig), `authentication.scheme is required`},
		{`{"url":"https://a"}`, new(a2a.TaskPushNotificationConfig), `taskId is required`},
		{`{"taskId":"t"}`, new(a2a.GetTaskPushNotificationConfigParams), `id is required`},
		{`{"id":"w"}`, new(a2a.GetTaskPushNotificationConfigParams), `taskId is required`},
		{`{"taskId":"","id":""}`, new(a2a.DeleteTaskPushNotificationConfigParams), `taskId must not be empty; id must not be empty`},
	} {
		err := v10.Codec{}.DecodeParams([]byte(test.text), test.params)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("DecodeParams(%s) = %v, want %s", test.text, err, test.want)
			continue
		}
		var e *a2a.Error
		if field, _, _ := strings.Cut(test.want, " "); field != "not" && (!errors.As(err, &e) || e.Code != a2a.CodeInvalid || e.Data["field"] != field) {
			t.Errorf("DecodeParams(%s) = %+v, want invalid_params with the field %s", test.text, err, field)
		}
	}
}

func TestStatesRoundTrip(t *testing.T) {
	t.Parallel()
	names := map[a2a.TaskState]string{
		a2a.StateSubmitted: "SUBMITTED", a2a.StateWorking: "WORKING", a2a.StateInputRequired: "INPUT_REQUIRED", a2a.StateCompleted: "COMPLETED",
		a2a.StateCanceled: "CANCELED", a2a.StateFailed: "FAILED", a2a.StateRejected: "REJECTED", a2a.StateAuthRequired: "AUTH_REQUIRED", a2a.StateUnknown: "UNSPECIFIED",
		a2a.StatePaymentRequired: "INPUT_REQUIRED", a2a.StateTrustVerificationRequired: "AUTH_REQUIRED", a2a.StatePending: "SUBMITTED", a2a.StateSuspended: "INPUT_REQUIRED",
		a2a.StateResumed: "WORKING", a2a.StateBidSubmitted: "SUBMITTED", a2a.StateBidWon: "SUBMITTED", a2a.StateBidLost: "REJECTED",
	}
	metadata := map[string]any{"k": "v"}
	for _, s := range a2a.States() {
		for _, event := range []a2a.Event{
			&a2a.Task{ID: "t", Status: a2a.TaskStatus{State: s}, Metadata: metadata},
			&a2a.TaskStatusUpdateEvent{TaskID: "t", Status: a2a.TaskStatus{State: s}, Metadata: metadata, Final: s.Final()},
		} {
			out, err := v10.Codec{}.AppendEvent(nil, event)
			if err != nil || !strings.Contains(string(out), `"TASK_STATE_`+names[s]+`"`) || strings.Contains(string(out), v10.MetadataState) != (v10.Standard(s) != s) {
				t.Errorf("AppendEvent(%s) = %s, %v, want TASK_STATE_%s, and the original in the metadata if it differs", s, out, err, names[s])
			}
			back, err := v10.Codec{}.DecodeEvent(out)
			if diff := cmp.Diff(event, back, ignoreConstants); err != nil || diff != "" {
				t.Errorf("DecodeEvent(%s): %v (-want +got):\n%s", out, err, diff)
			}
		}
		if shown := v10.Standard(s); shown.Terminal() != s.Terminal() || shown.Paused() != s.Paused() {
			t.Errorf("Standard(%s) = %s, want equal Terminal and Paused", s, shown)
		}
	}
	if len(metadata) != 1 {
		t.Errorf("metadata was changed: %v", metadata)
	}
}

func TestMetadataCannotContradictStatesAndRoles(t *testing.T) {
	t.Parallel()
	for _, original := range []string{`"completed"`, `"negotiation-bid-lost"`, `"made up"`, `5`, `null`} {
		text := `{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"},"metadata":{"holdfast.state":` + original + `}}}`
		e, err := v10.Codec{}.DecodeEvent([]byte(text))
		if task, ok := e.(*a2a.Task); err != nil || !ok || task.Status.State != a2a.StateWorking || task.Metadata != nil {
			t.Errorf("DecodeEvent(%s) = %+v, %v, want working", text, e, err)
		}
	}
	for role, want := range map[string]a2a.Role{"ROLE_USER": a2a.RoleSystem, "ROLE_AGENT": a2a.RoleAgent} {
		e, err := v10.Codec{}.DecodeEvent([]byte(`{"message":{"messageId":"m","role":"` + role + `","parts":[{"text":""}],"metadata":{"holdfast.role":"system"}}}`))
		m, ok := e.(*a2a.Message)
		if err != nil || !ok || m.Role != want || m.Metadata != nil {
			t.Fatalf("DecodeEvent(%s) = %+v, %v, want the role %s", role, e, err, want)
		}
		out, err := v10.Codec{}.AppendEvent(nil, m)
		if err != nil || !strings.Contains(string(out), role) || strings.Contains(string(out), v10.MetadataRole) != (want == a2a.RoleSystem) {
			t.Errorf("AppendEvent(%s) = %s, %v, want %s", want, out, err, role)
		}
	}
}

func TestExtensionsAreOmittedUnlessRequested(t *testing.T) {
	t.Parallel()
	method := a2a.Method{}
	for want, result := range map[string]any{
		`{"taskId":"t","url":"u","signingSecret":"s"}`:                             &a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{URL: "u", SigningSecret: "s"}},
		`{"tasks":[],"nextPageToken":"","page":1,"pageSize":2}`:                    &a2a.ListTasksResult{Page: 1, PageSize: 2},
		`{"artifactId":"a","parts":[{"text":"x","embeddings":[1]}],"append":true}`: &a2a.Artifact{ID: "a", Append: true, Parts: []a2a.Part{a2a.TextPart{Text: "x", Embeddings: []float64{1}}}},
	} {
		got, err := v10.Codec{Extensions: true}.AppendResult(nil, &method, result)
		if err != nil || !sameJSON(t, string(got), want) {
			t.Errorf("AppendResult() with extensions = %s, %v, want %s", got, err, want)
		}
		for _, member := range []string{`,"signingSecret":"s"`, `,"page":1`, `,"embeddings":[1]`, `,"append":true`} {
			want = strings.Replace(want, member, "", 1)
		}
		if got, err := (v10.Codec{}).AppendResult(nil, &method, result); err != nil || !sameJSON(t, string(got), want) {
			t.Errorf("AppendResult() = %s, %v, want %s", got, err, want)
		}
	}
}

func TestWithdrawnArtifactsHaveAPart(t *testing.T) {
	t.Parallel()
	event := &a2a.TaskArtifactUpdateEvent{
		TaskID: "t", ContextID: "c", LastChunk: true,
		Artifact: a2a.Artifact{ID: "a", Parts: []a2a.Part{}, Metadata: map[string]any{"k": "v"}},
	}
	raw, err := v10.Codec{}.AppendEvent(nil, event)
	if want := `"parts":[{"text":""}],"metadata":{"holdfast.withdrawn":true,"k":"v"}`; err != nil || !strings.Contains(string(raw), want) {
		t.Errorf("AppendEvent() = %s, %v, want %s", raw, err, want)
	}
	got, err := v10.Codec{}.DecodeEvent(raw)
	if diff := cmp.Diff(a2a.Event(event), got); err != nil || diff != "" {
		t.Errorf("DecodeEvent() = %v, difference:\n%s", err, diff)
	}
}
