package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/rpc"
)

func TestParseKeepsTheIDLiteral(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`1`, `-0.0`, `1e400`, `""`, `"\u00e9"`, `null`, `123456789012345678901234567890`} {
		r, err := rpc.Parse([]byte(`{"params":{"a":[1]},"method":"m","id":` + id + `,"jsonrpc":"2.0"}`))
		if err != nil || string(r.ID) != id || r.Method != "m" || string(r.Params) != `{"a":[1]}` {
			t.Errorf("Parse with id %s = %+v, %v", id, r, err)
		}
		got, err := (&rpc.Call{ID: r.ID, Codec: v03.Codec{}}).AppendResult([]byte("x"), map[string]any{"ok": true})
		if want := `x{"jsonrpc":"2.0","id":` + id + `,"result":{"ok":true}}`; err != nil || string(got) != want {
			t.Errorf("AppendResult = %s, %v, want %s", got, err, want)
		}
	}
}

func TestParseLimitsTheID(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]a2a.Code{1024: "", 1025: a2a.CodeInvalidRequest} {
		for _, id := range []string{`"` + strings.Repeat("x", length-2) + `"`, strings.Repeat("1", length)} {
			r, err := rpc.Parse([]byte(`{"jsonrpc":"2.0","method":"m","id":` + id + `}`))
			if (err == nil) != (want == "") || err != nil && a2a.CodeOf(err) != want || err == nil && string(r.ID) != id || err != nil && len(r.ID) > 0 {
				t.Errorf("Parse with an id of %d bytes = %d bytes, %v, want the code %q", length, len(r.ID), err, want)
			}
		}
	}
}

func TestAppendError(t *testing.T) {
	t.Parallel()
	err := a2a.Invalid("message.parts", "must not be %s", "empty \"\n")
	got := string((&rpc.Call{Codec: v03.Codec{}}).AppendError(nil, err, "r1"))
	want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"message.parts must not be empty \"\n","data":{"code":"invalid_params","field":"message.parts","requestId":"r1"}}}`
	if got != want {
		t.Errorf("AppendError = %s, want %s", got, want)
	}
	if len(err.Data) != 1 {
		t.Errorf("error data = %v after AppendError, want it unchanged", err.Data)
	}
	invalid := &a2a.Error{Code: a2a.CodeConflict, Message: "m", Data: map[string]any{"f": func() {}}}
	if got, want := string((&rpc.Call{ID: rpc.ID("1"), Codec: v03.Codec{}}).AppendError(nil, invalid, "")), `{"jsonrpc":"2.0","id":1,"error":{"code":-32050,"message":"m","data":null}}`; got != want {
		t.Errorf("AppendError = %s, want %s", got, want)
	}
}

func TestAppendResultOfUnsupportedTypeReturnsError(t *testing.T) {
	t.Parallel()
	if got, err := (&rpc.Call{Codec: v03.Codec{}}).AppendResult([]byte("x"), map[string]any{"f": func() {}}); err == nil || string(got) != "x" {
		t.Errorf("AppendResult = %q, %v, want x and an error", got, err)
	}
}

func TestErrorOf(t *testing.T) {
	t.Parallel()
	secret := errors.New("secret")
	for _, test := range []struct {
		err      error
		code     a2a.Code
		message  string
		internal bool
	}{
		{secret, a2a.CodeInternal, "internal error", true},
		{fmt.Errorf("get: %w", a2a.TaskNotFound("x")), a2a.CodeTaskNotFound, `task "x" not found`, false},
		{a2a.Wrap(a2a.CodeUnavailable, secret, "the store is unavailable"), a2a.CodeUnavailable, "the store is unavailable", true},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), a2a.CodeUnavailable, "the request timed out; retry later", true},
		{context.Canceled, a2a.CodeUnavailable, "the request was canceled", false},
	} {
		got, internal := rpc.ErrorOf(test.err)
		if got.Code != test.code || got.Message != test.message || internal != test.internal || got.Err != nil {
			t.Errorf("ErrorOf(%v) = %+v, %t, want %s %q, %t", test.err, got, internal, test.code, test.message, test.internal)
		}
	}
}

func TestParseBatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, want string
		code       a2a.Code
	}{
		{`[1, {"a":[2]} ,"x"]`, `1|{"a":[2]}|"x"`, ""},
		{` [] `, "", a2a.CodeInvalidRequest},
		{`[1,2,3,4]`, "", a2a.CodeInvalidRequest},
		{`[1,]`, "", a2a.CodeParse},
		{`[1] 2`, "", a2a.CodeParse},
	} {
		items, err := rpc.ParseBatch([]byte(test.text), 3)
		var got []string
		for _, item := range items {
			got = append(got, string(item))
		}
		if strings.Join(got, "|") != test.want || (err != nil) != (test.code != "") || err != nil && a2a.CodeOf(err) != test.code {
			t.Errorf("ParseBatch(%s) = %q, %v, want %s, %s", test.text, got, err, test.want, test.code)
		}
	}
	for text, want := range map[string]bool{"": false, " \n[": true, "{": false, "x[": false} {
		if got := rpc.IsBatch([]byte(text)); got != want {
			t.Errorf("IsBatch(%q) = %t, want %t", text, got, want)
		}
	}
}

type noParams struct{}

func unary(context.Context, *rpc.Call, noParams) (string, error) { return "done", nil }
func stream(context.Context, *rpc.Call, noParams) (rpc.Stream, error) {
	return rpc.Stream{Started: true}, nil
}

func TestNewTableReportsAllMismatches(t *testing.T) {
	t.Parallel()
	methods := []a2a.Method{{Name: "a/one"}, {Name: "a/two", Streaming: true}, {Name: "a/off", Off: a2a.CodeUnsupported}, {Name: "a/bare"}, {Name: "a/twice"}}
	_, err := rpc.NewTable(rpc.Config{Methods: methods, Codecs: []rpc.Codec{v03.Codec{}}},
		rpc.BindStream("a/one", stream), rpc.Bind("a/two", unary), rpc.Bind("a/off", unary),
		rpc.Bind("a/twice", unary), rpc.Bind("a/twice", unary), rpc.Bind("a/unknown", unary))
	if err == nil {
		t.Fatal("NewTable() = nil error, want all mismatches")
	}
	for _, want := range []string{
		"method a/one: descriptor has streaming false, binding true", "method a/two: descriptor has streaming true, binding false",
		"method a/off is off but has a binding", "method a/bare has no binding", "method a/twice has two bindings", "method a/unknown has a binding but no descriptor",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("NewTable() = %v, want it to contain %q", err, want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table, err := rpc.NewTable(rpc.Config{Methods: []a2a.Method{{Name: "a/one"}, {Name: "a/two", Streaming: true}, {Name: "a/off", Off: a2a.CodePushNotSupported}}, Codecs: []rpc.Codec{v03.Codec{}}},
		rpc.Bind("a/one", unary), rpc.BindStream("a/two", stream))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		request rpc.Request
		code    a2a.Code
	}{
		{rpc.Request{ID: rpc.ID("1"), Method: "a/one"}, ""},
		{rpc.Request{ID: rpc.ID("1"), Method: "a/two"}, ""},
		{rpc.Request{ID: rpc.ID("1"), Method: "a/three"}, a2a.CodeMethodNotFound},
		{rpc.Request{ID: rpc.ID("1"), Method: "a/off"}, a2a.CodePushNotSupported},
		{rpc.Request{Method: "a/one"}, ""},
		{rpc.Request{Method: "a/three"}, a2a.CodeMethodNotFound},
	} {
		var c rpc.Call
		err := table.Lookup(&c, &test.request)
		if (err != nil) != (test.code != "") || err != nil && a2a.CodeOf(err) != test.code {
			t.Errorf("Lookup(%s %s) = %v, want %s", test.request.ID, test.request.Method, err, test.code)
		}
		if err != nil {
			continue
		}
		if err := c.Prepare(nil); err != nil {
			t.Errorf("Prepare(%s) = %v", c.Method.Name, err)
			continue
		}
		result, err := c.Run(t.Context())
		if _, streams := result.(rpc.Stream); err != nil || streams != c.Method.Streaming {
			t.Errorf("Run(%s) = %+v, %v, want a stream as the descriptor says", c.Method.Name, result, err)
		}
	}
}

// otherCodec is a codec of another version: other method names, and wrapped results.
type otherCodec struct{ v03.Codec }

func (otherCodec) MethodName(m *a2a.Method) string { return m.NameV10 }

func (c otherCodec) AppendResult(dst []byte, m *a2a.Method, result any) ([]byte, error) {
	out, err := c.Codec.AppendResult(append(dst, `{"wrapped":`...), m, result)
	return append(out, '}'), err
}

func TestMethodNameSelectsTheCodec(t *testing.T) {
	t.Parallel()
	methods := []a2a.Method{{Name: "a/one", NameV10: "One"}, {Name: "a/two", Streaming: true}}
	bindings := []rpc.Binding{rpc.Bind("a/one", unary), rpc.BindStream("a/two", stream)}
	table, err := rpc.NewTable(rpc.Config{Methods: methods, Codecs: []rpc.Codec{v03.Codec{}, otherCodec{}}}, bindings...)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a/one": `"done"`, "One": `{"wrapped":"done"}`, "a/two": "stream", "Two": "", "": ""} {
		var c rpc.Call
		err := table.Lookup(&c, &rpc.Request{ID: rpc.ID("1"), Method: name})
		if want == "" || err != nil {
			if want != "" || a2a.CodeOf(err) != a2a.CodeMethodNotFound || c.Codec != (v03.Codec{}) {
				t.Errorf("Lookup(%q) = %v with codec %v, want method_not_found and the default codec", name, err, c.Codec)
			}
			continue
		}
		if err := c.Prepare(nil); err != nil {
			t.Fatal(err)
		}
		result, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want == "stream" {
			if _, ok := result.(rpc.Stream); !ok {
				t.Errorf("Run(%s) = %+v, want a stream", name, result)
			}
			continue
		}
		got, err := c.AppendResult(nil, result)
		if want = `{"jsonrpc":"2.0","id":1,"result":` + want + `}`; err != nil || string(got) != want {
			t.Errorf("AppendResult for %s = %s, %v, want %s", name, got, err, want)
		}
	}
	if _, err := rpc.NewTable(rpc.Config{Methods: methods, Codecs: []rpc.Codec{v03.Codec{}, v03.Codec{}}}, bindings...); err == nil || !strings.Contains(err.Error(), "the codecs share the name a/one") {
		t.Errorf("NewTable() with equal names = %v, want an error", err)
	}
}

func TestInterceptorsSurroundCalls(t *testing.T) {
	t.Parallel()
	var calls []string
	trace := func(name string) rpc.Interceptor {
		return func(_ *a2a.Method, next rpc.Handler) rpc.Handler {
			return func(ctx context.Context, c *rpc.Call) (any, error) {
				calls = append(calls, name)
				result, err := next(ctx, c)
				calls = append(calls, fmt.Sprint("-", name, " ", result, " ", err))
				return result, err
			}
		}
	}
	scopes := func(m *a2a.Method, next rpc.Handler) rpc.Handler {
		return func(ctx context.Context, c *rpc.Call) (any, error) {
			if !c.Principal.May(m.Scope) {
				return nil, a2a.Errorf(a2a.CodeDenied, "%s requires the scope %s", c.Operation(), m.Scope)
			}
			return next(ctx, c)
		}
	}
	table, err := rpc.NewTable(rpc.Config{
		Methods: []a2a.Method{{Name: "a/one", Idempotent: true, Scope: a2a.ScopeRead}}, Codecs: []rpc.Codec{v03.Codec{}},
		Interceptors: []rpc.Interceptor{trace("outer"), scopes, trace("inner")},
	}, rpc.Bind("a/one", unary))
	if err != nil {
		t.Fatal(err)
	}
	var c rpc.Call
	if err := errors.Join(table.Lookup(&c, &rpc.Request{ID: rpc.ID("1"), Method: "a/one"}), c.Prepare(nil)); err != nil {
		t.Fatal(err)
	}
	const denied, allowed = "outer, -outer <nil> a/one requires the scope agent:read", "outer, inner, -inner done <nil>, -outer done <nil>"
	for _, test := range []struct {
		scopes []a2a.Scope
		want   string
	}{
		{nil, allowed},
		{[]a2a.Scope{}, denied},
		{[]a2a.Scope{a2a.ScopeWrite}, denied},
		{[]a2a.Scope{a2a.ScopeWrite, a2a.ScopeRead}, allowed},
	} {
		calls, c.Principal.Scopes = nil, test.scopes
		_, err := c.Run(t.Context())
		if got := strings.Join(calls, ", "); got != test.want || err != nil && a2a.CodeOf(err) != a2a.CodeDenied {
			t.Errorf("Run with scopes %q: %s (%v), want %s", test.scopes, got, err, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}`))
	f.Add([]byte(`{"id":[1],"method":5}`))
	f.Add([]byte(`[{"jsonrpc":"2.0"},1]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := rpc.Parse(data)
		if code := a2a.CodeOf(err); err != nil && code != a2a.CodeParse && code != a2a.CodeInvalidRequest {
			t.Errorf("Parse(%q) = %v with code %s", data, err, code)
		}
		response, err := (&rpc.Call{ID: r.ID, Codec: v03.Codec{}}).AppendResult(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if rpc.IsBatch(response) {
			t.Errorf("response %s is a batch", response)
		}
		_, _ = rpc.ParseBatch(data, 10)
	})
}

func TestSelectChecksTheAnnouncedVersion(t *testing.T) {
	t.Parallel()
	table, err := rpc.NewTable(rpc.Config{Methods: []a2a.Method{{Name: "a/one", NameV10: "One"}}, Codecs: []rpc.Codec{v03.Codec{}, v10.Codec{}}}, rpc.Bind("a/one", unary))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		version, method string
		codec           rpc.Codec
		want            string
	}{
		{"", "a/one", v03.Codec{}, ""},
		{"0.3", "a/one", v03.Codec{}, ""},
		{"0.3.7", "a/one", v03.Codec{}, ""},
		{"1.0", "a/one", v10.Codec{}, `method "a/one" is of A2A 0.3.0 and not found in A2A-Version "1.0"`},
		{"1", "a/one", v10.Codec{}, `method "a/one" is of A2A 0.3.0 and not found in A2A-Version "1"`},
		{"2.0", "a/one", v03.Codec{}, `A2A-Version "2.0" is not supported, want 0.3.0 or 1.0`},
		{"", "One", v10.Codec{}, ""},
		{"0.3", "One", v10.Codec{}, ""},
		{"0.3.0", "One", v10.Codec{}, ""},
		{"1.0", "One", v10.Codec{}, ""},
		{"1.7.2", "One", v10.Codec{}, ""},
		{"0.2", "One", v10.Codec{}, `A2A-Version "0.2" is not supported, want 0.3.0 or 1.0`},
		{"99.0", "One", v10.Codec{}, `A2A-Version "99.0" is not supported, want 0.3.0 or 1.0`},
		{"1.0.0.0", "One", v10.Codec{}, `A2A-Version "1.0.0.0" is not supported, want 0.3.0 or 1.0`},
		{"-1", "One", v10.Codec{}, `A2A-Version "-1" is not supported, want 0.3.0 or 1.0`},
		{"x", "One", v10.Codec{}, `A2A-Version "x" is not supported, want 0.3.0 or 1.0`},
		{"", "Two", v03.Codec{}, `method "Two" not found`},
		{"1.0", "Two", v10.Codec{}, `method "Two" not found`},
		{"99.0", "Two", v03.Codec{}, `method "Two" not found`},
	} {
		c := table.Call(test.version)
		got := ""
		if err := table.Select(&c, test.method); err != nil {
			got = err.Error()
		}
		if got != test.want || c.Codec != test.codec {
			t.Errorf("Select(%s) with version %q = %q with the codec %T, want %q with %T", test.method, test.version, got, c.Codec, test.want, test.codec)
		}
	}
}
