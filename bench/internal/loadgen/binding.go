package loadgen

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Binding is the protocol version and the transport of requests.
type Binding string

// The bindings. [Contexts] and [Echo] need JSONRPC03.
const (
	// JSONRPC03 is A2A 0.3 over JSON-RPC.
	JSONRPC03 Binding = "jsonrpc-0.3"
	// JSONRPC10 is A2A 1.0 over JSON-RPC.
	JSONRPC10 Binding = "jsonrpc-1.0"
	// REST10 is A2A 1.0 over HTTP+JSON.
	REST10 Binding = "rest-1.0"
	// GRPC10 is A2A 1.0 over gRPC, without TLS if the scheme of the URL is http. It has [Send],
	// [SendGet] and [Get].
	GRPC10 Binding = "grpc-1.0"
)

// Bindings returns all bindings.
func Bindings() []Binding { return []Binding{JSONRPC03, JSONRPC10, REST10, GRPC10} }

// setTemplates sets the requests of a run.
func (r *run) setTemplates(cfg Config, u *url.URL) {
	accept := "application/json"
	if cfg.Scenario == Stream {
		accept = "text/event-stream"
	}
	blocking := cfg.Scenario != SendGet
	switch cfg.Binding {
	case JSONRPC03, JSONRPC10:
		post := requestHead(cfg, u, http.MethodPost, u.RequestURI(), accept)
		list := "tasks/list"
		if r.get, r.getEnd = `","method":"tasks/get","params":{"id":"`, `"}}`; cfg.Binding == JSONRPC10 {
			list, r.get = "ListTasks", `","method":"GetTask","params":{"id":"`
		}
		r.get = `{"jsonrpc":"2.0","id":"` + idHere + r.get
		r.getHead = post
		r.send = newTemplate(post, `{"jsonrpc":"2.0","id":"`+idHere+`","method":"`+sendMethod(cfg)+`","params":`+sendParams(cfg, blocking)+`}`)
		r.list = newTemplate(post, `{"jsonrpc":"2.0","id":"`+idHere+`","method":"`+list+`","params":{"pageSize":`+strconv.Itoa(pageSize)+`}}`)
		r.context = newTemplate(post, contextBody())
		for _, filters := range contextFilters {
			r.contexts = append(r.contexts, newTemplate(post, contextsBody(filters)))
		}
	case GRPC10:
		r.send = newTemplate(sendPath+"\x00"+sendProto(cfg, blocking), "")
		r.getHead = getPath + "\x00"
	case REST10:
		base := strings.TrimSuffix(u.Path, "/")
		path := base + "/message:send"
		if cfg.Scenario == Stream {
			path = base + "/message:stream"
		}
		r.send = newTemplate(requestHead(cfg, u, http.MethodPost, path, accept), sendParams(cfg, blocking))
		r.list = newTemplate(requestHead(cfg, u, http.MethodGet, base+"/tasks?pageSize="+strconv.Itoa(pageSize), accept), "")
		r.getHead = "GET " + base + "/tasks/"
		r.getEnd = strings.TrimPrefix(requestHead(cfg, u, http.MethodGet, "", accept), "GET ")
	}
}

// sendMethod returns the JSON-RPC method of the requests with a message.
func sendMethod(cfg Config) string {
	name := "message/send"
	if cfg.Scenario == Stream {
		name = "message/stream"
	}
	if cfg.Binding == JSONRPC10 {
		name = map[string]string{"message/send": "SendMessage", "message/stream": "SendStreamingMessage"}[name]
	}
	return name
}

// sendParams returns the params of a request with a message.
func sendParams(cfg Config, blocking bool) string {
	text := filler(cfg.PayloadBytes)
	if cfg.Binding == JSONRPC03 {
		return `{"message":{"kind":"message","messageId":"` + idHere + `","role":"user","parts":[{"kind":"text","text":"` + text +
			`"}]},"configuration":{"blocking":` + strconv.FormatBool(blocking) + `}}`
	}
	return `{"message":{"messageId":"` + idHere + `","role":"ROLE_USER","parts":[{"text":"` + text +
		`"}]},"configuration":{"returnImmediately":` + strconv.FormatBool(!blocking) + `}}`
}

// sendProto returns the message of a request of gRPC with a message.
func sendProto(cfg Config, blocking bool) string {
	raw, _ := proto.Marshal(&a2apb.SendMessageRequest{ // fails only for text that is not UTF-8
		Message: &a2apb.Message{
			MessageId: idHere, Role: a2apb.Role_ROLE_USER,
			Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: filler(cfg.PayloadBytes)}}},
		},
		Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: !blocking},
	})
	return string(raw)
}

// appendGet appends a request for a task. The task's id may have any length, so the request has
// no template.
func (r *run) appendGet(dst, id, task []byte) []byte {
	dst = append(dst, r.getHead...)
	if r.cfg.Binding == GRPC10 {
		dst = protowire.AppendTag(dst, fieldGetID, protowire.BytesType)
		return protowire.AppendBytes(dst, task)
	}
	if r.cfg.Binding != REST10 {
		dst = strconv.AppendInt(dst, int64(len(r.get)+len(task)+len(r.getEnd)), 10)
		dst = append(dst, "\r\n\r\n"...)
		at := len(dst) + strings.Index(r.get, idHere)
		dst = append(dst, r.get...)
		copy(dst[at:], id)
	}
	return append(append(dst, task...), r.getEnd...)
}

// requestHead returns the head of a request: up to the value of Content-Length, or whole for GET.
func requestHead(c Config, u *url.URL, method, target, accept string) string {
	fields := http.Header{}
	fields.Set("Accept", accept)
	if c.Binding != JSONRPC03 {
		fields.Set("A2A-Version", "1.0")
	}
	if c.Token != "" {
		fields.Set("Authorization", "Bearer "+c.Token)
	}
	for name, values := range c.Header {
		fields[http.CanonicalHeaderKey(name)] = values
	}
	var b strings.Builder
	b.WriteString(method + " " + target + " HTTP/1.1\r\nHost: " + u.Host + "\r\n")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for _, value := range fields[name] {
			b.WriteString(name + ": " + value + "\r\n")
		}
	}
	if method == http.MethodGet {
		return b.String() + "\r\n"
	}
	b.WriteString("Content-Type: application/json\r\nContent-Length: ")
	return b.String()
}
