package interop_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	legacy "github.com/a2aproject/a2a-go/a2a"
	_ "github.com/a2aproject/a2a-go/a2apb"       // the messages of A2A 0.3
	_ "github.com/a2aproject/a2a-go/v2/a2apb/v1" // the messages of A2A 1.0
	"google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails" // the details of errors
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/holdfast-dev/holdfast/internal/recording"
)

// The kinds of JSON that an agent sends.
const (
	rpcResult    = "JSON-RPC result"
	rpcItem      = "JSON-RPC stream item"
	rpcError     = "JSON-RPC error"
	httpResult   = "HTTP+JSON result"
	httpItem     = "HTTP+JSON stream item"
	httpError    = "HTTP+JSON error"
	cardKind     = "agent card"
	extendedCard = "extended agent card"
	webhookKind  = "webhook request"
)

// document is JSON that an agent has sent, with its type.
type document struct {
	version, kind string
	// definition is the type of the value: the name of a Go type or message. Of 1.0 it is a message.
	definition string
	// both reports that it has the members of both versions.
	both bool
	raw  json.RawMessage
	// official is the definition in the official JSON schema, "" if that has none.
	official string
}

// methodsOf03 are the results of the methods of A2A 0.3 over JSON-RPC.
var methodsOf03 = map[string]string{
	"message/send": "SendMessageResult", "message/stream": "Event", "tasks/resubscribe": "Event", "tasks/get": "Task", "tasks/cancel": "Task",
	"tasks/pushNotificationConfig/set": "TaskPushConfig", "tasks/pushNotificationConfig/get": "TaskPushConfig",
	"tasks/pushNotificationConfig/list": "TaskPushConfigs", "tasks/pushNotificationConfig/delete": "null", "agent/getAuthenticatedExtendedCard": "AgentCard",
}

// typesOf03 are the Go types of the official SDK of A2A 0.3.
var typesOf03 = map[string]reflect.Type{
	"SendMessageResult": reflect.TypeFor[legacy.SendMessageResult](), "Event": reflect.TypeFor[legacy.Event](), "Task": reflect.TypeFor[legacy.Task](),
	"TaskPushConfig": reflect.TypeFor[legacy.TaskPushConfig](), "TaskPushConfigs": reflect.TypeFor[[]legacy.TaskPushConfig](), "AgentCard": reflect.TypeFor[legacy.AgentCard](),
}

// officialOf03 are the definitions of the official schema of A2A 0.3.
var officialOf03 = map[string]string{
	"SendMessageResult": "SendMessageSuccessResponse.result", "Event": "SendStreamingMessageSuccessResponse.result", "Task": "Task", "AgentCard": "AgentCard",
	"TaskPushConfig": "TaskPushNotificationConfig", "TaskPushConfigs": "ListTaskPushNotificationConfigSuccessResponse.result",
}

// extensionMembers are members that docs/extensions.md defines. A2A 0.3 permits them.
var extensionMembers = map[reflect.Type][]string{
	reflect.TypeFor[legacy.PushConfig](): {"payloadFormat", "signatures", "signingSecret", "signingKey", "delivery", "longRunning"},
}

// officialOf10 returns the definition of a message in the official schema of A2A 1.0, or "".
func officialOf10(message string) string {
	if message == "Empty" {
		return ""
	}
	return message
}

const (
	package03 = "a2a.v1"
	package10 = "lf.a2a.v1"
	service   = ".A2AService"
)

// notA2A are the paths of the agent with JSON that no version of A2A defines.
var notA2A = []string{"/healthz", "/readyz", "/health", "/.well-known/jwks.json"}

// documents returns the JSON documents of an exchange.
func documents(x recording.Exchange) ([]document, error) {
	if x.Webhook {
		return []document{ofWebhook(x.Request)}, nil
	}
	kind, _, _ := mime.ParseMediaType(x.ContentType)
	if slices.Contains(notA2A, x.Path) || len(x.Response) == 0 {
		return nil, nil
	}
	var bodies []json.RawMessage
	stream := kind == "text/event-stream"
	switch {
	case stream:
		for line := range bytes.Lines(x.Response) {
			// The last line may be incomplete if the stream was cut off.
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && bytes.HasSuffix(line, []byte("\n")) {
				bodies = append(bodies, json.RawMessage(data))
			}
		}
	case kind == "application/json" || kind == "application/a2a+json":
		bodies = []json.RawMessage{x.Response}
	default:
		return nil, fmt.Errorf("%s %s = %d with media type %q: %.200s", x.Method, x.Path, x.Status, x.ContentType, x.Response)
	}
	var all []document
	for _, body := range bodies {
		d, err := documentOf(x, body, stream)
		if err != nil {
			return nil, fmt.Errorf("%s %s with %.500s = %d %s: %w", x.Method, x.Path, x.Request, x.Status, body, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// ofWebhook returns the document of a request to a webhook: a Task of A2A 0.3 or a StreamResponse
// of 1.0.
func ofWebhook(raw json.RawMessage) document {
	var of03 struct{ Kind string }
	if json.Unmarshal(raw, &of03) == nil && of03.Kind != "" {
		return document{version: "0.3", kind: webhookKind, definition: "Task", official: "Task", raw: raw}
	}
	return document{version: "1.0", kind: webhookKind, definition: "StreamResponse", official: "StreamResponse", raw: raw}
}

func documentOf(x recording.Exchange, body json.RawMessage, stream bool) (document, error) {
	var envelope map[string]json.RawMessage
	if err := json.Unmarshal(body, &envelope); err != nil {
		return document{}, err
	}
	if _, ok := envelope["jsonrpc"]; ok {
		return ofRPC(x, envelope, stream)
	}
	if raw, ok := envelope["error"]; ok {
		d := document{version: versionOf(x), kind: httpError, raw: raw}
		if d.version == "0.3" {
			d.raw = body // A2A 0.3 defines no form; the error has the forms of JSON-RPC and of 1.0
		} else if len(envelope) > 1 {
			return document{}, fmt.Errorf("an error with other members")
		}
		return d, nil
	}
	if x.Method == http.MethodGet && (strings.Contains(x.Path, "/.well-known/agent") || envelope["supportedInterfaces"] != nil) {
		d := document{version: versionOf(x), kind: cardKind, definition: "AgentCard", official: "AgentCard", raw: body}
		if strings.HasSuffix(x.Path, "/card") || strings.HasSuffix(x.Path, "/extendedAgentCard") {
			d.kind = extendedCard
		}
		// Clients that only read 1.0 also get the card of 0.3.
		d.both = d.version == "0.3"
		return d, nil
	}
	return ofHTTP(x, body, stream)
}

// versionOf returns the version of a request without a JSON-RPC method.
func versionOf(x recording.Exchange) string {
	if x.Version == "1.0" || strings.HasPrefix(x.Path, "/v1.0/") || httpMethod(x, package10) != nil {
		return "1.0"
	}
	return "0.3"
}

// ofRPC returns the result or error of a JSON-RPC response.
func ofRPC(x recording.Exchange, envelope map[string]json.RawMessage, stream bool) (document, error) {
	var version string
	if err := json.Unmarshal(envelope["jsonrpc"], &version); err != nil || version != "2.0" {
		return document{}, fmt.Errorf("jsonrpc is %s", envelope["jsonrpc"])
	}
	names := slices.Sorted(maps.Keys(envelope))
	if !slices.Equal(names, []string{"id", "jsonrpc", "result"}) && !slices.Equal(names, []string{"error", "id", "jsonrpc"}) {
		return document{}, fmt.Errorf("the members are %v, want id and either result or error", names)
	}
	var request struct {
		ID     json.RawMessage
		Method string
	}
	err := json.Unmarshal(x.Request, &request)
	if err == nil && len(request.ID) > 0 && !bytes.Equal(request.ID, envelope["id"]) && envelope["result"] != nil {
		return document{}, fmt.Errorf("the id is %s, want %s", envelope["id"], request.ID)
	}
	method := serviceOf(package10).Methods().ByName(protoreflect.Name(request.Method))
	d := document{version: "0.3", kind: rpcResult, raw: envelope["result"]}
	if method != nil || x.Version == "1.0" {
		d.version = "1.0"
	}
	if stream {
		d.kind = rpcItem
	}
	switch {
	case envelope["error"] != nil:
		d.kind, d.raw, d.official = rpcError, envelope["error"], map[string]string{"0.3": "JSONRPCErrorResponse.error"}[d.version]
	case method != nil:
		d.definition = string(method.Output().Name())
		d.official = officialOf10(d.definition)
	default:
		d.definition = methodsOf03[request.Method]
		d.official = officialOf03[d.definition]
	}
	if d.kind != rpcError && d.definition == "" {
		return document{}, fmt.Errorf("a result of the method %q, which no version defines", request.Method)
	}
	if d.definition == "AgentCard" {
		d.kind, d.both = extendedCard, d.version == "0.3"
	}
	return d, nil
}

// ofHTTP returns the result of a request over HTTP+JSON.
func ofHTTP(x recording.Exchange, body json.RawMessage, stream bool) (document, error) {
	d := document{kind: httpResult, raw: body}
	if stream {
		d.kind = httpItem
	}
	for version, name := range map[string]protoreflect.FullName{"0.3": package03, "1.0": package10} {
		if m := httpMethod(x, name); m != nil {
			d.version, d.definition = version, string(m.Output().Name())
			if version == "1.0" {
				d.official = officialOf10(d.definition)
			}
			return d, nil
		}
	}
	return document{}, fmt.Errorf("a result of a route that no version defines")
}

func serviceOf(name protoreflect.FullName) protoreflect.ServiceDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name + service)
	if err != nil {
		panic(err)
	}
	return d.(protoreflect.ServiceDescriptor)
}

// httpMethod returns the method of a package that a request calls by its HTTP annotation, or nil.
func httpMethod(x recording.Exchange, name protoreflect.FullName) protoreflect.MethodDescriptor {
	if of03 := strings.HasPrefix(x.Path, "/v1/") || strings.HasPrefix(x.Path, "/rest/"); of03 && name == package10 {
		return nil // these names of tenants are reserved
	}
	methods := serviceOf(name).Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		rule := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
		for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			verb, pattern := http.MethodGet, r.GetGet()
			switch {
			case r.GetPost() != "":
				verb, pattern = http.MethodPost, r.GetPost()
			case r.GetDelete() != "":
				verb, pattern = http.MethodDelete, r.GetDelete()
			}
			// The text of both versions has a POST where the annotations have a GET.
			subscribes := strings.HasSuffix(pattern, ":subscribe") && x.Method == http.MethodPost
			if (verb == x.Method || subscribes) && matches(pattern, strings.TrimPrefix(x.Path, "/rest")) {
				return m
			}
		}
	}
	return nil
}

// matches reports whether a path matches the pattern of an HTTP annotation.
func matches(pattern, p string) bool {
	pattern = strings.Replace(pattern, "parent=task/*", "parent=tasks/*", 1) // a mistake in the annotation of 0.3
	var glob strings.Builder
	for pattern != "" {
		before, rest, _ := strings.Cut(pattern, "{")
		variable, after, found := strings.Cut(rest, "}")
		glob.WriteString(before)
		if found {
			if _, value, ok := strings.Cut(variable, "="); ok {
				variable = value
			} else {
				variable = "*"
			}
			glob.WriteString(variable)
		}
		pattern = after
	}
	ok, err := path.Match(glob.String(), p)
	if wild := strings.HasSuffix(glob.String(), "*"); ok && wild && strings.Contains(path.Base(p), ":") {
		return false // the verb of another method
	}
	return err == nil && ok
}

// problem returns how a document breaks its version of A2A, or "".
func (d document) problem() string {
	var value any
	if err := json.Unmarshal(d.raw, &value); err != nil {
		return err.Error()
	}
	switch {
	case d.kind == rpcError:
		return rpcErrorProblem(d, value)
	case d.kind == httpError && d.version == "0.3":
		object, _ := value.(map[string]any)
		inner := object["error"]
		delete(object, "error")
		if problem := rpcErrorProblem(d, value); problem != "" {
			return problem
		}
		return httpErrorProblem(inner)
	case d.kind == httpError:
		return httpErrorProblem(value)
	case d.definition == "null":
		if value != nil {
			return "is not null"
		}
		return ""
	case d.version == "1.0":
		return checkMessage(package10, d.definition, value, nil)
	case typesOf03[d.definition] == nil || d.kind == httpResult || d.kind == httpItem:
		return checkMessage(package03, d.definition, value, nil)
	}
	of03 := &goChecker{allowed: extensionMembers}
	of03.check(typesOf03[d.definition], value, d.definition)
	if !d.both {
		return of03.problem(nil)
	}
	var unknown []string
	if problem := checkMessage(package10, d.definition, value, &unknown); problem != "" {
		return problem
	}
	return of03.problem(func(path string) bool { return !slices.Contains(unknown, path) })
}

func rpcErrorProblem(d document, value any) string {
	c := &goChecker{}
	c.check(reflect.TypeFor[struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}](), value, "error")
	if problem := c.problem(nil); problem != "" || d.version == "0.3" {
		return problem
	}
	details, ok := value.(map[string]any)["data"].([]any)
	if !ok {
		return "error.data is not an array"
	}
	return detailsProblem(details)
}

// httpErrorProblem validates an error in the form of AIP-193.
func httpErrorProblem(value any) string {
	c := &goChecker{}
	c.check(reflect.TypeFor[struct {
		Code    int    `json:"code"`
		Status  string `json:"status"`
		Message string `json:"message"`
		Details []any  `json:"details,omitempty"`
	}](), value, "error")
	if problem := c.problem(nil); problem != "" {
		return problem
	}
	details, _ := value.(map[string]any)["details"].([]any)
	return detailsProblem(details)
}

// detailsProblem decodes the details of an error, each of which names its message.
func detailsProblem(details []any) string {
	for _, each := range details {
		if object, ok := each.(map[string]any); !ok || object["@type"] == nil {
			return fmt.Sprintf("the detail %v has no type", each)
		}
	}
	raw, err := json.Marshal(map[string]any{"details": details})
	if err == nil {
		err = protojson.Unmarshal(raw, new(status.Status))
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// checkMessage decodes a value as the JSON of a message, strictly, and checks that it has the
// members that the message requires. With unknown set, it ignores unknown members and adds their
// paths there.
func checkMessage(pkg, name string, value any, unknown *[]string) string {
	full := protoreflect.FullName(pkg + "." + name)
	if name == "Empty" {
		full = "google.protobuf.Empty"
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(full)
	if err != nil {
		return fmt.Sprintf("%s: %v", full, err)
	}
	m := &messageChecker{}
	known := m.check(kind.Descriptor(), value, name)
	if unknown != nil {
		*unknown = m.unknown
	} else if len(m.unknown) > 0 {
		m.problems = append(m.problems, strings.Join(m.unknown, ", ")+": unknown")
	}
	raw, err := json.Marshal(known)
	if err == nil {
		err = protojson.Unmarshal(raw, kind.New().Interface())
	}
	if err != nil {
		m.problems = append(m.problems, err.Error())
	}
	return strings.Join(m.problems, "; ")
}

// messageChecker collects what breaks the definition of a message. The strict decoder does not
// check required members, and accepts the names of fields in place of their names in JSON.
type messageChecker struct{ problems, unknown []string }

// check returns the value without unknown members.
func (m *messageChecker) check(d protoreflect.MessageDescriptor, value any, at string) any {
	object, ok := value.(map[string]any)
	if !ok || d.ParentFile().Package() == "google.protobuf" {
		return value // the decoder reports the wrong type
	}
	known := make(map[string]any)
	set := make(map[protoreflect.Name]int)
	for name, member := range object {
		f := fieldOf(d, name)
		if f == nil {
			m.unknown = append(m.unknown, at+"."+name)
			if d.Fields().ByTextName(name) != nil {
				m.problems = append(m.problems, fmt.Sprintf("%s.%s is not in camelCase", at, name))
			}
			continue
		}
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
			set[o.Name()]++
		}
		known[f.JSONName()] = m.member(f, member, at+"."+name)
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		behaviors, _ := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
		if _, ok := object[jsonName(f)]; !ok && slices.Contains(behaviors, annotations.FieldBehavior_REQUIRED) {
			m.problems = append(m.problems, fmt.Sprintf("%s lacks %s", at, jsonName(f)))
		}
	}
	for i := range d.Oneofs().Len() {
		if o := d.Oneofs().Get(i); !o.IsSynthetic() && set[o.Name()] != 1 {
			m.problems = append(m.problems, fmt.Sprintf("%s has %d members of %s, want one", at, set[o.Name()], o.Name()))
		}
	}
	return known
}

// jsonName returns the name of a field in JSON. The generated code of the SDK for A2A 0.3 has
// another name for one field than the definition of that version.
func jsonName(f protoreflect.FieldDescriptor) string {
	if f.FullName() == package03+".Message.parts" {
		return "content"
	}
	return f.JSONName()
}

func fieldOf(d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	for i := range d.Fields().Len() {
		if f := d.Fields().Get(i); jsonName(f) == name {
			return f
		}
	}
	return nil
}

func (m *messageChecker) member(f protoreflect.FieldDescriptor, value any, at string) any {
	switch value := value.(type) {
	case []any:
		if f.IsList() && f.Message() != nil {
			var list []any
			for i, each := range value {
				list = append(list, m.check(f.Message(), each, fmt.Sprintf("%s[%d]", at, i)))
			}
			return list
		}
	case map[string]any:
		if f.IsMap() && f.MapValue().Message() != nil {
			out := make(map[string]any)
			for key, each := range value {
				out[key] = m.check(f.MapValue().Message(), each, at+"."+key)
			}
			return out
		}
		if !f.IsMap() && f.Message() != nil {
			return m.check(f.Message(), value, at)
		}
	}
	return value
}

// goChecker collects what breaks a Go type: wrong types, members that it requires, because their
// tags lack omitempty, and unknown members.
type goChecker struct {
	problems, unknown []string
	// allowed are further members of types.
	allowed map[reflect.Type][]string
}

// problem returns the problems, with the unknown members that are not known elsewhere.
func (c *goChecker) problem(elsewhere func(path string) bool) string {
	all := slices.Clone(c.problems)
	for _, name := range c.unknown {
		if elsewhere == nil || !elsewhere(name) {
			all = append(all, name+" is unknown")
		}
	}
	return strings.Join(all, "; ")
}

func (c *goChecker) add(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// unions are the interfaces of the SDK, with the types that implement them.
var unions = map[reflect.Type][]reflect.Type{
	reflect.TypeFor[legacy.SendMessageResult](): {reflect.TypeFor[legacy.Task](), reflect.TypeFor[legacy.Message]()},
	reflect.TypeFor[legacy.Event](): {
		reflect.TypeFor[legacy.Task](), reflect.TypeFor[legacy.Message](), reflect.TypeFor[legacy.TaskStatusUpdateEvent](), reflect.TypeFor[legacy.TaskArtifactUpdateEvent](),
	},
	reflect.TypeFor[legacy.Part](): {reflect.TypeFor[legacy.TextPart](), reflect.TypeFor[legacy.FilePart](), reflect.TypeFor[legacy.DataPart]()},
	reflect.TypeFor[legacy.SecurityScheme](): {
		reflect.TypeFor[legacy.APIKeySecurityScheme](), reflect.TypeFor[legacy.HTTPAuthSecurityScheme](), reflect.TypeFor[legacy.MutualTLSSecurityScheme](),
		reflect.TypeFor[legacy.OAuth2SecurityScheme](), reflect.TypeFor[legacy.OpenIDConnectSecurityScheme](),
	},
}

// enumerations are the constants of the SDK by their types.
var enumerations = map[reflect.Type][]string{
	reflect.TypeFor[legacy.MessageRole]():            {"agent", "user"},
	reflect.TypeFor[legacy.APIKeySecuritySchemeIn](): {"cookie", "header", "query"},
	reflect.TypeFor[legacy.TaskState](): {
		"auth-required", "canceled", "completed", "failed", "input-required", "rejected", "submitted", "unknown", "working",
	},
}

func (c *goChecker) check(t reflect.Type, value any, at string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[any]() {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		c.object(t, value, at)
	case []any:
		if t.Kind() != reflect.Slice {
			c.add("%s is an array", at)
			return
		}
		for i, each := range value {
			c.check(t.Elem(), each, fmt.Sprintf("%s[%d]", at, i))
		}
	case string:
		c.text(t, value, at)
	case float64:
		if !(t.Kind() == reflect.Float64 || t.Kind() == reflect.Int && value == float64(int(value))) {
			c.add("%s is %v, want a %s", at, value, t)
		}
	case bool:
		if t.Kind() != reflect.Bool {
			c.add("%s is %t, want a %s", at, value, t)
		}
	default:
		c.add("%s is null", at)
	}
}

func (c *goChecker) text(t reflect.Type, value, at string) {
	if t == reflect.TypeFor[time.Time]() {
		if _, err := time.Parse(time.RFC3339Nano, value); err != nil {
			c.add("%s: %v", at, err)
		}
		return
	}
	if t.Kind() != reflect.String {
		c.add("%s is %q, want a %s", at, value, t)
	} else if allowed := enumerations[t]; allowed != nil && !slices.Contains(allowed, value) {
		c.add("%s is %q, want one of %v", at, value, allowed)
	}
}

func (c *goChecker) object(t reflect.Type, value map[string]any, at string) {
	switch {
	case t == reflect.TypeFor[legacy.FilePartContent]():
		t = reflect.TypeFor[legacy.FileURI]()
		if text, ok := value["bytes"].(string); ok {
			t = reflect.TypeFor[legacy.FileBytes]()
			if _, err := base64.StdEncoding.DecodeString(text); err != nil {
				c.add("%s.bytes: %v", at, err)
			}
		}
	case unions[t] != nil:
		union := t
		for _, each := range unions[union] {
			if constants := constantsOf(each); hasConstants(value, constants) {
				t = each
			}
		}
		if t == union {
			c.add("%s has the kind %v and type %v, which %s does not have", at, value["kind"], value["type"], union)
			return
		}
	}
	switch t.Kind() {
	case reflect.Map:
		for name, each := range value {
			c.check(t.Elem(), each, at+"."+name)
		}
	case reflect.Struct:
		c.structure(t, value, at)
	default:
		c.add("%s is an object, want a %s", at, t)
	}
}

// structure checks the members of an object: its fields, and those that only its encoder adds.
func (c *goChecker) structure(t reflect.Type, value map[string]any, at string) {
	fields := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		fields[name] = f.Type
		if _, ok := value[name]; !ok && options != "omitempty" {
			c.add("%s lacks %s", at, name)
		}
	}
	constants := constantsOf(t)
	if !hasConstants(value, constants) {
		c.add("%s lacks the members %v", at, constants)
	}
	for name, each := range value {
		if kind, ok := fields[name]; ok {
			c.check(kind, each, at+"."+name)
		} else if constants[name] == nil && !slices.Contains(c.allowed[t], name) {
			c.unknown = append(c.unknown, at+"."+name)
		}
	}
}

// constantsOf returns the members that the encoder of a type adds to its fields: kind or type.
func constantsOf(t reflect.Type) map[string]any {
	out := make(map[string]any)
	raw, err := json.Marshal(reflect.New(t).Interface())
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		panic(err)
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		delete(out, name)
	}
	return out
}

func hasConstants(value, constants map[string]any) bool {
	for name, want := range constants {
		if value[name] != want {
			return false
		}
	}
	return true
}
