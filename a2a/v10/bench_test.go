package v10_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

func benchMessage(id string, role a2a.Role) a2a.Message {
	return a2a.Message{
		ID: id, ContextID: "8f7b2c1e-5c53-4d5b-9a51-0d6f5d1c2b3a", TaskID: "01a202d1-0000-7000-8000-000000000000", Role: role,
		Parts: []a2a.Part{a2a.TextPart{Text: "The quick brown fox jumps over the lazy dog, again and again."}, a2a.DataPart{Data: map[string]any{"a": 1.0, "b": []any{true, "x"}}}},
	}
}

// BenchmarkVersions compares the two versions.
func BenchmarkVersions(b *testing.B) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 120e6, time.UTC)
	message := benchMessage("m", a2a.RoleUser)
	task := &a2a.Task{
		ID: message.TaskID, ContextID: message.ContextID, Status: a2a.TaskStatus{State: a2a.StateCompleted, Message: &message, Timestamp: at},
		History:   []a2a.Message{message, benchMessage("m2", a2a.RoleAgent), benchMessage("m3", a2a.RoleUser)},
		Artifacts: []a2a.Artifact{{ID: "a", Name: "result", Parts: message.Parts}}, Metadata: map[string]any{"k": "v"},
	}
	send := a2a.MessageSendParams{Message: message, Configuration: &a2a.MessageSendConfiguration{Blocking: true}}
	get, _ := a2a.MethodByName(a2a.MethodGet)
	type codec interface {
		AppendResult(dst []byte, m *a2a.Method, result any) ([]byte, error)
		DecodeResult(raw []byte, v any) error
		EncodeParams(params any) ([]byte, error)
		DecodeParams(raw []byte, v any) error
	}
	codecs := []struct {
		version string
		codec   codec
	}{{"v03", v03.Codec{}}, {"v10", v10.Codec{}}}
	for _, value := range []struct {
		name   string
		result any
		empty  func() any
	}{
		{"Task", task, func() any { return new(a2a.Task) }},
		{"Message", &message, func() any { return new(a2a.Message) }},
	} {
		for _, c := range codecs {
			b.Run(value.name+"/encode/"+c.version, func(b *testing.B) {
				b.ReportAllocs()
				buf := make([]byte, 0, 8192)
				for b.Loop() {
					if _, err := c.codec.AppendResult(buf, &get, value.result); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		for _, c := range codecs {
			raw, err := c.codec.AppendResult(nil, &get, value.result)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(value.name+"/decode/"+c.version, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := c.codec.DecodeResult(raw, value.empty()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	for _, c := range codecs {
		raw, err := c.codec.EncodeParams(send)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("SendMessage/encode/"+c.version, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.codec.EncodeParams(send); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("SendMessage/decode/"+c.version, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.codec.DecodeParams(raw, new(a2a.MessageSendParams)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
