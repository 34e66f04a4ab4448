package interop_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/jsonschema"
	"github.com/holdfast-dev/holdfast/internal/recording"
)

// source is where validated documents come from.
type source int

const (
	fromInterop source = iota // the clients of this module
	fromSuite                 // the suite of examples/conformance
)

// documentKind is a row of the table of validated documents.
type documentKind struct{ version, kind string }

// documentKinds are the rows, in order.
func documentKinds() []documentKind {
	var all []documentKind
	for _, version := range []string{"0.3", "1.0"} {
		for _, kind := range []string{rpcResult, rpcItem, rpcError, httpResult, httpItem, httpError, cardKind, extendedCard, webhookKind} {
			all = append(all, documentKind{version, kind})
		}
	}
	return all
}

// validation counts the documents that have been validated.
type validation struct {
	mu       sync.Mutex
	valid    map[documentKind][2]int
	problems int
}

var validated = &validation{valid: make(map[documentKind][2]int)}

// officialSchemas are the official JSON schemas by version, as far as their paths are known.
var officialSchemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	out := make(map[string]*jsonschema.Schema)
	for variable, version := range map[string]string{"HOLDFAST_SCHEMA_V03": "0.3", "HOLDFAST_SCHEMA_V10": "1.0"} {
		name := os.Getenv(variable)
		if name == "" {
			continue
		}
		s, err := jsonschema.Load(name)
		if err != nil {
			return nil, err
		}
		out[version] = s
	}
	return out, nil
})

// validate checks every JSON document of an exchange.
func validate(t *testing.T, from source, x recording.Exchange) {
	t.Helper()
	official, err := officialSchemas()
	if err != nil {
		t.Fatal(err)
	}
	all, err := documents(x)
	if err != nil {
		validated.add(documentKind{}, from, false)
		t.Error(err)
	}
	for _, d := range all {
		problem := d.problem()
		if root := official[d.version]; problem == "" && root != nil && d.official != "" {
			problem = root.Problem(d.official, d.raw)
		}
		if validated.add(documentKind{d.version, d.kind}, from, problem == ""); problem != "" {
			t.Errorf("%s %s, %s of A2A %s breaks its schema: %s\n%s", x.Method, x.Path, d.kind, d.version, problem, d.raw)
		}
	}
}

func (v *validation) add(k documentKind, from source, valid bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !valid {
		v.problems++
		return
	}
	counts := v.valid[k]
	counts[from]++
	v.valid[k] = counts
}

// recorder is a reverse proxy that records what a server sends.
type recorder struct {
	*httptest.Server
	mu  sync.Mutex
	all []recording.Exchange
}

// record starts a recorder for the server at an address.
func record(addr string) *recorder {
	r := new(recorder)
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(&url.URL{Scheme: "http", Host: addr})
		p.Out.Host = p.In.Host // the card has the URL of the proxy
	}}
	// A client sees a server that was killed as a lost connection, as it does without the proxy.
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	// Otherwise the server of the recorder reads the end of a request's body when it sends the header of the response.
	// If the proxy has not read the end before, its read fails and it closes the connection to the agent.
	duplex := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			panic(err)
		}
		proxy.ServeHTTP(w, r)
	})
	r.Server = httptest.NewServer(recording.Handler(duplex, func(x recording.Exchange) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, x)
	}))
	return r
}

// stop ends the recorder and validates what it recorded.
func (r *recorder) stop(t *testing.T) {
	t.Helper()
	r.CloseClientConnections()
	r.Close()
	for _, x := range r.all {
		validate(t, fromInterop, x)
	}
}

// The responses of the suite of examples/conformance, which cannot import these types, are
// validated like those to the clients.
func TestResponsesOfTheSuiteAreValid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "./examples/conformance/suite")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "HOLDFAST_RESPONSES="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all, err := recording.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		validate(t, fromSuite, x)
	}
	for _, k := range documentKinds() {
		if validated.count(k, fromSuite) == 0 {
			t.Errorf("the suite has no %s of A2A %s", k.kind, k.version)
		}
	}
}

func (v *validation) count(k documentKind, from source) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.valid[k][from]
}

// String returns the table.
func (v *validation) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	checks := func(k documentKind) string {
		switch {
		case k.kind == httpError:
			return "AIP-193, `google.rpc.Status`"
		case k.kind == rpcError && k.version == "1.0":
			return "JSON-RPC 2.0, `google.rpc.Status`"
		case k.kind == rpcError:
			return "JSON-RPC 2.0"
		case k.version == "1.0":
			return "published Protocol Buffers"
		case k.kind == httpResult || k.kind == httpItem:
			return "published Protocol Buffers"
		case k.kind == cardKind || k.kind == extendedCard:
			return "types of a2a-go 0.3.15, Protocol Buffers of 1.0"
		}
		return "types of a2a-go 0.3.15"
	}
	var b strings.Builder
	b.WriteString("\n| A2A | Kind | Validated against | Clients | Suite |\n|---|---|---|---|---|\n")
	for _, k := range documentKinds() {
		fmt.Fprintf(&b, "| %s | %s | %s |", k.version, k.kind, checks(k))
		for _, n := range v.valid[k] {
			if n == 0 {
				b.WriteString(" – |")
			} else {
				fmt.Fprintf(&b, " %d |", n)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	return b.String()
}

// number is a count in the table. Counts differ between runs, as streams and deliveries do.
var number = regexp.MustCompile(`\d+ \|`)

func sameRows(a, b string) bool {
	return number.ReplaceAllString(a, "n |") == number.ReplaceAllString(b, "n |")
}

func TestValidationFindsProblems(t *testing.T) {
	t.Parallel()
	const message03, task03 = `{"kind":"message","messageId":"m","role":"agent","parts":[%s]}`, `{"kind":"task","id":"t","contextId":"c","status":{"state":"%s"}%s}`
	const task10 = `{"id":"t","contextId":"c","status":{"state":"%s"}%s}`
	card := func(more string) string {
		return `{"name":"n","description":"d","version":"1","defaultInputModes":[],"defaultOutputModes":[],"skills":[],"capabilities":{},"supportedInterfaces":[]` + more + `}`
	}
	of03 := `,"protocolVersion":"0.3.0","url":"http://localhost/"`
	for _, tt := range []struct {
		version, kind, definition, text string
		problem                         string // a part of it, "" for none
	}{
		{"0.3", rpcResult, "Task", fmt.Sprintf(task03, "working", ""), ""},
		{"0.3", rpcResult, "Task", fmt.Sprintf(task03, "working", `,"other":1`), "Task.other is unknown"},
		{"0.3", rpcResult, "Task", fmt.Sprintf(task03, "WORKING", ""), "want one of"},
		{"0.3", rpcResult, "Task", `{"id":"t","contextId":"c","status":{"state":"working"}}`, "lacks the members map[kind:task]"},
		{"0.3", rpcResult, "Task", `{"kind":"task","id":"t","status":{"state":"working"}}`, "lacks contextId"},
		{"0.3", rpcResult, "Task", fmt.Sprintf(task03, "working", `,"history":null`), "is null"},
		{"0.3", rpcResult, "Event", fmt.Sprintf(message03, `{"kind":"text","text":"x"},{"kind":"file","file":{"bytes":"AAE=","name":"n"}},{"kind":"data","data":{}}`), ""},
		{"0.3", rpcResult, "Event", fmt.Sprintf(message03, `{"kind":"text"}`), "parts[0] lacks text"},
		{"0.3", rpcResult, "Event", fmt.Sprintf(message03, `{"kind":"file","file":{"name":"n"}}`), "lacks uri"},
		{"0.3", rpcResult, "Event", fmt.Sprintf(message03, `{"kind":"other"}`), "has the kind other"},
		{"0.3", rpcResult, "SendMessageResult", `{"kind":"status-update"}`, "has the kind status-update"},
		{"0.3", rpcResult, "null", `{}`, "is not null"},
		{"0.3", httpResult, "Task", `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}`, ""},
		{"0.3", httpResult, "Task", `{"id":"t","kind":"task"}`, "kind"},
		{"0.3", httpResult, "Message", `{"messageId":"m","content":[{"text":"x"}]}`, ""},
		{"0.3", httpResult, "Message", `{"messageId":"m","parts":[{"text":"x"}]}`, "parts: unknown"},
		{"0.3", rpcResult, "TaskPushConfig", `{"taskId":"t","pushNotificationConfig":{"url":"u","payloadFormat":"task"}}`, ""},
		{"0.3", httpError, "", `{"code":-32001,"message":"m","error":{"code":404,"status":"NOT_FOUND","message":"m"}}`, ""},
		{"0.3", httpError, "", `{"code":-32001,"message":"m","error":{"code":404,"status":"NOT_FOUND"}}`, "lacks message"},
		{"0.3", rpcError, "", `{"code":-32001,"message":"m"}`, ""},
		{"0.3", rpcError, "", `{"code":-32001}`, "lacks message"},
		{"0.3", cardKind, "AgentCard", card(of03), ""},
		{"0.3", cardKind, "AgentCard", card(""), "lacks url"},
		{"0.3", cardKind, "AgentCard", card(of03 + `,"other":1`), "AgentCard.other is unknown"},
		{"1.0", rpcResult, "Task", fmt.Sprintf(task10, "TASK_STATE_WORKING", ""), ""},
		{"1.0", rpcResult, "Task", fmt.Sprintf(task10, "working", ""), "working"},
		{"1.0", rpcResult, "Task", fmt.Sprintf(task10, "TASK_STATE_WORKING", `,"other":1`), "other"},
		{"1.0", rpcResult, "Task", fmt.Sprintf(`{"id":"t","context_id":"c","status":{"state":"%s"}%s}`, "TASK_STATE_WORKING", ""), "not in camelCase"},
		{"1.0", rpcResult, "Task", `{"id":"t","contextId":"c"}`, "lacks status"},
		{"1.0", rpcItem, "StreamResponse", `{}`, "0 members of payload"},
		{"1.0", rpcError, "", `{"code":-32001,"message":"m","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"R"}]}`, ""},
		{"1.0", rpcError, "", `{"code":-32001,"message":"m","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","other":"R"}]}`, "other"},
		{"1.0", rpcError, "", `{"code":-32001,"message":"m","data":[{"reason":"R"}]}`, "has no type"},
		{"1.0", httpError, "", `{"code":404,"status":"NOT_FOUND","message":"m"}`, ""},
		{"1.0", httpError, "", `{"code":404,"message":"m"}`, "lacks status"},
		{"1.0", cardKind, "AgentCard", card(""), ""},
		{"1.0", cardKind, "AgentCard", card(of03), "protocolVersion"},
	} {
		d := document{version: tt.version, kind: tt.kind, definition: tt.definition, raw: []byte(tt.text), both: tt.version == "0.3" && tt.definition == "AgentCard"}
		if got := d.problem(); (got == "") != (tt.problem == "") || !strings.Contains(got, tt.problem) {
			t.Errorf("A2A %s, %s: problem of %s = %q, want %q", tt.version, tt.kind, tt.text, got, tt.problem)
		}
	}
}

func TestDocumentsOfExchanges(t *testing.T) {
	t.Parallel()
	const rpc = `{"jsonrpc":"2.0","id":1,"result":%s}`
	get := func(path, version string) recording.Exchange {
		return recording.Exchange{Method: http.MethodGet, Path: path, Version: version, ContentType: "application/json", Response: []byte(`{"a":1}`)}
	}
	post := func(path, request, kind, response string) recording.Exchange {
		return recording.Exchange{Method: http.MethodPost, Path: path, Request: []byte(request), ContentType: kind, Response: []byte(response)}
	}
	for _, tt := range []struct {
		x    recording.Exchange
		want []string // version, kind and definition of each document; none for an error
	}{
		{get("/healthz", ""), []string{}},
		{get("/.well-known/agent-card.json", ""), []string{"0.3 agent card AgentCard"}},
		{get("/.well-known/agent-card.json", "1.0"), []string{"1.0 agent card AgentCard"}},
		{get("/tasks/t", ""), []string{"1.0 HTTP+JSON result Task"}},
		{get("/tenant/tasks/t", ""), []string{"1.0 HTTP+JSON result Task"}},
		{get("/tasks", ""), []string{"1.0 HTTP+JSON result ListTasksResponse"}},
		{get("/rest/v1/tasks/t", ""), []string{"0.3 HTTP+JSON result Task"}},
		{get("/v1/tasks/t/pushNotificationConfigs", ""), []string{"0.3 HTTP+JSON result ListTaskPushNotificationConfigResponse"}},
		{get("/unknown/path/of/nothing", ""), nil},
		{get("/rest/v1/tasks/t:subscribe", ""), []string{"0.3 HTTP+JSON result StreamResponse"}},
		{post("/v1/message:send", "{}", "application/json", `{"task":{}}`), []string{"0.3 HTTP+JSON result SendMessageResponse"}},
		{post("/tasks/t:subscribe", "", "text/event-stream", "id: 1\ndata: {\"task\":{}}\n\ndata: {\"cut"), []string{"1.0 HTTP+JSON stream item StreamResponse"}},
		{post("/", `{"jsonrpc":"2.0","id":1,"method":"GetTask"}`, "application/json", fmt.Sprintf(rpc, "{}")), []string{"1.0 JSON-RPC result Task"}},
		{post("/", `{"jsonrpc":"2.0","id":2,"method":"GetTask"}`, "application/json", fmt.Sprintf(rpc, "{}")), nil},
		{post("/", `{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`, "application/json", fmt.Sprintf(rpc, "{}")), []string{"0.3 JSON-RPC result Task"}},
		{post("/", `{"jsonrpc":"2.0","id":1,"method":"tasks/unknown"}`, "application/json", fmt.Sprintf(rpc, "{}")), nil},
		{post("/", `{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`, "application/json", `{"jsonrpc":"2.0","id":1,"error":{}}`), []string{"0.3 JSON-RPC error "}},
		{post("/", `{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`, "application/json", `{"jsonrpc":"2.0","id":1,"error":{},"result":1}`), nil},
		{post("/", `{}`, "text/html", `<p>`), nil},
		{recording.Exchange{Webhook: true, Request: []byte(`{"kind":"task"}`)}, []string{"0.3 webhook request Task"}},
		{recording.Exchange{Webhook: true, Request: []byte(`{"task":{}}`)}, []string{"1.0 webhook request StreamResponse"}},
	} {
		all, err := documents(tt.x)
		got := []string{}
		for _, d := range all {
			got = append(got, d.version+" "+d.kind+" "+d.definition)
		}
		if (err != nil) != (tt.want == nil) || err == nil && !slices.Equal(got, tt.want) {
			t.Errorf("%s %s with %s = %q, %v, want %q", tt.x.Method, tt.x.Path, tt.x.Request, got, err, tt.want)
		}
	}
}
