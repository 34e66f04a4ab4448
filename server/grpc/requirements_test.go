package grpc_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	holdgrpc "github.com/holdfast-dev/holdfast/server/grpc"
)

// The requirements of the kit for A2A 1.0 that concern only gRPC, by their names there.
func TestRequirementsOfGRPC(t *testing.T) {
	for id, test := range map[string]func(*testing.T, *env){
		"GRPC-SVC-001":  servesEveryMethod,
		"GRPC-SVC-002":  usesProtocolBuffers,
		"GRPC-SVC-003":  servesTLS,
		"GRPC-META-001": readsMetadata,
		"GRPC-ERR-001":  hasErrorInfo,
		"GRPC-ERR-002":  hasErrorCodes,
		"GRPC-ERR-003":  streamsResponses,
	} {
		t.Run(id, func(t *testing.T) {
			test(t, start(t, func(c *holdfast.Config) {
				c.Card.Capabilities.Extensions = []a2a.AgentExtension{{URI: "https://example.com/ext"}}
			}))
		})
	}
}

// service is the definition of the service.
func service() protoreflect.ServiceDescriptor {
	return pb.File_a2av1_proto.Services().ByName("A2AService")
}

func servesEveryMethod(t *testing.T, e *env) {
	if n := service().Methods().Len(); n != 11 {
		t.Fatalf("the service has %d methods, want 11", n)
	}
	for i := range service().Methods().Len() {
		m := service().Methods().Get(i)
		name := "/" + string(service().FullName()) + "/" + string(m.Name())
		var err error
		if in, out := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output()); m.IsStreamingServer() {
			var stream grpc.ClientStream
			if stream, err = e.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, name); err == nil {
				err = errors.Join(stream.SendMsg(in), stream.CloseSend(), stream.RecvMsg(out))
			}
		} else {
			err = e.conn.Invoke(t.Context(), name, in, out)
		}
		if status.Code(err) == codes.Unimplemented {
			t.Errorf("%s = %v, want that it is implemented", name, err)
		}
	}
}

func usesProtocolBuffers(t *testing.T, e *env) {
	if syntax := service().ParentFile().Syntax(); syntax != protoreflect.Proto3 {
		t.Errorf("syntax = %v, want proto3", syntax)
	}
	var header metadata.MD
	task, err := pb.NewA2AServiceClient(e.conn).SendMessage(t.Context(), message("m", "hello"), grpc.Header(&header))
	if err != nil || len(task.ProtoReflect().GetUnknown()) > 0 || len(task.GetTask().ProtoReflect().GetUnknown()) > 0 {
		t.Errorf("SendMessage() = %v, %v, want only fields that the definition has", task, err)
	}
	if kind := header.Get("content-type"); !slices.Equal(kind, []string{"application/grpc"}) {
		t.Errorf("content-type = %v, want application/grpc", kind)
	}
}

func servesTLS(t *testing.T, e *env) {
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	s, err := holdgrpc.New(e.agent.Server(), holdgrpc.Config{TLS: &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }() // until the agent stops
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	encrypted := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12})
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(encrypted))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := pb.NewA2AServiceClient(conn).SendMessage(t.Context(), message("m", "hello")); err != nil {
		t.Errorf("SendMessage() over TLS = %v", err)
	}
}

func readsMetadata(t *testing.T, e *env) {
	c := pb.NewA2AServiceClient(e.conn)
	_, err := c.SendMessage(with(t, "a2a-version", "99.0"), message("m", "hello"))
	if got := errorInfo(status.Convert(err)).GetReason(); got != "VERSION_NOT_SUPPORTED" {
		t.Errorf("a2a-version 99.0 = %v, want VERSION_NOT_SUPPORTED", err)
	}
	var header metadata.MD
	_, err = c.SendMessage(with(t, "a2a-version", "1.0", "a2a-extensions", "https://example.com/ext"), message("m", "hello"), grpc.Header(&header))
	if got := header.Get("a2a-extensions"); err != nil || !slices.Equal(got, []string{"https://example.com/ext"}) {
		t.Errorf("SendMessage() with an extension = %v with %v, want it to be active", err, header)
	}
}

func hasErrorInfo(t *testing.T, e *env) {
	_, err := pb.NewA2AServiceClient(e.conn).GetTask(t.Context(), &pb.GetTaskRequest{Id: "absent"})
	if info := errorInfo(status.Convert(err)); info.GetReason() != "TASK_NOT_FOUND" || info.GetDomain() != a2a.ErrorDomain {
		t.Errorf("details of %v = %v, want ErrorInfo", err, info)
	}
}

func hasErrorCodes(t *testing.T, e *env) {
	c := pb.NewA2AServiceClient(e.conn)
	done, err := c.SendMessage(t.Context(), message("m", "hello"))
	if err != nil {
		t.Fatal(err)
	}
	again := message("n", "hello")
	again.Message.TaskId = done.GetTask().GetId()
	for _, tt := range []struct {
		name, reason string
		call         func() error
		want         codes.Code
	}{
		{"unknown task", "TASK_NOT_FOUND", func() error { _, err := c.GetTask(t.Context(), &pb.GetTaskRequest{Id: "absent"}); return err }, codes.NotFound},
		{"cancel of a finished task", "TASK_NOT_CANCELABLE", func() error {
			_, err := c.CancelTask(t.Context(), &pb.CancelTaskRequest{Id: done.GetTask().GetId()})
			return err
		}, codes.FailedPrecondition},
		{"message to a finished task", "UNSUPPORTED_OPERATION", func() error { _, err := c.SendMessage(t.Context(), again); return err }, codes.FailedPrecondition},
		{"other version", "VERSION_NOT_SUPPORTED", func() error {
			_, err := c.GetTask(with(t, "a2a-version", "99.0"), &pb.GetTaskRequest{Id: "absent"})
			return err
		}, codes.FailedPrecondition},
		{"invalid request", "INVALID_PARAMS", func() error { _, err := c.SendMessage(t.Context(), &pb.SendMessageRequest{}); return err }, codes.InvalidArgument},
	} {
		if s := status.Convert(tt.call()); s.Code() != tt.want || errorInfo(s).GetReason() != tt.reason {
			t.Errorf("%s = %v, want %v %s", tt.name, s, tt.want, tt.reason)
		}
	}
}

func streamsResponses(t *testing.T, e *env) {
	stream, err := pb.NewA2AServiceClient(e.conn).SendStreamingMessage(t.Context(), message("m", "chunks"))
	if err != nil {
		t.Fatal(err)
	}
	var items []proto.Message
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(items) == 0 && item.GetTask() == nil || item.GetPayload() == nil {
			t.Errorf("item %d = %v, want a task first, then other items", len(items), item)
		}
		items = append(items, item)
	}
	if len(items) < 4 {
		t.Errorf("items = %v, want a task, its artifact and its status", items)
	}
}
