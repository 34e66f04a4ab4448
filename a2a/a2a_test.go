package a2a_test

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

func TestMethodsAreWellFormed(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-z]+(/[a-zA-Z]+){1,2}$`)
	seen := make(map[string]bool)
	for _, m := range a2a.Methods() {
		for _, name := range []string{m.Name, m.NameV10, m.HTTPMethod + " " + m.Path} {
			if seen[name] && name != "" {
				t.Errorf("%s occurs more than once", name)
			}
			seen[name] = true
		}
		if !form.MatchString(m.Name) || m.Summary == "" {
			t.Errorf("method %+v, want a name of the form category/action and a summary", m)
		}
		if got, ok := a2a.MethodByName(m.Name); !ok || got != m {
			t.Errorf("MethodByName(%q) = %+v, %t", m.Name, got, ok)
		}
	}
	if _, ok := a2a.MethodByName("no/such"); ok {
		t.Error("MethodByName found a method that does not exist")
	}
}

func TestCodesRoundTrip(t *testing.T) {
	t.Parallel()
	// The numbers of JSON-RPC 2.0 and of A2A 0.3 section 8.
	for number, code := range map[int]a2a.Code{
		-32700: a2a.CodeParse, -32600: a2a.CodeInvalidRequest, -32601: a2a.CodeMethodNotFound, -32602: a2a.CodeInvalid, -32603: a2a.CodeInternal,
		-32001: a2a.CodeTaskNotFound, -32002: a2a.CodeTaskNotCancelable, -32003: a2a.CodePushNotSupported, -32004: a2a.CodeUnsupported,
		-32005: a2a.CodeContentType, -32006: a2a.CodeInvalidAgentResponse, -32007: a2a.CodeNoExtendedCard,
	} {
		if got := code.JSONRPC(); got != number {
			t.Errorf("%s.JSONRPC() = %d, want %d", code, got, number)
		}
		if got := a2a.CodeOfJSONRPC(number); got != code {
			t.Errorf("CodeOfJSONRPC(%d) = %s, want %s", number, got, code)
		}
	}
	if got := a2a.CodeOfJSONRPC(-1); got != a2a.CodeInternal {
		t.Errorf("CodeOfJSONRPC(-1) = %s, want internal", got)
	}
	if got := a2a.Code("made up").HTTPStatus(); got != 500 {
		t.Errorf("HTTP status of an unknown code = %d, want 500", got)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	err := fmt.Errorf("get: %w", a2a.Wrap(a2a.CodeTaskNotFound, cause, "deleted"))
	if !errors.Is(err, a2a.ErrTaskNotFound) || !errors.Is(err, cause) || errors.Is(err, a2a.ErrConflict) || a2a.CodeOf(err) != a2a.CodeTaskNotFound {
		t.Errorf("errors.Is(%v) has an unexpected result", err)
	}
	for text, want := range map[string]a2a.Code{`{`: a2a.CodeParse, `[]`: a2a.CodeInvalid} {
		if got := a2a.CodeOf(wire.Unmarshal([]byte(text), new(a2a.Task))); got != want {
			t.Errorf("CodeOf the error of %s = %s, want %s", text, got, want)
		}
	}
	if got := a2a.CodeOf(cause); got != a2a.CodeInternal {
		t.Errorf("CodeOf(%v) = %s, want internal", cause, got)
	}
}

func TestStateTransitions(t *testing.T) {
	t.Parallel()
	for _, from := range a2a.States() {
		for _, to := range a2a.States() {
			can := from.CanMove(to)
			if from.Terminal() && can {
				t.Errorf("%s can move to %s, want terminal states to be permanent", from, to)
			}
			if from == to && can == from.Terminal() {
				t.Errorf("%s.CanMove(itself) = %t", from, can)
			}
		}
		if from.Paused() && (!from.CanMove(a2a.StateSubmitted) || !from.CanMove(a2a.StateCanceled)) {
			t.Errorf("%s waits for its client, but neither a message nor a cancel can change it", from)
		}
	}
	if a2a.TaskState("made up").CanMove("made up") || a2a.TaskState("made up").Known() {
		t.Error("an unknown state can change")
	}
}

func TestDecodeEvent(t *testing.T) {
	t.Parallel()
	message := a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "x"}}}
	for _, want := range []a2a.Event{
		&a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateWorking, Message: &message}, History: []a2a.Message{}},
		&message,
		&a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateBidWon}, Final: true},
		&a2a.TaskArtifactUpdateEvent{TaskID: "t", ContextID: "c", Append: true, Artifact: a2a.Artifact{ID: "a", Parts: []a2a.Part{
			a2a.DataPart{Data: []any{1.5, "x"}}, a2a.DataPart{}, a2a.FilePart{File: a2a.FileWithBytes{Name: "n", Bytes: []byte("hi")}}, a2a.FilePart{File: a2a.FileWithURI{URI: "u"}},
		}}},
	} {
		text, err := wire.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := a2a.DecodeEvent(text)
		if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); err != nil || diff != "" {
			t.Errorf("DecodeEvent(%s): %v (-want +got)\n%s", text, err, diff)
		}
	}
	for _, bad := range []string{
		`{}`, `{"kind":"song"}`, `{"kind":"task"}`, `[]`, `{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"data"}]}`,
	} {
		if e, err := a2a.DecodeEvent([]byte(bad)); err == nil {
			t.Errorf("DecodeEvent(%s) = %+v, want an error", bad, e)
		}
	}
}
