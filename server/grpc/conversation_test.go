package grpc_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
	holdgrpc "github.com/holdfast-dev/holdfast/server/grpc"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/codec"
	"github.com/holdfast-dev/holdfast/server/internal/conversation"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// binding is a client of the generated messages. It converts them to and from the JSON of A2A 1.0,
// which the codec of package a2a/v10 decodes: nothing of this module.
type binding struct {
	codec rpc.Codec
	conn  *grpc.ClientConn
	// request and response convert between the JSON of A2A 1.0 and the JSON of the messages.
	request  func(m *a2a.Method, params map[string]any)
	response func(params map[string]any, value any) any
}

// messages returns the name of a method, its request and an empty response.
func (b *binding) messages(m *a2a.Method, params any) (full string, in, out proto.Message, err error) {
	full = b.codec.MethodName(m)
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(full[1:], "/", ".")))
	if err != nil {
		return "", nil, nil, err
	}
	desc := found.(protoreflect.MethodDescriptor)
	raw, err := jsonv10.Codec{}.EncodeParams(params)
	if err != nil {
		return "", nil, nil, err
	}
	if b.request != nil {
		var members map[string]any
		if err := json.Unmarshal(raw, &members); err != nil {
			return "", nil, nil, err
		}
		b.request(m, members)
		if raw, err = json.Marshal(members); err != nil {
			return "", nil, nil, err
		}
	}
	types := [2]proto.Message{}
	for i, d := range []protoreflect.MessageDescriptor{desc.Input(), desc.Output()} {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			return "", nil, nil, err
		}
		types[i] = kind.New().Interface()
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, types[0]); err != nil {
		return "", nil, nil, fmt.Errorf("%w: %s", err, raw)
	}
	return full, types[0], types[1], nil
}

// decode returns the JSON of a message of A2A 1.0.
func (b *binding) decode(params any, out proto.Message) ([]byte, error) {
	page := out.ProtoReflect().Descriptor().Name() == "ListTasksResponse" // its total may be 0
	raw, err := protojson.MarshalOptions{EmitDefaultValues: page}.Marshal(out)
	if err != nil || b.response == nil {
		return raw, err
	}
	request, err := jsonv10.Codec{}.EncodeParams(params)
	if err != nil {
		return nil, err
	}
	var value any
	var members map[string]any
	if err := errors.Join(json.Unmarshal(raw, &value), json.Unmarshal(request, &members)); err != nil {
		return nil, err
	}
	return json.Marshal(b.response(members, value))
}

func (b *binding) Call(ctx context.Context, method string, params, result any) error {
	m, _ := a2a.MethodByName(method)
	full, in, out, err := b.messages(&m, params)
	if err != nil {
		return err
	}
	if err := b.conn.Invoke(ctx, full, in, out); err != nil {
		return decodeError(err)
	}
	raw, err := b.decode(params, out)
	if err != nil || result == nil {
		return err
	}
	return jsonv10.Codec{}.DecodeResult(raw, result)
}

func (b *binding) Stream(ctx context.Context, method string, params any) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		m, _ := a2a.MethodByName(method)
		full, in, out, err := b.messages(&m, params)
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := b.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, full)
		if err == nil {
			err = stream.SendMsg(in)
		}
		if err == nil {
			err = stream.CloseSend()
		}
		for err == nil {
			var e a2a.Event
			var raw []byte
			if err = stream.RecvMsg(out); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				err = decodeError(err)
			} else if raw, err = b.decode(params, out); err == nil {
				e, err = jsonv10.Codec{}.DecodeEvent(raw)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// decodeError returns the error in the details of a status.
func decodeError(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	raw, err := protojson.Marshal(s.Proto())
	if err != nil {
		return err
	}
	var body struct{ Message, Details json.RawMessage }
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	if body.Details == nil {
		body.Details = json.RawMessage("[]")
	}
	e, err := jsonv10.Codec{}.DecodeError(fmt.Appendf(nil, `{"message":%s,"data":%s}`, body.Message, body.Details))
	if err != nil {
		return err
	}
	return e
}

// requestV03 converts the params of a method to its request in A2A 0.3.
func requestV03(m *a2a.Method, p map[string]any) {
	id, _ := p["id"].(string)
	task, _ := p["taskId"].(string)
	switch m.Name {
	case a2a.MethodSend, a2a.MethodStream:
		p["message"] = partsV03(p["message"])
		config, _ := p["configuration"].(map[string]any)
		config["blocking"] = config["returnImmediately"] != true
		if hook, ok := config["taskPushNotificationConfig"].(map[string]any); ok {
			config["pushNotification"] = hookV03(hook)
		}
	case a2a.MethodPushSet:
		hook := hookV03(p)
		p["parent"], p["configId"] = "tasks/"+task, hook["id"]
		p["config"] = map[string]any{"pushNotificationConfig": hook}
	case a2a.MethodPushGet, a2a.MethodPushDelete:
		p["name"] = "tasks/" + task + "/pushNotificationConfigs/" + id
	case a2a.MethodPushList:
		p["parent"] = "tasks/" + task
	case a2a.MethodList:
		if p["status"] == "TASK_STATE_CANCELED" {
			p["status"] = "TASK_STATE_CANCELLED"
		}
		p["lastUpdatedTime"] = p["statusTimestampAfter"]
	default:
		p["name"] = "tasks/" + id
	}
}

func hookV03(hook map[string]any) map[string]any {
	out := map[string]any{"id": hook["id"], "url": hook["url"], "token": hook["token"]}
	if a, ok := hook["authentication"].(map[string]any); ok {
		out["authentication"] = map[string]any{"schemes": []any{a["scheme"]}, "credentials": a["credentials"]}
	}
	return out
}

// partsV03 converts the parts of a message of A2A 1.0 to parts of A2A 0.3.
func partsV03(message any) any {
	m := message.(map[string]any)
	for _, each := range m["parts"].([]any) {
		part := each.(map[string]any)
		file := map[string]any{"name": part["filename"], "mimeType": part["mediaType"]}
		if raw, ok := part["raw"]; ok {
			file["fileWithBytes"], part["file"] = raw, file
		}
		if url, ok := part["url"]; ok {
			file["fileWithUri"], part["file"] = url, file
		}
		if data, ok := part["data"]; ok {
			if _, object := data.(map[string]any); !object {
				metadata, _ := part["metadata"].(map[string]any)
				if metadata == nil {
					metadata = map[string]any{}
				}
				metadata["holdfast.data"] = "value"
				part["metadata"], data = metadata, map[string]any{"value": data}
			}
			part["data"] = map[string]any{"data": data}
		}
	}
	return m
}

// responseV03 converts a response of A2A 0.3 to A2A 1.0. In A2A 0.3 a history length of 0 is the
// whole history, and a page has no size.
func responseV03(params map[string]any, value any) any {
	value = messageV10(value)
	m, ok := value.(map[string]any)
	if !ok {
		return value
	}
	if config, ok := params["configuration"].(map[string]any); ok {
		params = config
	}
	if params["historyLength"] == 0.0 {
		delete(m, "history")
		if task, ok := m["task"].(map[string]any); ok {
			delete(task, "history")
		}
	}
	if _, page := m["tasks"]; page || m["totalSize"] != nil {
		m["pageSize"] = 50
		if size, ok := params["pageSize"]; ok {
			m["pageSize"] = size
		}
	}
	return value
}

// messageV10 converts a message of A2A 0.3 to A2A 1.0.
func messageV10(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = messageV10(v[i])
		}
	case map[string]any:
		if hook, ok := v["pushNotificationConfig"].(map[string]any); ok {
			name := strings.Split(v["name"].(string), "/")
			if a, ok := hook["authentication"].(map[string]any); ok {
				a["scheme"] = a["schemes"].([]any)[0]
			}
			hook["taskId"] = name[1]
			return hook
		}
		if v["state"] == "TASK_STATE_CANCELLED" {
			v["state"] = "TASK_STATE_CANCELED"
		}
		for name, member := range v {
			switch name {
			case "metadata":
			case "parts":
				for _, each := range member.([]any) {
					partV10(each.(map[string]any))
				}
			default:
				v[name] = messageV10(member)
			}
		}
	}
	return value
}

func partV10(part map[string]any) {
	if file, ok := part["file"].(map[string]any); ok {
		part["filename"], part["mediaType"] = file["name"], file["mimeType"]
		if raw, ok := file["fileWithBytes"]; ok {
			part["raw"] = raw
		} else {
			part["url"] = file["fileWithUri"]
		}
		delete(part, "file")
	}
	if outer, ok := part["data"].(map[string]any); ok {
		data, _ := outer["data"].(map[string]any)
		part["data"] = data
		if metadata, _ := part["metadata"].(map[string]any); metadata["holdfast.data"] == "value" {
			part["data"] = data["value"]
			if delete(metadata, "holdfast.data"); len(metadata) == 0 {
				delete(part, "metadata")
			}
		}
	}
}

// discardSender is a receiver of webhooks that accepts everything.
type discardSender struct{ policy safehttp.Policy }

func (*discardSender) Post(context.Context, safehttp.Request) (safehttp.Response, error) {
	return safehttp.Response{Status: http.StatusOK}, nil
}

func (s *discardSender) Check(_ context.Context, rawURL string) error {
	_, err := s.policy.CheckURL(rawURL)
	return err
}

// talk holds the conversation with an agent in memory.
func talk(t *testing.T, st store.Store, connect func(s *server.Server) conversation.Binding) []conversation.Exchange {
	t.Helper()
	var last atomic.Int64
	ids := func() string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", last.Add(1)) }
	clock := &conversation.Clock{Store: st}
	hooks, err := webhook.New(webhook.Config{Store: clock, NewID: ids, Sender: &discardSender{}})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, engine.Config{Store: clock, Handler: conversation.Handle, NewID: ids}, func(c *server.Config) { c.Webhook = hooks })
	all := conversation.Run(t, connect(s), clock)
	return slices.DeleteFunc(all, func(x conversation.Exchange) bool { return x.Step == "list of two states" }) // ListTasksRequest has one
}

// newServer returns a server with an engine that runs.
func newServer(t *testing.T, from engine.Config, change func(*server.Config)) *server.Server {
	t.Helper()
	from.Turns.FlushInterval, from.Turns.HandlerGrace = time.Millisecond, time.Second
	if from.NewID == nil {
		var last atomic.Int64
		from.NewID = func() string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", last.Add(1)) }
	}
	e, err := engine.New(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Stop(ctx)
	})
	cfg := server.Config{Engine: e, Card: a2a.AgentCard{Name: "tester"}}
	change(&cfg)
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// overGRPC connects a client to s over gRPC.
func overGRPC(t *testing.T, s *server.Server) *grpc.ClientConn {
	t.Helper()
	g, err := holdgrpc.New(s, holdgrpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Drain()
		if err := <-served; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	return conn
}

// jsonBinding is a client of A2A 1.0 over JSON-RPC.
type jsonBinding struct{ url string }

func (b jsonBinding) do(ctx context.Context, method string, params any) (*http.Response, error) {
	m, _ := a2a.MethodByName(method)
	raw, err := jsonv10.Codec{}.EncodeParams(params)
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, m.NameV10, raw)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	return http.DefaultClient.Do(r)
}

func (b jsonBinding) result(body []byte) ([]byte, error) {
	var r struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(body, &r); err != nil || r.Error == nil {
		return r.Result, err
	}
	e, err := jsonv10.Codec{}.DecodeError(r.Error)
	if err != nil {
		return nil, err
	}
	return nil, e
}

func (b jsonBinding) Call(ctx context.Context, method string, params, result any) error {
	resp, err := b.do(ctx, method, params)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	raw, err := b.result(body)
	if err != nil || result == nil {
		return err
	}
	return jsonv10.Codec{}.DecodeResult(raw, result)
}

func (b jsonBinding) Stream(ctx context.Context, method string, params any) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		resp, err := b.do(ctx, method, params)
		if err != nil {
			yield(nil, err)
			return
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !ok && resp.Header.Get("Content-Type") == "text/event-stream" {
				continue
			}
			raw, err := b.result(data)
			var e a2a.Event
			if err == nil {
				e, err = jsonv10.Codec{}.DecodeEvent(raw)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Clients of both versions over gRPC read the model that clients of JSON-RPC read; package server
// compares those with all other bindings and stores.
func TestBothVersionsHaveTheModelOfJSONRPC(t *testing.T) {
	want := talk(t, inmem.New(), func(s *server.Server) conversation.Binding {
		ts := httptest.NewServer(s)
		t.Cleanup(ts.Close)
		return jsonBinding{ts.URL}
	})
	stores := map[string]func(t *testing.T) (store.Store, error){
		"memory": func(*testing.T) (store.Store, error) { return inmem.New(), nil },
		"SQLite": func(t *testing.T) (store.Store, error) {
			return sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
		},
	}
	if pgtest.Enabled {
		stores["PostgreSQL"] = func(t *testing.T) (store.Store, error) {
			at := pgtest.URL(t)
			return postgres.Open(t.Context(), postgres.Config{URL: at, Schema: pgtest.Schema(t, at), Migrate: true})
		}
	}
	for name, connect := range map[string]func(conn *grpc.ClientConn) conversation.Binding{
		"1.0": func(conn *grpc.ClientConn) conversation.Binding { return &binding{codec: codec.V10(false), conn: conn} },
		"0.3": func(conn *grpc.ClientConn) conversation.Binding {
			return &binding{codec: codec.V03(), conn: conn, request: requestV03, response: responseV03}
		},
	} {
		for backend, open := range stores {
			t.Run(name+" on "+backend, func(t *testing.T) {
				st, err := open(t)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if c, ok := st.(io.Closer); ok {
						_ = c.Close()
					}
				})
				got := talk(t, st, func(s *server.Server) conversation.Binding { return connect(overGRPC(t, s)) })
				if diff := conversation.Diff(want, got); diff != "" {
					t.Errorf("the conversation differs from that over JSON-RPC in memory (-want +got):\n%s", diff)
				}
			})
		}
	}
}
