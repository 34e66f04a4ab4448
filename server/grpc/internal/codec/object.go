package codec

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// recursionLimit is the maximum nesting of messages. A level of a JSON value has up to three
// messages, and value checks the depth of the value.
const recursionLimit = 3*wire.MaxDepth + 32

// unmarshal decodes the params of a method. Unknown fields are kept for [object.later]. The error is an
// [a2a.Error].
func unmarshal(raw []byte, m proto.Message) error {
	err := proto.UnmarshalOptions{RecursionLimit: recursionLimit}.Unmarshal(raw, m)
	if err != nil {
		return a2a.Errorf(a2a.CodeParse, "the request is not a valid %s", m.ProtoReflect().Descriptor().FullName())
	}
	return nil
}

// object is a message with fields that are read by name. A field that the message lacks is absent.
type object struct{ protoreflect.Message }

func (o object) field(name protoreflect.Name) protoreflect.FieldDescriptor {
	return o.Descriptor().Fields().ByName(name)
}

// has reports whether a field is set: a number or a text without presence, unless it is zero.
func (o object) has(name protoreflect.Name) bool {
	f := o.field(name)
	return f != nil && o.Has(f)
}

func (o object) text(name protoreflect.Name) string {
	if f := o.field(name); f != nil {
		return o.Get(f).String()
	}
	return ""
}

func (o object) texts(name protoreflect.Name) (all []string) {
	if !o.has(name) {
		return nil
	}
	list := o.Get(o.field(name)).List()
	for i := range list.Len() {
		all = append(all, list.Get(i).String())
	}
	return all
}

func (o object) flag(name protoreflect.Name) bool { return o.has(name) && o.Get(o.field(name)).Bool() }

// int returns a number, nil if it is absent.
func (o object) int(name protoreflect.Name) *int {
	if !o.has(name) {
		return nil
	}
	n := int(o.Get(o.field(name)).Int())
	return &n
}

// nonZero returns a number, nil if it is absent or 0.
func (o object) nonZero(name protoreflect.Name) *int {
	if n := o.int(name); n != nil && *n != 0 {
		return n
	}
	return nil
}

func (o object) enum(name protoreflect.Name) int { return int(o.Get(o.field(name)).Enum()) }

// object returns a message, which is empty if it is absent.
func (o object) object(name protoreflect.Name) object {
	return object{o.Get(o.field(name)).Message()}
}

// content returns the field that is set of the first group of alternatives, nil if none is.
func (o object) content() protoreflect.FieldDescriptor {
	return o.WhichOneof(o.Descriptor().Oneofs().Get(0))
}

// members returns a JSON object, nil if it is absent or empty. Errors start with the field's name.
func (o object) members(name protoreflect.Name) (map[string]any, error) {
	if !o.has(name) {
		return nil, nil
	}
	m, err := members(o.object(name).Interface().(*structpb.Struct), 1)
	return m, at(string(name), err)
}

// later returns the value of a field that a later version of A2A adds to the message, nil if it is absent.
func (o object) later(number protowire.Number) (value *int64) {
	raw := o.GetUnknown() // it is valid
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
