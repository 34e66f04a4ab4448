package message

import (
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// recursionLimit is the maximum nesting of messages. A level of a JSON value has up to three, and
// [Value] checks its depth.
const recursionLimit = 3*wire.MaxDepth + 32

// Unmarshal decodes the params of a method. Unknown fields are kept for [LaterInt64]. The error is
// an [a2a.Error].
func Unmarshal(raw []byte, m proto.Message) error {
	err := proto.UnmarshalOptions{RecursionLimit: recursionLimit}.Unmarshal(raw, m)
	if err != nil {
		return a2a.Errorf(a2a.CodeParse, "the request is not a valid %s", m.ProtoReflect().Descriptor().FullName())
	}
	return nil
}

// Decode decodes the params of a method and converts them from a message.
func Decode[M any, PM interface {
	*M
	proto.Message
}, P any](raw []byte, p *P, convert func(PM, *P) error,
) error {
	m := PM(new(M))
	if err := Unmarshal(raw, m); err != nil {
		return err
	}
	return convert(m, p)
}

// List converts the n items of a list, nil if it is empty. Errors have the name of the list and the
// index of the item.
func List[T any](name string, n int, convert func(i int) (T, error)) ([]T, error) {
	if n == 0 {
		return nil, nil
	}
	out := make([]T, n)
	for i := range out {
		var err error
		if out[i], err = convert(i); err != nil {
			return nil, AtIndex(name, i, err)
		}
	}
	return out, nil
}

// Append appends the encoding of m to dst. U+FFFD replaces what is not UTF-8, as in JSON. On error
// it returns dst unchanged.
func Append(dst []byte, m proto.Message) ([]byte, error) {
	out, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
	if err != nil {
		m = proto.Clone(m) // it shares lists with the model
		repair(m.ProtoReflect())
		out, err = proto.MarshalOptions{}.MarshalAppend(dst, m)
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

// LaterInt64 returns the value of a field that a later version of A2A adds to m, nil if it is absent.
func LaterInt64(m proto.Message, number protowire.Number) (value *int64) {
	raw := m.ProtoReflect().GetUnknown() // it is valid
	for len(raw) > 0 {
		n, kind, size := protowire.ConsumeTag(raw)
		raw = raw[size:]
		if n == number && kind == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(raw)
			value = new(int64(v))
		}
		raw = raw[protowire.ConsumeFieldValue(n, kind, raw):]
	}
	return value
}

// SetLaterInt64 sets a field that a later version of A2A adds to m, unless the value is 0.
func SetLaterInt64(m proto.Message, number protowire.Number, value int64) {
	if value == 0 {
		return
	}
	raw := protowire.AppendTag(m.ProtoReflect().GetUnknown(), number, protowire.VarintType)
	m.ProtoReflect().SetUnknown(protowire.AppendVarint(raw, uint64(value))) //nolint:gosec // two's complement, as in Protocol Buffers
}

// Canonical returns an encoding of the request of a method, by its full name such as
// /service/Method, that does not depend on the order in which the client encoded it.
func Canonical(method string, raw []byte) []byte {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return raw
	}
	m := dynamicpb.NewMessage(found.(protoreflect.MethodDescriptor).Input())
	if Unmarshal(raw, m) != nil {
		return raw
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return raw
	}
	return out
}

// repair replaces what is not UTF-8 in the strings of m.
func repair(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap():
			repairMap(field, v.Map())
		case field.IsList():
			list := v.List()
			for i := range list.Len() {
				if fixed := repairValue(field, list.Get(i)); fixed.IsValid() {
					list.Set(i, fixed)
				}
			}
		default:
			if fixed := repairValue(field, v); fixed.IsValid() {
				m.Set(field, fixed)
			}
		}
		return true
	})
}

func repairMap(field protoreflect.FieldDescriptor, m protoreflect.Map) {
	m.Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
		if fixed := repairValue(field.MapValue(), v); fixed.IsValid() {
			v = fixed
			m.Set(key, v)
		}
		if name := key.String(); field.MapKey().Kind() == protoreflect.StringKind && !utf8.ValidString(name) {
			m.Clear(key)
			m.Set(protoreflect.ValueOfString(strings.ToValidUTF8(name, "\uFFFD")).MapKey(), v)
		}
		return true
	})
}

// repairValue repairs a message in place. For a string it returns the repaired string if that
// differs, otherwise an invalid value.
func repairValue(field protoreflect.FieldDescriptor, v protoreflect.Value) (fixed protoreflect.Value) {
	switch field.Kind() { //nolint:exhaustive // others have no text
	case protoreflect.MessageKind, protoreflect.GroupKind:
		repair(v.Message())
	case protoreflect.StringKind:
		if text := v.String(); !utf8.ValidString(text) {
			return protoreflect.ValueOfString(strings.ToValidUTF8(text, "\uFFFD"))
		}
	}
	return fixed
}

// Time returns a time in UTC, the zero time for nil.
func Time(t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if t.CheckValid() != nil {
		return time.Time{}, &wire.Error{Rule: "must be a time from year 1 to 9999"}
	}
	return t.AsTime(), nil
}

// FromTime returns a time with milliseconds, as A2A requires, and nil for the zero time.
func FromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t.Truncate(time.Millisecond))
}

// Int returns the value of an optional field.
func Int(n *int32) *int {
	if n == nil {
		return nil
	}
	v := int(*n)
	return &v
}

// NonZero returns n, nil for 0.
func NonZero(n int32) *int {
	if n == 0 {
		return nil
	}
	return Int(&n)
}

// AppendTask appends an encoded task as an item of the field tasks, which has the number 1 in the
// lists of both versions, to dst.
func AppendTask(dst, task []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, 1, protowire.BytesType), task)
}
