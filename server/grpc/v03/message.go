package v03

import (
	"fmt"
	"slices"

	pb "github.com/a2aproject/a2a-go/a2apb"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv03 "github.com/holdfast-dev/holdfast/a2a/v03"
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
	switch c := p.GetPart().(type) {
	case *pb.Part_Text:
		return a2a.TextPart{Text: c.Text, Metadata: metadata}, nil
	case *pb.Part_File:
		file, err := toFile(c.File)
		return a2a.FilePart{File: file, Metadata: metadata}, message.At("file", err)
	case *pb.Part_Data:
		data, err := message.Map(c.Data.GetData())
		if err != nil {
			return nil, message.At("data", err)
		}
		if data == nil {
			data = map[string]any{}
		}
		part := a2a.DataPart{Data: data, Metadata: metadata}
		jsonv03.UnwrapData(&part)
		return part, nil
	}
	return nil, &wire.Error{Rule: "must have exactly one of text, file, data"}
}

func toFile(f *pb.FilePart) (a2a.File, error) {
	switch c := f.GetFile().(type) {
	case *pb.FilePart_FileWithBytes:
		return a2a.FileWithBytes{Name: f.GetName(), MimeType: f.GetMimeType(), Bytes: c.FileWithBytes}, nil
	case *pb.FilePart_FileWithUri:
		return a2a.FileWithURI{Name: f.GetName(), MimeType: f.GetMimeType(), URI: c.FileWithUri}, nil
	}
	return nil, &wire.Error{Rule: "must have exactly one of file_with_bytes, file_with_uri"}
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
		out.Part = &pb.Part_Text{Text: p.Text}
	case a2a.DataPart:
		jsonv03.WrapData(&p)
		metadata = p.Metadata
		data, err := message.FromValue(p.Data)
		if err != nil {
			return nil, err
		}
		out.Part = &pb.Part_Data{Data: &pb.DataPart{Data: data.GetStructValue()}}
	case a2a.FilePart:
		metadata = p.Metadata
		file := new(pb.FilePart)
		file.Name, file.MimeType = p.File.Info()
		switch f := p.File.(type) {
		case a2a.FileWithBytes:
			file.File = &pb.FilePart_FileWithBytes{FileWithBytes: f.Bytes}
		case a2a.FileWithURI:
			file.File = &pb.FilePart_FileWithUri{FileWithUri: f.URI}
		}
		out.Part = &pb.Part_File{File: file}
	}
	out.Metadata, err = message.FromMap(metadata)
	return out, err
}
