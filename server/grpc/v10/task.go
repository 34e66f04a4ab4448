package v10

import (
	"slices"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/message"
)

func fromEvent(e a2a.Event) (out *pb.StreamResponse, err error) {
	out = new(pb.StreamResponse)
	switch e := e.(type) {
	case *a2a.Task:
		payload := new(pb.StreamResponse_Task)
		payload.Task, err = fromTask(e)
		out.Payload = payload
	case *a2a.Message:
		payload := new(pb.StreamResponse_Message)
		payload.Message, err = fromMessage(e)
		out.Payload = payload
	case *a2a.TaskStatusUpdateEvent:
		payload := new(pb.StreamResponse_StatusUpdate)
		payload.StatusUpdate, err = fromStatusUpdate(e)
		out.Payload = payload
	case *a2a.TaskArtifactUpdateEvent:
		payload := new(pb.StreamResponse_ArtifactUpdate)
		payload.ArtifactUpdate, err = fromArtifactUpdate(e)
		out.Payload = payload
	}
	return out, err
}

func fromTask(t *a2a.Task) (*pb.Task, error) {
	out := &pb.Task{Id: t.ID, ContextId: t.ContextID}
	status, metadata := t.Status, t.Metadata
	jsonv10.EncodeState(&status.State, &metadata)
	var err error
	if out.Metadata, err = message.FromMap(metadata); err != nil {
		return nil, err
	}
	if out.Status, err = fromStatus(&status); err != nil {
		return nil, err
	}
	out.History, err = message.List("history", len(t.History), func(i int) (*pb.Message, error) { return fromMessage(&t.History[i]) })
	if err != nil {
		return nil, err
	}
	message.SetLaterInt64(out, taskGeneration, t.Generation)
	out.Artifacts, err = message.List("artifacts", len(t.Artifacts), func(i int) (*pb.Artifact, error) { return fromArtifact(&t.Artifacts[i]) })
	return out, err
}

// fromStatus converts a status with a state that A2A 1.0 has.
func fromStatus(s *a2a.TaskStatus) (out *pb.TaskStatus, err error) {
	out = &pb.TaskStatus{State: pb.TaskState(max(0, slices.Index(states, s.State))), Timestamp: message.FromTime(s.Timestamp)}
	out.Message, err = fromMessage(s.Message)
	return out, message.At("status", err)
}

func fromArtifact(a *a2a.Artifact) (*pb.Artifact, error) {
	out := &pb.Artifact{ArtifactId: a.ID, Name: a.Name, Description: a.Description, Extensions: a.Extensions}
	parts, metadata := a.Parts, a.Metadata
	jsonv10.EncodeParts(&parts, &metadata)
	var err error
	if out.Metadata, err = message.FromMap(metadata); err != nil {
		return nil, err
	}
	out.Parts, err = fromParts(parts)
	return out, err
}

func fromStatusUpdate(e *a2a.TaskStatusUpdateEvent) (*pb.TaskStatusUpdateEvent, error) {
	out := &pb.TaskStatusUpdateEvent{TaskId: e.TaskID, ContextId: e.ContextID}
	message.SetLaterInt64(out, statusGeneration, e.Generation)
	status, metadata := e.Status, e.Metadata
	jsonv10.EncodeState(&status.State, &metadata)
	var err error
	if out.Metadata, err = message.FromMap(metadata); err != nil {
		return nil, err
	}
	out.Status, err = fromStatus(&status)
	return out, err
}

func fromArtifactUpdate(e *a2a.TaskArtifactUpdateEvent) (*pb.TaskArtifactUpdateEvent, error) {
	out := &pb.TaskArtifactUpdateEvent{TaskId: e.TaskID, ContextId: e.ContextID, Append: e.Append, LastChunk: e.LastChunk}
	message.SetLaterInt64(out, artifactGeneration, e.Generation)
	var err error
	if out.Metadata, err = message.FromMap(e.Metadata); err != nil {
		return nil, err
	}
	out.Artifact, err = fromArtifact(&e.Artifact)
	return out, err
}
