package suite_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/conformance"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/server"
)

// both returns c over JSON-RPC and over HTTP+JSON.
func (c *conn) both() []*conn {
	other := *c
	other.rest = !c.rest
	return []*conn{c, &other}
}

// methodsOfV10 are the methods of A2A 1.0 with params that name a task.
func methodsOfV10(task string) map[string]object {
	hook := object{"taskId": task, "id": "absent"}
	return map[string]object{
		a2a.MethodSend: {"message": message("tck-complete-task")}, a2a.MethodStream: {"message": message("tck-complete-task")},
		a2a.MethodGet: {"id": task}, a2a.MethodList: {}, a2a.MethodCancel: {"id": task}, a2a.MethodResubscribe: {"id": task},
		a2a.MethodPushSet: {"taskId": task, "url": "https://example.com/hook"}, a2a.MethodPushGet: hook, a2a.MethodPushList: {"taskId": task}, a2a.MethodPushDelete: hook,
		a2a.MethodExtendedCard: {},
	}
}

var requirementsOfBindings = []row{
	{"BIND-EQUIV-001", func(c *conn) {
		c = c.as(conformance.Token)
		for method, params := range methodsOfV10("absent") {
			var codes []a2a.Code
			for _, c := range c.both() {
				resp := c.do(c.request(method, params))
				code := a2a.Code("")
				if resp.Header.Get("Content-Type") != "text/event-stream" {
					code = c.read(method, resp).code()
				}
				_ = resp.Body.Close()
				codes = append(codes, code)
			}
			if codes[0] != codes[1] || codes[0] == a2a.CodeMethodNotFound || codes[0] == a2a.CodeInvalidRequest {
				c.t.Errorf("%s: codes = %q, want the same method over both bindings", method, codes)
			}
		}
	}},
	{"BIND-EQUIV-002", func(c *conn) {
		c = c.as(conformance.Token)
		task := c.send("tck-artifact-data", nil).text("task.id")
		c.call(a2a.MethodPushSet, object{"taskId": task, "id": "hook", "url": "https://example.com/hook"})
		for method, params := range map[string]object{
			a2a.MethodGet: {"id": task}, a2a.MethodPushGet: {"taskId": task, "id": "hook"}, a2a.MethodPushList: {"taskId": task},
		} {
			var results []any
			for _, c := range c.both() {
				results = append(results, c.call(method, params).result)
			}
			if results[0] == nil || !reflect.DeepEqual(results[0], results[1]) {
				c.t.Errorf("%s: results = %v, want the same over both bindings", method, results)
			}
		}
	}},
	{"BIND-EQUIV-003", func(c *conn) {
		c = c.as(conformance.Token)
		task := c.send("tck-complete-task", nil).text("task.id")
		again := message("tck-complete-task")
		again["taskId"] = task
		for _, tt := range []struct {
			method string
			params object
			want   a2a.Code
		}{
			{a2a.MethodGet, object{"id": "absent"}, a2a.CodeTaskNotFound},
			{a2a.MethodCancel, object{"id": task}, a2a.CodeTaskNotCancelable},
			{a2a.MethodSend, object{"message": again}, a2a.CodeUnsupported},
			{a2a.MethodSend, object{"message": object{"messageId": "m"}}, a2a.CodeInvalid},
			{a2a.MethodGet, object{"id": task, "historyLength": -1}, a2a.CodeInvalid},
		} {
			for _, c := range c.both() {
				c.wantCode(c.call(tt.method, tt.params), tt.want)
			}
		}
	}},
	{"BIND-EQUIV-004", testSameAuthentication},
}

// requirementsWithoutCapabilities are the requirements of an agent without streaming, webhooks and an extended card.
var requirementsWithoutCapabilities = []row{
	{"CORE-CAP-001", func(c *conn) {
		task := c.send("tck-complete-task", nil).text("task.id")
		c.wantCode(c.call(a2a.MethodPushSet, object{"taskId": task, "url": "https://example.com/"}), a2a.CodePushNotSupported)
		c.wantCode(c.call(a2a.MethodPushList, object{"taskId": task}), a2a.CodePushNotSupported)
	}},
	{"CORE-CAP-002", func(c *conn) {
		task := c.send("tck-complete-task", nil).text("task.id")
		c.wantCode(c.call(a2a.MethodStream, object{"message": message("tck-stream-001")}), a2a.CodeUnsupported)
		c.wantCode(c.call(a2a.MethodResubscribe, object{"id": task}), a2a.CodeUnsupported)
	}},
	{"CORE-CAP-003", func(c *conn) { c.wantCode(c.call(a2a.MethodExtendedCard, object{}), a2a.CodeUnsupported) }},
}

const requiredExtension = "urn:a2a:tck:required-extension"

func testRequiredExtension(c *conn) {
	c.wantCode(c.send("tck-complete-task", nil), a2a.CodeExtensionRequired)
	if got := c.with("A2A-Extensions", requiredExtension).send("tck-complete-task", nil); got.err != nil {
		c.t.Errorf("with the extension = %s, want a task", got.body)
	}
}

// testServiceParameters proves that the version and the extensions of a request are its headers.
func testServiceParameters(c *conn) {
	c = c.with("A2A-Extensions", requiredExtension)
	if got := c.send("tck-complete-task", nil); got.err != nil || got.header.Get("A2A-Extensions") != requiredExtension {
		c.t.Errorf("with the extension = %v %s, want it in the headers of the response", got.header, got.body)
	}
	c.wantCode(c.with("A2A-Version", "99.0").send("tck-complete-task", nil), a2a.CodeVersionNotSupported)
}

// requirementsOfJSONRPC are the requirements of the binding JSON-RPC.
var requirementsOfJSONRPC = []row{
	{"JSONRPC-FMT-001", func(c *conn) {
		c.wantRPCError("application/json", `{"jsonrpc":"1.0","id":1,"method":"GetTask","params":{"id":"absent"}}`, -32600)
		c.wantRPCError("application/json", `{"jsonrpc":"2.0","id":1,"params":{}}`, -32600)
	}},
	{"JSONRPC-FMT-002", func(c *conn) {
		c.wantRPCError("text/plain", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"absent"}}`, -32005)
		if got := c.send("tck-complete-task", nil); got.err != nil || got.header.Get("Content-Type") != "application/json" {
			c.t.Errorf("SendMessage() = %v %s, want JSON", got.header, got.body)
		}
	}},
	{"JSONRPC-SVC-001", func(c *conn) {
		c.wantRPCError("application/json", `{"jsonrpc":"2.0","id":1,"method":"DoSomething","params":{}}`, -32601)
		for method := range methodsOfV10("absent") {
			m, _ := a2a.MethodByName(method)
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":[]}`, m.NameV10)
			if got := c.raw(http.MethodPost, "/", "application/json", body); got.at("error.code") == nil || got.at("error.code") == -32601.0 {
				c.t.Errorf("%s = %s, want an error of its params", m.NameV10, got.body)
			}
		}
	}},
	{"JSONRPC-ERR-001", func(c *conn) {
		c.wantRPCError("application/json", `{not JSON`, -32700)
		got := c.wantRPCError("application/json", `{"jsonrpc":"2.0","id":"abc","method":"GetTask","params":{"id":"absent"}}`, -32001)
		if got.at("id") != "abc" || got.at("jsonrpc") != "2.0" || got.at("result") != nil || got.text("error.message") == "" {
			c.t.Errorf("%s, want the id of the request, a message and no result", got.body)
		}
	}},
	{"JSONRPC-ERR-002", func(c *conn) {
		c.wantRPCError("application/json", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"absent"}}`, -32001)
		// The name of a field is accepted like its name in JSON.
		c.wantRPCError("application/json", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"absent","history_length":1}}`, -32001)
	}},
	{"JSONRPC-ERR-003", func(c *conn) {
		info := c.wantRPCError("application/json", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"absent"}}`, -32001).at("error.data.0")
		if at(info, "@type") != "type.googleapis.com/google.rpc.ErrorInfo" || at(info, "reason") != "TASK_NOT_FOUND" || at(info, "domain") != "a2a-protocol.org" {
			c.t.Errorf("data = %v, want ErrorInfo", info)
		}
	}},
	{"JSONRPC-SSE-001", func(c *conn) {
		for _, event := range c.events() {
			if at(event, "jsonrpc") != "2.0" || at(event, "id") != 7.0 || !isStreamResponse(at(event, "result")) {
				c.t.Errorf("event = %v, want a response with a StreamResponse", event)
			}
		}
	}},
	{"JSONRPC-SSE-002", func(c *conn) {
		task := c.send("tck-complete-task", nil)
		for want, got := range map[int]reply{
			-32001: c.call(a2a.MethodGet, object{"id": "absent"}),
			-32002: c.call(a2a.MethodCancel, object{"id": task.text("task.id")}),
			-32004: c.follow("tck-complete-task", task, nil),
			-32009: c.with("A2A-Version", "99.0").send("tck-complete-task", nil),
		} {
			var body any
			if err := json.Unmarshal(got.body, &body); err != nil || at(body, "error.code") != float64(want) {
				c.t.Errorf("%s, want the code %d", got.body, want)
			}
		}
	}},
}

// wantRPCError sends a body and reports an error if the response is not a JSON-RPC error with a code.
func (c *conn) wantRPCError(kind, body string, code float64) reply {
	c.t.Helper()
	got := c.raw(http.MethodPost, "/", kind, body)
	if got.at("error.code") != code || kind == "application/json" && got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
		c.t.Errorf("%s = %d %s, want error %v as JSON", body, got.status, got.body, code)
	}
	return got
}

// events returns the data of a stream as it was sent.
func (c *conn) events() (events []any) {
	c.t.Helper()
	s := c.open(a2a.MethodStream, object{"message": message("tck-stream-001")}) // checks the media type
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			break
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var event any
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			c.t.Fatalf("data %s: %v", data, err)
		}
		events = append(events, event)
	}
	if len(events) < 2 {
		c.t.Fatalf("events = %v, want several", events)
	}
	return events
}

// isStreamResponse reports whether a value has exactly one of the members of a StreamResponse.
func isStreamResponse(value any) bool {
	object, _ := value.(map[string]any)
	names := slices.Collect(maps.Keys(object))
	return len(names) == 1 && slices.Contains([]string{"task", "message", "statusUpdate", "artifactUpdate"}, names[0])
}

// requirementsOfREST are the requirements of the binding HTTP+JSON.
var requirementsOfREST = []row{
	{"HTTP_JSON-STATUS-001", func(c *conn) {
		c.wantHTTPError("GET", "/tasks/absent", "", "", 404, "TASK_NOT_FOUND")
		task := c.send("tck-complete-task", nil).text("task.id")
		c.wantHTTPError("POST", "/tasks/"+task+":cancel", "application/json", `{}`, 409, "TASK_NOT_CANCELABLE")
	}},
	{"HTTP_JSON-ERR-001", func(c *conn) {
		c.wantHTTPError("POST", "/message:send", "application/json", `{not JSON`, 400, "PARSE_ERROR")
	}},
	{"HTTP_JSON-ERR-002", func(c *conn) {
		c.wantHTTPError("POST", "/message:send", "application/json", `{}`, 400, "INVALID_PARAMS")
	}},
	{"HTTP_JSON-SVC-001", func(c *conn) {
		c.wantHTTPError("POST", "/message:send", "text/plain", `{}`, 415, "CONTENT_TYPE_NOT_SUPPORTED")
		if got := c.send("tck-complete-task", nil); got.err != nil || got.header.Get("Content-Type") != "application/json" {
			c.t.Errorf("SendMessage() = %v %s, want JSON", got.header, got.body)
		}
	}},
	{"HTTP_JSON-QP-001", func(c *conn) {
		task := c.send("tck-complete-task", nil).text("task.id")
		if got := c.raw("GET", "/tasks/"+task+"?historyLength=0", "", ""); got.text("id") != task || got.at("history") != nil {
			c.t.Errorf("%s, want the task without history", got.body)
		}
	}},
	{"HTTP_JSON-URL-001", func(c *conn) {
		if got := c.raw("GET", "/tasks?contextId=absent&pageSize=1", "", ""); got.at("pageSize") != 1.0 {
			c.t.Errorf("%s, want a page", got.body)
		}
	}},
	{"HTTP_JSON-URL-002", testVerbs},
	{"HTTP_JSON-SSE-001", func(c *conn) {
		for _, event := range c.events() {
			if !isStreamResponse(event) {
				c.t.Errorf("event = %v, want a StreamResponse", event)
			}
		}
	}},
}

// wantHTTPError reports an error if the response is not an error in the form of AIP-193.
func (c *conn) wantHTTPError(verb, path, kind, body string, status int, reason string) {
	c.t.Helper()
	got := c.raw(verb, path, kind, body)
	info := got.at("error.details.0")
	if got.status != status || got.at("error.code") != float64(status) || at(info, "reason") != reason || at(info, "domain") != "a2a-protocol.org" ||
		got.text("error.message") == "" || got.text("error.status") == "" || got.header.Get("Content-Type") != "application/json" {
		c.t.Errorf("%s %s = %d %s, want %d %s in the form of AIP-193", verb, path, got.status, got.body, status, reason)
	}
}

// testVerbs proves that a route has only the verb of its method.
func testVerbs(c *conn) {
	task := c.send("tck-complete-task", nil).text("task.id")
	for _, tt := range []struct{ path, allowed, rejected string }{
		{"/message:send", "POST", "GET"},
		{"/tasks", "GET", "POST"},
		{"/tasks/" + task, "GET", "PUT"},
		{"/tasks/" + task + ":cancel", "POST", "GET"},
		{"/tasks/" + task + "/pushNotificationConfigs", "GET", "DELETE"},
		{"/tasks/" + task + "/pushNotificationConfigs/absent", "DELETE", "POST"},
	} {
		for verb, want := range map[string]bool{tt.allowed: true, tt.rejected: false} {
			r, err := http.NewRequestWithContext(c.t.Context(), verb, c.url+tt.path, strings.NewReader("{}"))
			if err != nil {
				c.t.Fatal(err)
			}
			r.Header = c.header.Clone()
			r.Header.Set("Content-Type", "application/json")
			resp := c.do(r)
			_ = resp.Body.Close()
			if got := resp.StatusCode != http.StatusMethodNotAllowed; got != want {
				c.t.Errorf("%s %s = %d, want it allowed: %t", verb, tt.path, resp.StatusCode, want)
			}
		}
	}
}

// card returns the agent card of A2A 1.0 at a path.
func (c *conn) card(path string) reply {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header = c.header.Clone()
	card := c.fetch(r)
	checkDefinition(c.t, c.codec, "Agent Card", card.body)
	return card
}

// cardPaths are the paths of the card of A2A 1.0.
var cardPaths = []string{"/.well-known/agent-card.json", "/v1.0/.well-known/agent-card.json"}

var requirementsOfCards = []row{
	{"CARD-DISC-001 CARD-STRUCT-001", func(c *conn) {
		for _, path := range cardPaths {
			card := c.card(path)
			for _, name := range []string{"name", "description", "version", "capabilities", "skills.0.id", "defaultInputModes.0", "defaultOutputModes.0"} {
				if card.at(name) == nil {
					c.t.Errorf("%s lacks %s: %s", path, name, card.body)
				}
			}
		}
	}},
	{"CARD-PROTO-001 CARD-PROTO-002 BIND-FIELD-001", func(c *conn) {
		for _, path := range cardPaths {
			card, served := c.card(path), make(map[string]bool)
			for i := range length(card.at("supportedInterfaces")) {
				each := at(card.at("supportedInterfaces"), fmt.Sprint(i))
				served[fmt.Sprint(at(each, "protocolBinding"), " ", at(each, "protocolVersion"))] = at(each, "url") != ""
			}
			for _, want := range []string{"JSONRPC 1.0", "HTTP+JSON 1.0"} {
				if !served[want] {
					c.t.Errorf("%s: interfaces = %v, want %s", path, served, want)
				}
			}
		}
	}},
	{"CARD-CACHE-001 CARD-CACHE-002 CARD-CACHE-003", func(c *conn) {
		for _, path := range cardPaths {
			if h := c.card(path).header; !strings.HasPrefix(h.Get("Cache-Control"), "public, max-age=") || h.Get("ETag") == "" || h.Get("Last-Modified") == "" {
				c.t.Errorf("%s: headers = %v, want Cache-Control, ETag and Last-Modified", path, h)
			}
		}
	}},
}

// cardKey signs the cards of the tests.
var cardKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))

func signCards(cfg *holdfast.Config) { cfg.Security.CardKeys = []crypto.Signer{cardKey} }

var requirementsOfSignatures = []row{
	{"CARD-SIGN-001 CARD-SIGN-002", func(c *conn) {
		for _, path := range cardPaths {
			card := c.card(path)
			members := maps.Clone(card.result.(map[string]any))
			if c.signedBy(card, canonical(c.t, members)) {
				c.t.Errorf("%s: the signature covers the member signatures", path)
			}
			delete(members, "signatures")
			if text := canonical(c.t, members); !c.signedBy(card, text) {
				c.t.Errorf("%s: no signature of the canonical form %s", path, text)
			}
			members["name"] = "other"
			if c.signedBy(card, canonical(c.t, members)) {
				c.t.Errorf("%s: the signature is also valid for a changed card", path)
			}
		}
	}},
	{"CARD-SIGN-003", func(c *conn) {
		raw, err := base64.RawURLEncoding.DecodeString(c.card(cardPaths[0]).text("signatures.0.protected"))
		var header struct{ Alg, Kid string }
		if err := errors.Join(err, json.Unmarshal(raw, &header)); err != nil || header.Alg != "EdDSA" || header.Kid == "" {
			c.t.Errorf("protected header = %s, %v, want alg and kid", raw, err)
		}
	}},
	{"CARD-SIGN-004", func(c *conn) {
		card := c.card(cardPaths[0])
		for name, url := range map[string]string{"the key set": c.url, "a key set with another key": startAgent(c.t, "v10", func(cfg *holdfast.Config) {
			cfg.Security.CardKeys = []crypto.Signer{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))}
		})} {
			other := *c
			other.url = url
			r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url+"/.well-known/jwks.json", nil)
			if err != nil {
				c.t.Fatal(err)
			}
			keys, err := client.ParseCardKeys(other.fetch(r).body)
			if err != nil {
				c.t.Fatal(err)
			}
			if _, err := client.VerifyCard(card.body, keys); (err == nil) != (url == c.url) {
				c.t.Errorf("VerifyCard with %s = %v", name, err)
			}
		}
	}},
}

// canonical returns the form of RFC 8785. Cards have no numbers, and only ASCII names.
func canonical(t *testing.T, value any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// signedBy reports whether the first signature of a card is valid for a text.
func (c *conn) signedBy(card reply, text string) bool {
	c.t.Helper()
	signature, err := base64.RawURLEncoding.DecodeString(card.text("signatures.0.signature"))
	if err != nil {
		c.t.Fatal(err)
	}
	signed := card.text("signatures.0.protected") + "." + base64.RawURLEncoding.EncodeToString([]byte(text))
	return ed25519.Verify(cardKey.Public().(ed25519.PublicKey), []byte(signed), signature)
}

func testMediaTypes(c *conn) {
	m := message("tck-complete-task")
	m["parts"] = []any{object{"raw": "AAE=", "mediaType": "application/x-unknown"}}
	c.wantCode(c.call(a2a.MethodSend, object{"message": m}), a2a.CodeContentType)
}

func withoutExtendedCard(cfg *holdfast.Config) {
	cfg.Tokens = []server.Token{{Token: conformance.Token, Principal: a2a.Principal{ID: "caller"}}}
	cfg.Security.ExtendedCard = func(context.Context, a2a.Principal, a2a.AgentCard) (*a2a.AgentCard, error) { return nil, nil }
}

func testNoExtendedCard(c *conn) {
	if card := c.card(cardPaths[0]); card.at("capabilities.extendedAgentCard") != true {
		c.t.Errorf("card = %s, want that it declares an extended card", card.body)
	}
	c.wantCode(c.as(conformance.Token).call(a2a.MethodExtendedCard, object{}), a2a.CodeNoExtendedCard)
}

// as returns a copy of c with a bearer token.
func (c *conn) as(token string) *conn { return c.with("Authorization", "Bearer "+token) }

var requirementsOfAuthorization = []row{
	{"AUTH-SERVER-002", func(c *conn) {
		for method, params := range methodsOfV10("absent") {
			for _, c := range []*conn{c, c.as("unknown")} {
				if got := c.call(method, params); got.code() != a2a.CodeUnauthenticated || got.status != http.StatusUnauthorized {
					c.t.Errorf("%s = %d %s, want 401", method, got.status, got.body)
				}
			}
		}
	}},
	{"CARD-EXT-001", func(c *conn) {
		card := c.card(cardPaths[0])
		if card.at("securitySchemes.bearer.httpAuthSecurityScheme.scheme") != "bearer" {
			c.t.Errorf("card = %s, want the scheme of the tokens", card.body)
		}
		if got := c.call(a2a.MethodExtendedCard, object{}); got.code() != a2a.CodeUnauthenticated {
			c.t.Errorf("without credentials = %s, want that they are required", got.body)
		}
		got := c.as(conformance.Token).call(a2a.MethodExtendedCard, object{})
		if length(got.at("skills")) != length(card.at("skills"))+1 {
			c.t.Errorf("extended card = %s, want one skill more than in %s", got.body, card.body)
		}
	}},
	{"AUTH-SCOPE-001", func(c *conn) {
		task := c.as(conformance.Token).send("tck-input-required", nil).text("task.id")
		reader := c.as(conformance.InsufficientToken)
		for _, method := range []string{a2a.MethodSend, a2a.MethodStream, a2a.MethodCancel, a2a.MethodPushSet, a2a.MethodPushDelete} {
			if got := reader.call(method, methodsOfV10(task)[method]); got.code() != a2a.CodeDenied {
				c.t.Errorf("%s of a reader = %s, want that it is denied", method, got.body)
			}
		}
	}},
	{"AUTH-SCOPE-002 CORE-LIST-001", func(c *conn) {
		task := c.as(conformance.Token).send("tck-complete-task", nil)
		params := object{"contextId": task.at("task.contextId")}
		if got := c.as(conformance.Token).call(a2a.MethodList, params); length(got.at("tasks")) != 1 {
			c.t.Errorf("ListTasks() of the owner = %s, want the task", got.body)
		}
		if got := c.as(conformance.OtherToken).call(a2a.MethodList, params); got.err != nil || length(got.at("tasks")) != 0 {
			c.t.Errorf("ListTasks() of another caller = %s, want no task", got.body)
		}
	}},
	{"AUTH-SCOPE-003", func(c *conn) {
		task := c.as(conformance.Token).send("tck-input-required", nil).text("task.id")
		other := c.as(conformance.OtherToken)
		for _, method := range []string{a2a.MethodGet, a2a.MethodCancel, a2a.MethodResubscribe, a2a.MethodPushSet, a2a.MethodPushGet, a2a.MethodPushList} {
			got, absent := other.call(method, methodsOfV10(task)[method]), other.call(method, methodsOfV10("absent")[method])
			if got.code() != a2a.CodeTaskNotFound || got.status != absent.status || strings.ReplaceAll(got.err.Message, task, "absent") != absent.err.Message {
				c.t.Errorf("%s of another's task = %s, want it to be like an absent one: %s", method, got.body, absent.body)
			}
		}
	}},
}

// testSameAuthentication proves that each binding accepts the schemes of the card.
func testSameAuthentication(c *conn) {
	for _, c := range c.both() {
		if got := c.send("tck-complete-task", nil); got.code() != a2a.CodeUnauthenticated || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") {
			c.t.Errorf("without credentials = %v %s, want a challenge", got.header, got.body)
		}
		if got := c.as(conformance.Token).send("tck-complete-task", nil); got.text("task.id") == "" {
			c.t.Errorf("with the token = %s, want a task", got.body)
		}
	}
}
