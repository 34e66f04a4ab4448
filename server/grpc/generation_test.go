package grpc_test

import (
	"errors"
	"io"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// laterField returns the value of a field that the messages of A2A 1.0 lack, 0 if it is absent.
func laterField(t *testing.T, m proto.Message, number protowire.Number) uint64 {
	t.Helper()
	raw := m.ProtoReflect().GetUnknown()
	if len(raw) == 0 {
		return 0
	}
	n, kind, size := protowire.ConsumeTag(raw)
	if n != number || kind != protowire.VarintType {
		t.Fatalf("%T has the unknown field %d, want %d", m, n, number)
	}
	value, _ := protowire.ConsumeVarint(raw[size:])
	return value
}

// setLater sets a field that the messages of A2A 1.0 lack.
func setLater(m proto.Message, number protowire.Number, value uint64) {
	m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value))
}

func TestGenerationsOverGRPC(t *testing.T) {
	e := start(t, nil)
	c := pb.NewA2AServiceClient(e.conn)
	v11 := metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "1.1")
	user := func(text, task string) *pb.Message {
		return &pb.Message{MessageId: text + task, TaskId: task, Role: pb.Role_ROLE_USER, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: text}}}}
	}
	stream, err := c.SendStreamingMessage(v11, &pb.SendMessageRequest{Message: user("chunks", "")})
	if err != nil {
		t.Fatal(err)
	}
	generation, id := uint64(0), ""
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		generation++
		var got uint64
		switch {
		case item.GetTask() != nil:
			id, got = item.GetTask().GetId(), laterField(t, item.GetTask(), 7)
		case item.GetStatusUpdate() != nil:
			got = laterField(t, item.GetStatusUpdate(), 5)
		default:
			got = laterField(t, item.GetArtifactUpdate(), 7)
		}
		if got != generation {
			t.Errorf("item %d has the generation %d", generation, got)
		}
	}
	if task, err := c.GetTask(v11, &pb.GetTaskRequest{Id: id}); err != nil || laterField(t, task, 7) != generation || generation < 4 {
		t.Errorf("GetTask = %v, %v, want the generation %d", task, err, generation)
	}
	if task, err := c.GetTask(t.Context(), &pb.GetTaskRequest{Id: id}); err != nil || len(task.ProtoReflect().GetUnknown()) > 0 {
		t.Errorf("GetTask of A2A 1.0 = %v, %v, want no generation", task, err)
	}

	asked, err := c.SendMessage(v11, &pb.SendMessageRequest{Message: user("ask", "")})
	if err != nil {
		t.Fatal(err)
	}
	id, generation = asked.GetTask().GetId(), laterField(t, asked.GetTask(), 7)
	stale := &pb.SendMessageRequest{Message: user("b", id), Configuration: new(pb.SendMessageConfiguration)}
	setLater(stale.Configuration, 5, generation-1)
	_, err = c.SendMessage(v11, stale)
	s := status.Convert(err)
	var info *errdetails.ErrorInfo
	for _, detail := range s.Details() {
		if d, ok := detail.(*errdetails.ErrorInfo); ok {
			info = d
		}
	}
	if s.Code() != codes.Aborted || info.GetReason() != "TASK_GENERATION_MISMATCH" || info.GetMetadata()["taskId"] != id {
		t.Errorf("SendMessage for an earlier generation = %v %v, want ABORTED", err, info)
	}
	wait := &pb.GetTaskRequest{Id: id}
	setLater(wait, 4, generation)
	later := make(chan *pb.Task, 1)
	go func() {
		task, _ := c.GetTask(v11, wait)
		later <- task
	}()
	current := &pb.SendMessageRequest{Message: user("c", id), Configuration: new(pb.SendMessageConfiguration)}
	setLater(current.Configuration, 5, generation)
	if _, err := c.SendMessage(v11, current); err != nil {
		t.Errorf("SendMessage for the current generation = %v", err)
	}
	if task := <-later; laterField(t, task, 7) <= generation {
		t.Errorf("GetTask returned %v, want a later generation than %d", task, generation)
	}
}
