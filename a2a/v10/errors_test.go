package v10_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	info := func(reason, code, more string) string {
		return `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + reason + `","domain":"a2a-protocol.org","metadata":{"code":"` + code + `"` + more + `}}`
	}
	for _, test := range []struct {
		err       *a2a.Error
		requestID string
		want      string
	}{
		{&a2a.Error{Code: a2a.CodeTaskNotFound, Message: "task \"t\" not found"}, "", `{"code":-32001,"message":"task \"t\" not found","data":[` + info("TASK_NOT_FOUND", "task_not_found", "") + `]}`},
		{&a2a.Error{Code: a2a.CodePushConfigNotFound, Message: "m"}, "", `{"code":-32001,"message":"m","data":[` + info("TASK_NOT_FOUND", "push_config_not_found", "") + `]}`},
		{&a2a.Error{Code: a2a.CodeNoExtendedCard, Message: "m"}, "", `{"code":-32007,"message":"m","data":[` + info("EXTENDED_AGENT_CARD_NOT_CONFIGURED", "extended_card_not_configured", "") + `]}`},
		{&a2a.Error{Code: a2a.CodeExtensionRequired, Message: "m"}, "", `{"code":-32008,"message":"m","data":[` + info("EXTENSION_SUPPORT_REQUIRED", "extension_support_required", "") + `]}`},
		{
			&a2a.Error{Code: a2a.CodeVersionNotSupported, Message: "m", Data: map[string]any{"supported": []any{"0.3"}, "n": 2.0, "s": "x"}}, "r",
			`{"code":-32009,"message":"m","data":[` + info("VERSION_NOT_SUPPORTED", "version_not_supported", `,"supported":"[\"0.3\"]","n":"2","s":"x"`) +
				`,{"@type":"type.googleapis.com/google.rpc.RequestInfo","requestId":"r"}]}`,
		},
		{
			a2a.Invalid("configuration.pushNotificationConfig.url", "is refused"), "",
			`{"code":-32602,"message":"configuration.taskPushNotificationConfig.url is refused","data":[` + info("INVALID_PARAMS", "invalid_params", "") +
				`,{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"configuration.taskPushNotificationConfig.url","description":"is refused"}]}]}`,
		},
		{
			&a2a.Error{Code: a2a.CodeInvalid, Message: "a is bad; b is; bad", Data: map[string]any{"field": "a", "fields": []any{"a", "b"}}}, "",
			`{"code":-32602,"message":"a is bad; b is; bad","data":[` + info("INVALID_PARAMS", "invalid_params", "") +
				`,{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"a","description":"is bad"},{"field":"b","description":"is; bad"}]}]}`,
		},
		{
			&a2a.Error{Code: a2a.CodeInvalid, Message: "another text", Data: map[string]any{"fields": []any{"a", "b"}}}, "",
			`{"code":-32602,"message":"another text","data":[` + info("INVALID_PARAMS", "invalid_params", "") +
				`,{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"a","description":"another text"},{"field":"b","description":"another text"}]}]}`,
		},
	} {
		if got := (v10.Codec{}).AppendError(nil, test.err, test.requestID, ""); !sameJSON(t, string(got), test.want) {
			t.Errorf("AppendError(%v) = %s, want %s", test.err, got, test.want)
		}
	}
}

func TestOnlyOneErrorHasTheNumberOfA2A11(t *testing.T) {
	t.Parallel()
	for _, code := range a2a.Codes() {
		got := string(v10.Codec{}.AppendError(nil, &a2a.Error{Code: code}, "", ""))
		if strings.Contains(got, "-32010") != (code == a2a.CodeGenerationMismatch) {
			t.Errorf("AppendError(%s) = %s, want -32010 for task_generation_mismatch only", code, got)
		}
	}
}

func TestDecodeErrorReversesAppendError(t *testing.T) {
	t.Parallel()
	for _, code := range a2a.Codes() {
		want := &a2a.Error{Code: code, Message: "x is bad", Data: map[string]any{"code": string(code), "field": "x", "more": "y", "requestId": "r"}}
		raw := v10.Codec{}.AppendError(nil, &a2a.Error{Code: code, Message: "x is bad", Data: map[string]any{"field": "x", "more": "y"}}, "r", "")
		if got, err := (v10.Codec{}).DecodeError(raw); err != nil || !cmp.Equal(got, want) {
			t.Errorf("DecodeError(%s) = %+v, %v, want %+v", raw, got, err, want)
		}
		raw = v10.Codec{}.AppendHTTPError(nil, v10.Codec{}.HTTPStatus(code), &a2a.Error{Code: code, Message: "x is bad", Data: map[string]any{"field": "x", "more": "y"}}, "r")
		if got, err := (v10.Codec{}).DecodeHTTPError(raw); err != nil || !cmp.Equal(got, want) {
			t.Errorf("DecodeHTTPError(%s) = %+v, %v, want %+v", raw, got, err, want)
		}
	}
	for text, want := range map[string]*a2a.Error{
		`{"code":-32054,"message":"m"}`:                    {Code: a2a.CodeUnauthenticated, Message: "m", Data: map[string]any{}},
		`{"code":-32010,"message":"m"}`:                    {Code: a2a.CodeGenerationMismatch, Message: "m", Data: map[string]any{}},
		`{"code":-32001,"message":""}`:                     {Code: a2a.CodeTaskNotFound, Message: "task not found", Data: map[string]any{}},
		`{"code":-32001,"message":"m","data":{"k":1}}`:     {Code: a2a.CodeTaskNotFound, Message: "m", Data: map[string]any{"data": map[string]any{"k": 1.0}}},
		`{"code":-1,"message":"m","data":[{"@type":"x"}]}`: {Code: a2a.CodeInternal, Message: "m", Data: map[string]any{"jsonrpc": -1.0}},
		`{"code":-1,"message":"m","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_CANCELABLE","domain":"a2a-protocol.org"}]}`: {
			Code: a2a.CodeTaskNotCancelable, Message: "m", Data: map[string]any{},
		},
		`{"code":-1,"message":"m","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_CANCELABLE","domain":"example.com"}]}`: {
			Code: a2a.CodeInternal, Message: "m", Data: map[string]any{"jsonrpc": -1.0},
		},
		`{"code":-32602,"message":"m","data":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"a"},{"field":"b"}]}]}`: {
			Code: a2a.CodeInvalid, Message: "m", Data: map[string]any{"field": "a", "fields": []any{"a", "b"}},
		},
	} {
		if got, err := (v10.Codec{}).DecodeError([]byte(text)); err != nil || !cmp.Equal(got, want) {
			t.Errorf("DecodeError(%s) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	if e, err := (v10.Codec{}).DecodeError([]byte(`{"code":"x"}`)); err == nil {
		t.Errorf("DecodeError of a code that is no number = %+v, want an error", e)
	}
}

// The tables of the errors of A2A, with the statuses of 1.0.1 and of 1.0.0.
func TestHTTPStatusOfErrors(t *testing.T) {
	t.Parallel()
	for code, want := range map[a2a.Code][2]string{
		a2a.CodeTaskNotFound:         {"404 NOT_FOUND", "404 NOT_FOUND"},
		a2a.CodeTaskNotCancelable:    {"400 FAILED_PRECONDITION", "409 FAILED_PRECONDITION"},
		a2a.CodePushNotSupported:     {"400 FAILED_PRECONDITION", "400 UNIMPLEMENTED"},
		a2a.CodeUnsupported:          {"400 FAILED_PRECONDITION", "400 UNIMPLEMENTED"},
		a2a.CodeContentType:          {"400 INVALID_ARGUMENT", "415 INVALID_ARGUMENT"},
		a2a.CodeInvalidAgentResponse: {"500 INTERNAL", "502 INTERNAL"},
		a2a.CodeNoExtendedCard:       {"400 FAILED_PRECONDITION", "400 FAILED_PRECONDITION"},
		a2a.CodeExtensionRequired:    {"400 FAILED_PRECONDITION", "400 FAILED_PRECONDITION"},
		a2a.CodeVersionNotSupported:  {"400 FAILED_PRECONDITION", "400 UNIMPLEMENTED"},
		a2a.CodeInvalid:              {"400 INVALID_ARGUMENT", "400 INVALID_ARGUMENT"},
		a2a.CodeExhausted:            {"429 RESOURCE_EXHAUSTED", "429 RESOURCE_EXHAUSTED"},
		a2a.CodeInternal:             {"500 INTERNAL", "500 INTERNAL"},
	} {
		for i, codec := range []v10.Codec{{}, {Errors100: true}} {
			status := codec.HTTPStatus(code)
			number, name, _ := strings.Cut(want[i], " ")
			body := string(codec.AppendHTTPError(nil, status, &a2a.Error{Code: code, Message: "m"}, ""))
			if strconv.Itoa(status) != number || !strings.HasPrefix(body, `{"error":{"code":`+number+`,"status":"`+name+`",`) {
				t.Errorf("%s with Errors100 %t = %d %s, want %s", code, codec.Errors100, status, body, want[i])
			}
		}
	}
}

func TestDecodeHTTPErrorOfOtherServers(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]a2a.Code{
		`{"error":{"code":404,"status":"NOT_FOUND","message":"m"}}`: a2a.CodeTaskNotFound,
		`{"error":{"code":501,"status":"UNIMPLEMENTED"}}`:           a2a.CodeMethodNotFound,
		`{"error":{"code":499,"status":"CANCELLED","details":7}}`:   a2a.CodeInternal,
		`{"error":{"status":"FAILED_PRECONDITION","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_CANCELABLE","domain":"a2a-protocol.org"}]}}`: a2a.CodeTaskNotCancelable,
	} {
		if got, err := (v10.Codec{}).DecodeHTTPError([]byte(body)); err != nil || got.Code != want || got.Message == "" {
			t.Errorf("DecodeHTTPError(%s) = %+v, %v, want %s", body, got, err, want)
		}
	}
	for _, body := range []string{``, `7`, `{}`, `{"error":null}`, `{"error":"x"}`, `{"task":{}}`} {
		if got, err := (v10.Codec{}).DecodeHTTPError([]byte(body)); err == nil {
			t.Errorf("DecodeHTTPError(%s) = %+v, want an error", body, got)
		}
	}
}
