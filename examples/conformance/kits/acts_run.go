package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/agents/conformance"
)

// actsMethods are the methods of the operations of ACTS.
var actsMethods = map[string]string{
	"send_message": a2a.MethodSend, "send_streaming_message": a2a.MethodStream, "get_task": a2a.MethodGet, "list_tasks": a2a.MethodList,
	"cancel_task": a2a.MethodCancel, "subscribe_to_task": a2a.MethodResubscribe, "get_extended_agent_card": a2a.MethodExtendedCard,
	"set_push_notification_config": a2a.MethodPushSet, "get_push_notification_config": a2a.MethodPushGet,
	"list_push_notification_configs": a2a.MethodPushList, "delete_push_notification_config": a2a.MethodPushDelete,
}

// errorNames are the names of errors in ACTS.
var errorNames = map[a2a.Code]string{
	a2a.CodeTaskNotFound: "TaskNotFoundError", a2a.CodePushConfigNotFound: "TaskNotFoundError", a2a.CodeTaskNotCancelable: "TaskNotCancelableError",
	a2a.CodePushNotSupported: "PushNotificationNotSupportedError", a2a.CodeUnsupported: "UnsupportedOperationError",
	a2a.CodeContentType: "ContentTypeNotSupportedError", a2a.CodeInvalidAgentResponse: "InvalidAgentResponseError",
	a2a.CodeNoExtendedCard: "ExtendedAgentCardNotConfiguredError", a2a.CodeExtensionRequired: "ExtensionSupportRequiredError",
	a2a.CodeVersionNotSupported: "VersionNotSupportedError", a2a.CodeInvalid: "InvalidParamsError",
}

// actsRun is the execution of a test.
type actsRun struct {
	ctx       context.Context // of the test
	url       string
	rest      bool
	variables map[string]any
}

// actsResponse is the response to a step.
type actsResponse struct {
	status any // the HTTP status, or "error"
	body   any
	failed *a2a.Error
	events []any
}

func newActsRun(ctx context.Context, url string, rest bool, t actsTest) *actsRun {
	run := &actsRun{ctx, url, rest, map[string]any{
		"insufficientAuthToken": conformance.InsufficientToken, "webhookUrl": "https://example.com/webhook",
	}}
	for name, value := range t.variables {
		run.variables[name] = value
	}
	return run
}

// steps executes steps. It returns the first problem, or "".
func (r *actsRun) steps(steps []actsStep) string {
	if slices.ContainsFunc(steps, func(s actsStep) bool { return strings.Contains(fmt.Sprint(s.Params), "{{otherUserTaskId}}") }) {
		other, err := r.call(conformance.OtherToken, "send_message", map[string]any{"message": map[string]any{"role": "ROLE_USER", "parts": []any{map[string]any{"text": "tck-complete-task"}}}})
		if err != nil || other.failed != nil {
			return fmt.Sprintf("task of another user: %v %v", other.body, err)
		}
		r.variables["otherUserTaskId"] = find(other.body, "task.id")[0]
	}
	for _, s := range steps {
		if problem := r.step(s); problem != "" {
			return s.ID + ": " + problem
		}
	}
	return ""
}

func (r *actsRun) step(s actsStep) string {
	if s.ClientResponse != nil {
		return decodeResponse(s.ClientResponse.Operation, s.ClientResponse.WirePayload, s.ExpectParsed)
	}
	for attempt := 1; ; attempt++ {
		got, err := r.execute(s)
		if err != nil {
			return err.Error()
		}
		r.variables[s.ID+".response"] = got.body
		for name, path := range s.Capture {
			if values := find(got.body, path); len(values) > 0 {
				r.variables[s.ID+"."+name] = values[0]
			}
		}
		problem := r.check(s, got)
		if s.Repeat == nil || problem != "" || holds(s.Repeat.Until, got.body) {
			return problem
		}
		if attempt == s.Repeat.Attempts {
			return "not within the attempts: " + s.Repeat.Until
		}
		select {
		case <-r.ctx.Done():
			return r.ctx.Err().Error()
		case <-time.After(time.Duration(s.Repeat.DelayMS) * time.Millisecond):
		}
	}
}

func (r *actsRun) execute(s actsStep) (*actsResponse, error) {
	if s.Raw == nil {
		params, _ := r.substitute(s.Params).(map[string]any)
		return r.call(conformance.Token, s.Operation, params)
	}
	body := []byte(s.Raw.BodyRaw)
	if s.Raw.Body != nil {
		var err error
		if body, err = json.Marshal(withMessageID(r.substitute(s.Raw.Body))); err != nil {
			return nil, err
		}
	}
	header := make(http.Header)
	for name, value := range s.Raw.Headers {
		header.Set(name, fmt.Sprint(r.substitute(value)))
	}
	path := fmt.Sprint(r.substitute(s.Raw.Path))
	return r.send(s.Raw.Method, path, header, body, false)
}

var variable = regexp.MustCompile(`\{\{([^}]+)\}\}`)

// substitute replaces the variables in a value.
func (r *actsRun) substitute(v any) any {
	switch v := v.(type) {
	case string:
		return variable.ReplaceAllStringFunc(v, func(name string) string { return fmt.Sprint(r.variables[strings.Trim(name, "{}")]) })
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, each := range v {
			out[name] = r.substitute(each)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, each := range v {
			out[i] = r.substitute(each)
		}
		return out
	}
	return v
}

// withMessageID adds a messageId, which the suites omit, to the message of a request.
func withMessageID(body any) any {
	for _, holder := range []string{"", "params."} {
		for _, m := range find(body, holder+"message") {
			if m, ok := m.(map[string]any); ok && m["messageId"] == nil {
				m["messageId"] = uuid.NewString()
			}
		}
	}
	return body
}

// call executes an abstract operation.
func (r *actsRun) call(token, operation string, params map[string]any) (*actsResponse, error) {
	header := http.Header{"A2a-Version": {"1.0"}, "Authorization": {"Bearer " + token}}
	if operation == "get_agent_card" {
		if params["extended"] != true {
			return r.send(http.MethodGet, "/.well-known/agent-card.json", header, nil, false)
		}
		operation, params = "get_extended_agent_card", nil
	}
	m, ok := a2a.MethodByName(actsMethods[operation])
	if !ok {
		return nil, fmt.Errorf("unknown operation %s", operation)
	}
	params = normalize(params)
	header.Set("Content-Type", "application/json")
	if m.Streaming {
		header.Set("Accept", "text/event-stream")
	}
	if !r.rest {
		body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": m.NameV10, "params": params})
		if err != nil {
			return nil, err
		}
		return r.send(http.MethodPost, "/", header, body, true)
	}
	path := v10.Codec{}.Path(&m)
	query := make(url.Values)
	for name, value := range params {
		if filled := strings.Replace(path, "{"+name+"}", url.PathEscape(fmt.Sprint(value)), 1); filled != path {
			path = filled
		} else {
			query.Set(name, fmt.Sprint(value))
		}
	}
	if m.HTTPMethod == http.MethodGet || m.HTTPMethod == http.MethodDelete {
		return r.send(m.HTTPMethod, path+"?"+query.Encode(), header, nil, true)
	}
	body, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return r.send(m.HTTPMethod, path, header, body, true)
}

// normalize returns params in the form of A2A 1.0: the ids of a message are in it, and the
// members of a webhook are beside its task.
func normalize(params map[string]any) map[string]any {
	out := make(map[string]any)
	for name, value := range params {
		out[name] = value
	}
	if m, ok := out["message"].(map[string]any); ok {
		for _, name := range []string{"taskId", "contextId"} {
			if id, ok := out[name]; ok {
				m[name] = id
				delete(out, name)
			}
		}
		withMessageID(out)
	}
	if config, ok := out["pushNotificationConfig"].(map[string]any); ok {
		delete(out, "pushNotificationConfig")
		for name, value := range config {
			out[name] = value
		}
	}
	return out
}

// send sends a request. With unwrap, the response has only the result or the error of the
// operation.
func (r *actsRun) send(verb, path string, header http.Header, body []byte, unwrap bool) (*actsResponse, error) {
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, verb, r.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := &actsResponse{status: float64(resp.StatusCode)}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		out.events, err = readEvents(resp.Body, unwrap && !r.rest)
		return out, err
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || len(text) == 0 {
		return out, err
	}
	if err := json.Unmarshal(text, &out.body); err != nil {
		return nil, fmt.Errorf("%s %s = %s: %w", verb, path, text, err)
	}
	if unwrap {
		return out, out.unwrap(text, r.rest)
	}
	return out, nil
}

// unwrap replaces the body by the result of a call, or sets the error.
func (a *actsResponse) unwrap(text []byte, rest bool) (err error) {
	var envelope struct {
		Result any             `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(text, &envelope); err != nil {
		return err
	}
	switch {
	case envelope.Error == nil && rest:
	case envelope.Error == nil:
		a.body = envelope.Result
	default:
		if a.status = "error"; rest {
			a.failed, err = v10.Codec{}.DecodeHTTPError(text)
		} else {
			a.failed, err = v10.Codec{}.DecodeError(envelope.Error)
		}
	}
	return err
}

// readEvents returns the data of server-sent events. With unwrap, it returns the results of the
// JSON-RPC responses in them.
func readEvents(in io.Reader, unwrap bool) (events []any, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event any
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return events, err
		}
		if unwrap {
			event = find(event, "result")[0]
		}
		events = append(events, event)
	}
	return events, lines.Err()
}

// check returns how a response differs from what a step expects, or "".
func (r *actsRun) check(s actsStep, got *actsResponse) string {
	if s.ExpectError != nil {
		return r.checkError(s.ExpectError, got)
	}
	if s.ExpectStream != nil {
		return checkStream(s.ExpectStream, got)
	}
	expect, _ := r.substitute(s.Expect).(map[string]any)
	if want, ok := expect["status"]; ok {
		if problem := match(want, got.status); problem != "" {
			return fmt.Sprintf("status %s: %v", problem, got.body)
		}
		delete(expect, "status")
	}
	var want any = expect
	if body, ok := expect["body"]; ok {
		want = body
	}
	if problem := match(want, got.body); problem != "" {
		return problem
	}
	for _, a := range s.Assertions {
		source := r.variables[strings.Trim(a.Source, "{} ")]
		values := find(source, a.Any.Path)
		want := r.substitute(a.Any.Match)
		if !slices.ContainsFunc(values, func(v any) bool { return match(want, v) == "" }) {
			return fmt.Sprintf("no %s is %v: %v", a.Any.Path, want, values)
		}
	}
	return ""
}

func (r *actsRun) checkError(want map[string]any, got *actsResponse) string {
	if got.failed == nil {
		return fmt.Sprintf("got %v %v, want an error", got.body, got.events)
	}
	data := find(got.body, "error.data")
	if r.rest {
		data = find(got.body, "error.details")
	}
	actual := map[string]any{"code": errorNames[got.failed.Code], "error_type": errorNames[got.failed.Code], "message": got.failed.Message}
	if len(data) > 0 {
		actual["data"] = data[0]
	}
	return match(r.substitute(want), actual)
}

// checkStream checks the events of a stream.
func checkStream(want map[string]any, got *actsResponse) string {
	if len(got.events) == 0 {
		return fmt.Sprintf("got %v, want events", got.body)
	}
	if n, ok := want["min_count"].(int); ok && len(got.events) < n {
		return fmt.Sprintf("%d events, want %d or more", len(got.events), n)
	}
	views := make([]any, len(got.events))
	for i, e := range got.events {
		views[i] = eventView(e)
		if each, ok := want["each_event"]; ok {
			if problem := match(each, e); problem != "" {
				return problem
			}
		}
	}
	if final, ok := want["final_event"]; ok {
		if problem := match(final, views[len(views)-1]); problem != "" {
			return "final event: " + problem
		}
	}
	if want["ordering"] == "monotonic_state" && !slices.IsSorted(stateRanks(views)) {
		return fmt.Sprintf("states go back: %v", got.events)
	}
	events, _ := want["events"].([]any)
	for _, e := range events {
		e, _ := e.(map[string]any)
		matcher := make(map[string]any)
		for name, value := range e {
			if name != "description" && name != "match" && name != "index" {
				matcher[name] = value
			}
		}
		candidates := views
		if i, ok := e["index"].(int); ok && i < len(views) {
			candidates = views[i : i+1]
		}
		if !slices.ContainsFunc(candidates, func(v any) bool { return match(matcher, v) == "" }) {
			return fmt.Sprintf("no event: %v", e["description"])
		}
	}
	return ""
}

// eventView returns an event with the members of its content beside it.
func eventView(e any) map[string]any {
	out := make(map[string]any)
	object, _ := e.(map[string]any)
	for name, content := range object {
		out[name] = content
		if inner, ok := content.(map[string]any); ok {
			for name, value := range inner {
				out[name] = value
			}
		}
	}
	out["status_update"], out["artifact_update"] = object["statusUpdate"], object["artifactUpdate"]
	if message, ok := object["message"]; ok {
		out["message"] = message
	}
	return out
}

// stateRanks returns the order of the states in events.
func stateRanks(views []any) (ranks []int) {
	for _, v := range views {
		for _, state := range find(v, "status.state") {
			rank := 2
			switch state {
			case "TASK_STATE_SUBMITTED":
				rank = 0
			case "TASK_STATE_WORKING":
				rank = 1
			}
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// holds evaluates a condition such as "status.state == A" or "status.state in [A, B]".
func holds(condition string, body any) bool {
	path, rest, _ := strings.Cut(condition, " ")
	words := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(" =[],", r) })
	values := find(body, path)
	return len(values) > 0 && slices.Contains(words, fmt.Sprint(values[0]))
}
