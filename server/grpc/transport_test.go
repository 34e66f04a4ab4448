package grpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	pb03 "github.com/a2aproject/a2a-go/a2apb"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/server"
	holdgrpc "github.com/holdfast-dev/holdfast/server/grpc"
)

func with(t *testing.T, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), pairs...)
}

func message(id, words string) *pb.SendMessageRequest {
	return &pb.SendMessageRequest{Message: &pb.Message{MessageId: id, Role: pb.Role_ROLE_USER, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: words}}}}}
}

func TestVersionOfAnotherServiceIsRejected(t *testing.T) {
	e := start(t, nil)
	v10, v03 := pb.NewA2AServiceClient(e.conn), pb03.NewA2AServiceClient(e.conn)
	get10 := func(ctx context.Context) error { _, err := v10.GetTask(ctx, &pb.GetTaskRequest{Id: "x"}); return err }
	get03 := func(ctx context.Context) error {
		_, err := v03.GetTask(ctx, &pb03.GetTaskRequest{Name: "tasks/x"})
		return err
	}
	for _, test := range []struct {
		version string
		call    func(context.Context) error
		want    codes.Code
		reason  string
	}{
		{"", get10, codes.NotFound, "TASK_NOT_FOUND"},
		{"1.0", get10, codes.NotFound, "TASK_NOT_FOUND"},
		{"1.7.2", get10, codes.NotFound, "TASK_NOT_FOUND"},
		{"0.3", get10, codes.FailedPrecondition, "VERSION_NOT_SUPPORTED"},
		{"99.0", get10, codes.FailedPrecondition, "VERSION_NOT_SUPPORTED"},
		{"", get03, codes.NotFound, "TASK_NOT_FOUND"},
		{"0.3.0", get03, codes.NotFound, "TASK_NOT_FOUND"},
		{"1.0", get03, codes.Unimplemented, "VERSION_NOT_SUPPORTED"},
	} {
		s := status.Convert(test.call(with(t, "a2a-version", test.version)))
		if info := errorInfo(s); s.Code() != test.want || info.GetReason() != test.reason || info.GetDomain() != a2a.ErrorDomain {
			t.Errorf("version %q: %v %v, want %v %s", test.version, s, info, test.want, test.reason)
		}
	}
}

func TestErrorsHaveTheStatusOfThePatchVersion(t *testing.T) {
	for patch, want := range map[string]codes.Code{"1.0.1": codes.FailedPrecondition, "1.0.0": codes.Unimplemented} {
		e := start(t, func(c *holdfast.Config) { c.Protocol.HTTPErrors, c.Webhooks.Off = patch, true })
		c := pb.NewA2AServiceClient(e.conn)
		_, version := c.GetTask(with(t, "a2a-version", "99.0"), &pb.GetTaskRequest{Id: "x"})
		_, push := c.GetTaskPushNotificationConfig(t.Context(), &pb.GetTaskPushNotificationConfigRequest{TaskId: "x", Id: "y"})
		for name, err := range map[string]error{"version": version, "webhooks off": push} {
			if status.Code(err) != want {
				t.Errorf("%s: %s = %v, want %v", patch, name, err, want)
			}
		}
	}
}

func errorInfo(s *status.Status) *errdetails.ErrorInfo {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

func TestInvalidFieldsAreListed(t *testing.T) {
	e := start(t, nil)
	c := pb.NewA2AServiceClient(e.conn)
	negative := int32(-1)
	r := &pb.SendMessageRequest{Message: &pb.Message{}, Configuration: &pb.SendMessageConfiguration{HistoryLength: &negative}}
	_, err := c.SendMessage(t.Context(), r)
	var fields []string
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range bad.FieldViolations {
				fields = append(fields, v.Field)
			}
		}
	}
	want := []string{"message.messageId", "message.role", "message.parts", "configuration.historyLength"}
	if status.Code(err) != codes.InvalidArgument || !slices.Equal(fields, want) {
		t.Errorf("SendMessage = %v with fields %v, want %v", err, fields, want)
	}
	for name, test := range map[string]struct {
		r    *pb.SendMessageRequest
		want string
	}{
		"no message":     {&pb.SendMessageRequest{}, "message is required"},
		"empty part":     {&pb.SendMessageRequest{Message: &pb.Message{MessageId: "m", Role: 1, Parts: []*pb.Part{{}}}}, "message.parts[0] must have exactly one of"},
		"unknown role":   {&pb.SendMessageRequest{Message: &pb.Message{MessageId: "m", Role: 9, Parts: []*pb.Part{{Content: &pb.Part_Text{}}}}}, "message.role is 9"},
		"infinite":       {&pb.SendMessageRequest{Message: &pb.Message{MessageId: "m", Role: 1, Parts: []*pb.Part{{Content: &pb.Part_Data{Data: structpb.NewNumberValue(math.Inf(1))}}}}}, "message.parts[0].data must be a finite number"},
		"empty value":    {&pb.SendMessageRequest{Message: &pb.Message{MessageId: "m", Role: 1, Parts: []*pb.Part{{Content: &pb.Part_Data{Data: &structpb.Value{}}}}}}, "message.parts[0].data must be a value"},
		"client made id": {&pb.SendMessageRequest{Message: &pb.Message{MessageId: "m", Role: 1, TaskId: "3f0c5a34-6d24-4d2c-8d1c-0d6f5d1c2b3a", Parts: []*pb.Part{{Content: &pb.Part_Text{}}}}}, "not found"},
	} {
		if _, err := c.SendMessage(t.Context(), test.r); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// raw is a codec for messages that are bytes.
type raw struct{}

func (raw) Name() string                       { return "proto" }
func (raw) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = slices.Clone(data); return nil }

func TestHostileMessagesAreRejected(t *testing.T) {
	e := start(t, func(c *holdfast.Config) { c.Requests.MaxBodyBytes = 1 << 20 })
	nested := []byte{}
	for range 5000 { // a list in a list in a list ...
		nested = protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nested))
	}
	nested = protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), nested) // Part.data
	nested = protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), nested) // Message.parts
	nested = protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nested) // SendMessageRequest.message
	for name, test := range map[string]struct {
		body []byte
		want codes.Code
	}{
		"garbage":      {[]byte("\xff\xfe garbage"), codes.InvalidArgument},
		"no UTF-8":     {protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{0xff}), codes.InvalidArgument},
		"truncated":    {[]byte{0x12, 0xff, 0xff, 0xff, 0x7f}, codes.InvalidArgument},
		"empty":        {nil, codes.InvalidArgument},
		"deep":         {nested, codes.InvalidArgument},
		"larger":       {make([]byte, 1<<20+1), codes.ResourceExhausted},
		"zeros":        {make([]byte, 1<<10), codes.InvalidArgument},
		"empty fields": {slices.Repeat([]byte{0x12, 0x02, 0x2a, 0x00}, 1<<15), codes.InvalidArgument},
	} {
		for _, method := range []string{"/lf.a2a.v1.A2AService/SendMessage", "/a2a.v1.A2AService/SendMessage", "/lf.a2a.v1.A2AService/SendStreamingMessage"} {
			var out []byte
			stream, err := e.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, method, grpc.ForceCodec(raw{}))
			if err != nil {
				t.Fatal(err)
			}
			if err = stream.SendMsg(test.body); err == nil || errors.Is(err, io.EOF) {
				_ = stream.CloseSend()
				err = stream.RecvMsg(&out)
			}
			if status.Code(err) != test.want {
				t.Errorf("%s to %s: %v, want %v", name, method, err, test.want)
			}
		}
	}
	if _, err := pb.NewA2AServiceClient(e.conn).SendMessage(t.Context(), message("m", "still works")); err != nil {
		t.Errorf("SendMessage after hostile messages: %v", err)
	}
}

func TestMessagesNeedMemory(t *testing.T) {
	e := start(t, func(c *holdfast.Config) { c.Memory, c.Requests.MaxBodyBytes = 64<<20, 40<<20 })
	c := pb.NewA2AServiceClient(e.conn)
	_, err := c.SendMessage(t.Context(), message("m", strings.Repeat("x", 20<<20)))
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "one owner may hold") || errorInfo(s).GetReason() != "TOO_LARGE" {
		t.Errorf("message larger than the share of memory = %v, want that it is too large", err)
	}
	if _, err := c.SendMessage(t.Context(), message("m", strings.Repeat("x", 1<<20)), grpc.MaxCallRecvMsgSize(64<<20)); err != nil {
		t.Errorf("smaller message = %v", err)
	}
}

func TestUnknownMethodsAreUnimplemented(t *testing.T) {
	e := start(t, nil)
	for _, method := range []string{"/lf.a2a.v1.A2AService/DeleteTask", "/a2a.v1.A2AService/SubscribeToTask", "/other.Service/Method"} {
		if err := e.conn.Invoke(t.Context(), method, &pb.GetTaskRequest{}, &pb.Task{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want the code UNIMPLEMENTED", method, err)
		}
	}
}

func TestRepeatedRequestsHaveTheFirstResponse(t *testing.T) {
	e := start(t, nil)
	c := pb.NewA2AServiceClient(e.conn)
	request := func(words string) *pb.SendMessageRequest {
		r := message("m", words)
		var err error
		if r.Metadata, err = structpb.NewStruct(map[string]any{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first, err := c.SendMessage(with(t, "idempotency-key", "k"), request("hello"))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 { // the members of metadata have another order each time
		again, err := c.SendMessage(with(t, "idempotency-key", "k"), request("hello"))
		if err != nil || again.GetTask().GetId() != first.GetTask().GetId() {
			t.Fatalf("repeated SendMessage = %v, %v, want task %s", again.GetTask().GetId(), err, first.GetTask().GetId())
		}
	}
	if _, err := c.SendMessage(with(t, "idempotency-key", "k"), request("other")); err == nil {
		t.Error("SendMessage with the key of another request succeeded")
	}
}

func TestDisconnectedClientsDoNotCancelTheirTasks(t *testing.T) {
	e := start(t, nil)
	c := pb.NewA2AServiceClient(e.conn)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.SendStreamingMessage(ctx, message("m", "ask later"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	await.Success(t, func() error {
		task, err := c.GetTask(t.Context(), &pb.GetTaskRequest{Id: first.GetTask().GetId()})
		if err == nil && task.GetStatus().GetState() != pb.TaskState_TASK_STATE_INPUT_REQUIRED {
			err = errors.New(task.GetStatus().GetState().String())
		}
		return err
	})
}

func TestStreamsHaveTheIDOfTheirFirstEvent(t *testing.T) {
	e := start(t, nil)
	c := pb.NewA2AServiceClient(e.conn)
	task, err := c.SendMessage(t.Context(), message("m", "ask"))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.SubscribeToTask(t.Context(), &pb.SubscribeToTaskRequest{Id: task.GetTask().GetId()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	md, err := stream.Header()
	if err != nil || len(md.Get("last-event-id")) != 1 || md.Get("last-event-id")[0] == "0" {
		t.Errorf("metadata = %v, %v, want the id of the event", md, err)
	}
	for _, id := range []string{"x", "-1", "99999"} {
		stream, err := c.SubscribeToTask(with(t, "last-event-id", id), &pb.SubscribeToTaskRequest{Id: task.GetTask().GetId()})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("last-event-id %s: %v, want an invalid argument", id, err)
		}
	}
}

// byHeader is an authenticator by the header X-User.
type byHeader struct{}

func (byHeader) Authenticate(r *http.Request) (a2a.Principal, error) {
	users := r.Header.Values("X-User")
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	switch {
	case r.Header.Get("X-Panic") != "":
		panic("on request")
	case err != nil || host != "127.0.0.1" || r.Host == "" || r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "a2a.v1.A2AService/"):
		return a2a.Principal{}, fmt.Errorf("request %s %s %s from %s", r.Method, r.Host, r.URL, r.RemoteAddr)
	case len(users) == 0:
		return a2a.Principal{ID: "nobody"}, nil
	case users[0] == "":
		return a2a.Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "who are you?")
	case users[0] == "reader":
		return a2a.Principal{ID: "reader", Scopes: []a2a.Scope{a2a.ScopeRead}}, nil
	}
	return a2a.Principal{ID: users[0]}, nil
}

func (byHeader) Challenge(*http.Request) string { return "Header" }

func (byHeader) Security() (map[string]a2a.SecurityScheme, []map[string][]string) {
	return map[string]a2a.SecurityScheme{"user": a2a.APIKeySecurityScheme{Name: "X-User", In: a2a.InHeader}}, []map[string][]string{{"user": {}}}
}

func TestPanicsAreInternalErrorsAndLogged(t *testing.T) {
	var log await.Buffer
	e := start(t, func(c *holdfast.Config) {
		c.Security.Authenticator, c.Logger = byHeader{}, slog.New(slog.NewTextHandler(&log, nil))
	})
	c := pb.NewA2AServiceClient(e.conn)
	_, err := c.GetTask(with(t, "x-panic", "yes"), &pb.GetTaskRequest{Id: "x"})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "on request") {
		t.Errorf("GetTask = %v, want an internal error without its cause", err)
	}
	if text := log.String(); !strings.Contains(text, "request panicked") || !strings.Contains(text, "on request") {
		t.Errorf("log = %s, want the panic", text)
	}
	if _, err := c.GetTask(t.Context(), &pb.GetTaskRequest{Id: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("GetTask after the panic = %v, want not found", err)
	}
}

func TestAuthenticatorsGetTheRequest(t *testing.T) {
	e := start(t, func(c *holdfast.Config) { c.Security.Authenticator = byHeader{} })
	c := pb.NewA2AServiceClient(e.conn)
	var header, trailer metadata.MD
	_, err := c.GetTask(with(t, "x-user", ""), &pb.GetTaskRequest{Id: "x"}, grpc.Header(&header), grpc.Trailer(&trailer))
	if challenge := append(header.Get("www-authenticate"), trailer.Get("www-authenticate")...); status.Code(err) != codes.Unauthenticated || !slices.Equal(challenge, []string{"Header"}) {
		t.Errorf("GetTask without a user = %v with challenge %v, want unauthenticated", err, challenge)
	}
	reader := with(t, "x-user", "reader")
	if _, err := c.GetTask(reader, &pb.GetTaskRequest{Id: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("GetTask of a reader = %v, want not found", err)
	}
	if _, err := c.SendMessage(reader, message("m", "hello")); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "requires the scope") {
		t.Errorf("SendMessage of a reader = %v, want permission denied", err)
	}
	task, err := c.SendMessage(with(t, "x-user", "alice"), message("m", "hello"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetTask(with(t, "x-user", "bob"), &pb.GetTaskRequest{Id: task.GetTask().GetId()}); status.Code(err) != codes.NotFound {
		t.Errorf("GetTask of another owner = %v, want not found", err)
	}
}

// bodyAuth knows callers by the content of their messages.
type bodyAuth struct{ byHeader }

func (bodyAuth) AuthenticateBody(_ *http.Request, p a2a.Principal, body []byte) (a2a.Principal, error) {
	if !bytes.Contains(body, []byte("signed")) {
		return p, a2a.Errorf(a2a.CodeInvalidSignature, "not signed")
	}
	return a2a.Principal{ID: "signer"}, nil
}

func TestTheSecondStepOfAuthenticationSeesTheMessage(t *testing.T) {
	e := start(t, func(c *holdfast.Config) { c.Security.Authenticator = bodyAuth{} })
	c := pb.NewA2AServiceClient(e.conn)
	var header, trailer metadata.MD
	_, err := c.SendMessage(t.Context(), message("m", "hello"), grpc.Header(&header), grpc.Trailer(&trailer))
	if challenge := append(header.Get("www-authenticate"), trailer.Get("www-authenticate")...); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "not signed") || !slices.Equal(challenge, []string{"Header"}) {
		t.Errorf("SendMessage = %v with challenge %v, want unauthenticated", err, challenge)
	}
	stream, err := c.SendStreamingMessage(t.Context(), message("m", "hello"))
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("SendStreamingMessage = %v, want unauthenticated", err)
	}
	if _, err := c.SendMessage(t.Context(), message("m", "signed")); err != nil {
		t.Error(err)
	}
	if _, err := c.SendMessage(with(t, "holdfast-owner", "bob"), message("m", "signed")); status.Code(err) != codes.PermissionDenied {
		t.Errorf("SendMessage for another owner = %v, want permission denied", err)
	}
}

func TestExtendedCardsAreForCallersOfBothVersions(t *testing.T) {
	e := start(t, func(c *holdfast.Config) {
		c.Security.Authenticator = byHeader{}
		c.Security.ExtendedCard = func(_ context.Context, caller a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error) {
			card.Skills = append(card.Skills, a2a.AgentSkill{ID: "extra", Name: "for " + caller.ID, Description: "d", Tags: []string{"t"}, Security: []map[string][]string{{"user": {"a"}}}})
			return &card, nil
		}
		c.Card.AdditionalInterfaces = holdgrpc.Interfaces("agent.example.com:443")
	})
	ctx := with(t, "x-user", "alice")
	card, err := pb.NewA2AServiceClient(e.conn).GetExtendedAgentCard(ctx, &pb.GetExtendedAgentCardRequest{})
	if err != nil {
		t.Fatal(err)
	}
	skill := card.Skills[len(card.Skills)-1]
	found := slices.ContainsFunc(card.SupportedInterfaces, func(i *pb.AgentInterface) bool {
		return i.Url == "agent.example.com:443" && i.ProtocolBinding == "GRPC" && i.ProtocolVersion == "1.0"
	})
	if skill.Name != "for alice" || skill.SecurityRequirements[0].Schemes["user"].List[0] != "a" || card.SecuritySchemes["user"].GetApiKeySecurityScheme().GetName() != "X-User" || !found {
		t.Errorf("card of 1.0 = %v, want the skill, the scheme and the interface", card)
	}
	old, err := pb03.NewA2AServiceClient(e.conn).GetAgentCard(ctx, &pb03.GetAgentCardRequest{})
	if err != nil {
		t.Fatal(err)
	}
	last := old.Skills[len(old.Skills)-1]
	listed := slices.ContainsFunc(old.AdditionalInterfaces, func(i *pb03.AgentInterface) bool { return i.Url == "agent.example.com:443" && i.Transport == "GRPC" })
	if last.Name != "for alice" || last.Security[0].Schemes["user"].List[0] != "a" || old.SecuritySchemes["user"].GetApiKeySecurityScheme().GetName() != "X-User" || !listed ||
		!old.SupportsAuthenticatedExtendedCard || !strings.HasPrefix(old.ProtocolVersion, "0.3") || old.Url == "" {
		t.Errorf("card of 0.3 = %v, want the skill, the scheme and the interface", old)
	}
}

func TestRequiredExtensionsAreEnforced(t *testing.T) {
	e := start(t, func(c *holdfast.Config) {
		c.Card.Capabilities.Extensions = []a2a.AgentExtension{{URI: "https://example.com/ext", Required: true}}
	})
	c := pb.NewA2AServiceClient(e.conn)
	_, err := c.SendMessage(t.Context(), message("m", "hello"))
	if s := status.Convert(err); s.Code() != codes.FailedPrecondition || errorInfo(s).GetReason() != "EXTENSION_SUPPORT_REQUIRED" {
		t.Errorf("SendMessage without the extension = %v, want that it is required", err)
	}
	var header metadata.MD
	_, err = c.SendMessage(with(t, "a2a-extensions", "https://example.com/ext, https://example.com/other"), message("m", "hello"), grpc.Header(&header))
	if err != nil || !slices.Equal(header.Get("a2a-extensions"), []string{"https://example.com/ext"}) {
		t.Errorf("SendMessage = %v with extensions %v, want the active one", err, header.Get("a2a-extensions"))
	}
}

func TestStreamsAreLimitedTogetherWithHTTP(t *testing.T) {
	e := start(t, func(c *holdfast.Config) { c.Requests.MaxStreams = 1 })
	c := pb.NewA2AServiceClient(e.conn)
	first, err := c.SendStreamingMessage(t.Context(), message("m", "wait"))
	if err == nil {
		_, err = first.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.SendStreamingMessage(t.Context(), message("n", "wait"))
	if err == nil {
		_, err = second.Recv()
	}
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "too many open streams") {
		t.Errorf("second stream = %v, want that there are too many", err)
	}
	resp := e.post(`{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{"message":{"messageId":"o","role":"user","parts":[{"kind":"text","text":"wait"}]}}}`)
	defer resp.Body.Close()
	if resp.StatusCode != 429 {
		t.Errorf("stream over HTTP = %d, want 429", resp.StatusCode)
	}
}

func TestSlowReadersAreDisconnected(t *testing.T) {
	text := strings.Repeat("x", 4<<20)
	handler := func(_ context.Context, turn *engine.Turn) error {
		return turn.AddArtifact(a2a.Artifact{Name: "large", Parts: []a2a.Part{a2a.TextPart{Text: text}}})
	}
	s := newServer(t, engine.Config{Store: inmem.New(), Handler: handler}, func(c *server.Config) { c.Requests.WriteTimeout = 50 * time.Millisecond })
	c := pb.NewA2AServiceClient(overGRPC(t, s))
	stream, err := c.SendStreamingMessage(t.Context(), message("m", "hello"), grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	await.Success(t, func() error { // the stream is not read, but the task and other calls continue
		list, err := c.ListTasks(t.Context(), &pb.ListTasksRequest{})
		if err == nil && (len(list.Tasks) != 1 || list.Tasks[0].GetStatus().GetState() != pb.TaskState_TASK_STATE_COMPLETED) {
			err = errors.New("the task is not complete")
		}
		return err
	})
	await.True(t, "the stream has ended", func() bool {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/health", nil))
		return strings.Contains(w.Body.String(), `"streams":{"open":0,`)
	})
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("stream = %v, want unavailable", err)
	}
}

func TestStalledMessagesCloseTheConnection(t *testing.T) {
	handler := func(_ context.Context, turn *engine.Turn) error { return nil }
	s := newServer(t, engine.Config{Store: inmem.New(), Handler: handler}, func(c *server.Config) { c.Requests.ReadTimeout = 50 * time.Millisecond })
	conn := overGRPC(t, s)
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/lf.a2a.v1.A2AService/SendMessage")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(pb.SendMessageResponse)); status.Code(err) != codes.Unavailable {
		t.Errorf("call without a message = %v, want unavailable", err)
	}
	await.Success(t, func() error { // on a new connection; a busy machine may stall this message too
		_, err := pb.NewA2AServiceClient(conn).SendMessage(t.Context(), message("m", "hello"), grpc.WaitForReady(true))
		return err
	})
}

func TestHealthFollowsTheServer(t *testing.T) {
	e := start(t, nil)
	watch, err := healthpb.NewHealthClient(e.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "lf.a2a.v1.A2AService"})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := watch.Recv(); err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health = %v, %v, want serving", h, err)
	}
	e.agent.Server().Drain()
	if h, err := watch.Recv(); err != nil || h.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health of a stopping server = %v, %v, want not serving", h, err)
	}
}

func TestStreamsOfAStoppingServerAreNotComplete(t *testing.T) {
	e := start(t, nil)
	c := pb.NewA2AServiceClient(e.conn)
	waiting, err := c.SendStreamingMessage(t.Context(), message("m", "wait"))
	if err == nil {
		_, err = waiting.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	e.agent.Server().Drain()
	for err == nil {
		_, err = waiting.Recv()
	}
	if s := status.Convert(err); s.Code() != codes.Unavailable || !strings.Contains(s.Message(), "resume") {
		t.Errorf("stream of a running task = %v, want unavailable", err)
	}
}

func TestReflectionListsBothServices(t *testing.T) {
	e := start(t, nil)
	stream, err := reflectpb.NewServerReflectionClient(e.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, symbol := range []string{"lf.a2a.v1.A2AService", "a2a.v1.A2AService"} {
		request := &reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}}
		if err := stream.Send(request); err != nil {
			t.Fatal(err)
		}
		if got, err := stream.Recv(); err != nil || len(got.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("reflection of %s = %v, %v, want its file", symbol, got, err)
		}
	}
}

func TestFailedListenerEndsServe(t *testing.T) {
	e := start(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	s, err := holdgrpc.New(e.agent.Server(), holdgrpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln); err == nil || !strings.Contains(err.Error(), "serve gRPC") {
		t.Errorf("Serve on a closed listener = %v, want an error", err)
	}
}
