package v10

import (
	"fmt"
	"slices"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/message"
)

func toMessage(m *pb.Message) (out a2a.Message, err error) {
	if m.GetRole() < 0 || int(m.GetRole()) >= len(roles) {
		return out, &wire.Error{Path: "role", Rule: fmt.Sprintf("is %d, which is not a Role", m.GetRole())}
	}
	out = a2a.Message{
		ID: m.GetMessageId(), ContextID: m.GetContextId(), TaskID: m.GetTaskId(), Role: roles[m.GetRole()],
		Extensions: m.GetExtensions(), ReferenceTaskIDs: m.GetReferenceTaskIds(),
	}
	if out.Metadata, err = message.Map(m.GetMetadata()); err != nil {
		return out, message.At("metadata", err)
	}
	jsonv10.DecodeRole(&out.Role, &out.Metadata)
	out.Parts, err = message.List("parts", len(m.GetParts()), func(i int) (a2a.Part, error) { return toPart(m.GetParts()[i]) })
	return out, err
}

func toPart(p *pb.Part) (a2a.Part, error) {
	metadata, err := message.Map(p.GetMetadata())
	if err != nil {
		return nil, message.At("metadata", err)
	}
	name, mediaType := p.GetFilename(), p.GetMediaType()
	switch c := p.GetContent().(type) {
	case *pb.Part_Text:
		return a2a.TextPart{Text: c.Text, Metadata: metadata, Filename: name, MediaType: mediaType}, nil
	case *pb.Part_Raw:
		return a2a.FilePart{File: a2a.FileWithBytes{Name: name, MimeType: mediaType, Bytes: c.Raw}, Metadata: metadata}, nil
	case *pb.Part_Url:
		return a2a.FilePart{File: a2a.FileWithURI{Name: name, MimeType: mediaType, URI: c.Url}, Metadata: metadata}, nil
	case *pb.Part_Data:
		data, err := message.Value(c.Data)
		return a2a.DataPart{Data: data, Metadata: metadata, Filename: name, MediaType: mediaType}, message.At("data", err)
	}
	return nil, &wire.Error{Rule: "must have exactly one of text, raw, url, data"}
}

func fromMessage(m *a2a.Message) (*pb.Message, error) {
	if m == nil {
		return nil, nil
	}
	role, metadata := m.Role, m.Metadata
	jsonv10.EncodeRole(&role, &metadata)
	out := &pb.Message{
		MessageId: m.ID, ContextId: m.ContextID, TaskId: m.TaskID, Role: pb.Role(max(0, slices.Index(roles, role))),
		Extensions: m.Extensions, ReferenceTaskIds: m.ReferenceTaskIDs,
	}
	var err error
	if out.Metadata, err = message.FromMap(metadata); err != nil {
		return nil, err
	}
	out.Parts, err = fromParts(m.Parts)
	return out, err
}

func fromParts(parts []a2a.Part) ([]*pb.Part, error) {
	return message.List("parts", len(parts), func(i int) (*pb.Part, error) { return fromPart(parts[i]) })
}

func fromPart(p a2a.Part) (out *pb.Part, err error) {
	out = new(pb.Part)
	var metadata map[string]any
	switch p := p.(type) {
	case a2a.TextPart:
		metadata = p.Metadata
		out.Content, out.Filename, out.MediaType = &pb.Part_Text{Text: p.Text}, p.Filename, p.MediaType
	case a2a.DataPart:
		metadata = p.Metadata
		data, err := message.FromValue(p.Data)
		if err != nil {
			return nil, err
		}
		out.Content, out.Filename, out.MediaType = &pb.Part_Data{Data: data}, p.Filename, p.MediaType
	case a2a.FilePart:
		metadata = p.Metadata
		switch f := p.File.(type) {
		case a2a.FileWithBytes:
			out.Content, out.Filename, out.MediaType = &pb.Part_Raw{Raw: f.Bytes}, f.Name, f.MimeType
		case a2a.FileWithURI:
			out.Content, out.Filename, out.MediaType = &pb.Part_Url{Url: f.URI}, f.Name, f.MimeType
		}
	}
	out.Metadata, err = message.FromMap(metadata)
	return out, err
}
