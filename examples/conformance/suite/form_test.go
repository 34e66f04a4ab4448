package suite_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/rpc"
)

// checkForm reports an error if the JSON of a result has a member that the version of the protocol
// does not define, or lacks one, or breaks the official schema.
func checkForm(t *testing.T, codec rpc.Codec, method string, raw json.RawMessage) {
	t.Helper()
	checkSchema(t, codec, method, raw)
	if problem := formProblem(codec, method, raw); problem != "" {
		t.Errorf("%s = %s\n%s", method, raw, problem)
	}
}

// formProblem decodes a result into the type of its method and encodes it again, which keeps only
// members that the version defines. It returns how the two differ, or "".
func formProblem(codec rpc.Codec, method string, raw json.RawMessage) string {
	m, _ := a2a.MethodByName(method)
	result, err := decodeResult(codec, method, raw)
	if err != nil {
		return err.Error()
	}
	if result == nil {
		return ""
	}
	var again []byte
	if e, ok := result.(a2a.Event); ok && m.Streaming {
		again, err = codec.AppendEvent(nil, e)
	} else {
		again, err = codec.AppendResult(nil, &m, result)
	}
	if err != nil {
		return "cannot be encoded again: " + err.Error()
	}
	var got, want any
	if err := errors.Join(json.Unmarshal(raw, &got), json.Unmarshal(again, &want)); err != nil {
		return err.Error()
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("want only members that A2A %s defines, as %s", codec.Version(), again)
	}
	return ""
}

func TestUndefinedMembersAreFound(t *testing.T) {
	t.Parallel()
	v03Task := `{"kind":"task","id":"t","contextId":"c","status":{"state":"working"}%s}`
	v10Task := `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}%s}`
	for _, tt := range []struct {
		codec rpc.Codec
		text  string
	}{{v03.Codec{}, v03Task}, {v10.Codec{}, v10Task}} {
		for more, defined := range map[string]bool{"": true, `,"metadata":{"a":1}`: true, `,"unknown":1`: false, `,"context_id":"c"`: false} {
			problem := formProblem(tt.codec, a2a.MethodGet, json.RawMessage(fmt.Sprintf(tt.text, more)))
			if (problem == "") != defined {
				t.Errorf("A2A %s with %q: problem %q, want one: %t", tt.codec.Version(), more, problem, !defined)
			}
		}
	}
}

// decodeResult decodes a result into the type of its method. It returns nil for an empty result.
func decodeResult(codec rpc.Codec, method string, raw json.RawMessage) (result any, err error) {
	type decoder interface {
		DecodeResult(raw []byte, v any) error
		DecodeEvent(raw []byte) (a2a.Event, error)
	}
	d := codec.(decoder)
	switch method {
	case a2a.MethodSend, a2a.MethodStream, a2a.MethodResubscribe:
		e, err := d.DecodeEvent(raw)
		if err == nil && e == nil {
			err = fmt.Errorf("no task, message or update")
		}
		return e, err
	case a2a.MethodGet, a2a.MethodCancel:
		result = new(a2a.Task)
	case a2a.MethodList:
		result = new(a2a.ListTasksResult)
	case a2a.MethodPushSet, a2a.MethodPushGet:
		result = new(a2a.TaskPushNotificationConfig)
	case a2a.MethodExtendedCard:
		return nil, nil // the card has the interfaces of both versions
	case a2a.MethodPushDelete:
		if want := emptyResult(codec); string(raw) != want {
			err = fmt.Errorf("want %s", want)
		}
		return nil, err
	default:
		return nil, nil
	}
	return result, d.DecodeResult(raw, result)
}

// emptyResult is the result of a method that has none.
func emptyResult(codec rpc.Codec) string {
	if _, ok := codec.(v03.Codec); ok {
		return "null"
	}
	return "{}"
}

// checkError reports an error if a JSON-RPC error object has not the form of its version.
func checkError(t *testing.T, codec rpc.Codec, raw json.RawMessage) {
	t.Helper()
	var failed struct {
		Code    *int   `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}
	if err := json.Unmarshal(raw, &failed); err != nil || failed.Code == nil || failed.Message == "" {
		t.Errorf("error = %s, want code and message", raw)
	}
	_, legacy := codec.(v03.Codec)
	if legacy {
		checkDefinition(t, codec, "JSONRPCErrorResponse.error", raw)
	}
	if !legacy && length(failed.Data) == 0 {
		t.Errorf("error = %s, want an array as data", raw)
	}
}
