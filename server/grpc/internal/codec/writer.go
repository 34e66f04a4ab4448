package codec

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// writer appends the encoding of a message to a buffer. Fields that the message lacks are ignored. Setting a zero value
// appends nothing. U+FFFD replaces what is not UTF-8, as in JSON.
type writer struct {
	protoreflect.MessageDescriptor
	out *[]byte
}

// write returns dst with a message that do writes. On error it returns dst unchanged.
func (v *version) write(dst []byte, message protoreflect.Name, do func(w writer) error) ([]byte, error) {
	out := dst
	if err := do(writer{v.types[message].Descriptor(), &out}); err != nil {
		return dst, err
	}
	return out, nil
}

// tag appends the tag of a field, and reports whether the message has the field.
func (w writer) tag(name protoreflect.Name, kind protowire.Type) bool {
	f := w.Fields().ByName(name)
	if f != nil {
		*w.out = protowire.AppendTag(*w.out, f.Number(), kind)
	}
	return f != nil
}

// putText sets a text, also to "".
func (w writer) putText(name protoreflect.Name, text string) {
	if w.tag(name, protowire.BytesType) {
		*w.out = protowire.AppendString(*w.out, validText(text))
	}
}

// validText returns text with U+FFFD in place of what is not UTF-8.
func validText(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func (w writer) text(name protoreflect.Name, text string) {
	if text != "" {
		w.putText(name, text)
	}
}

func (w writer) texts(name protoreflect.Name, all []string) {
	for _, text := range all {
		w.putText(name, text)
	}
}

// putBytes sets a field to bytes, also to none.
func (w writer) putBytes(name protoreflect.Name, b []byte) {
	if w.tag(name, protowire.BytesType) {
		*w.out = protowire.AppendBytes(*w.out, b)
	}
}

// int sets a number, a flag or an enum.
func (w writer) int(name protoreflect.Name, n int) {
	if n != 0 && w.tag(name, protowire.VarintType) {
		*w.out = protowire.AppendVarint(*w.out, uint64(n)) // two's complement, as in Protocol Buffers
	}
}

func (w writer) flag(name protoreflect.Name, flag bool) {
	if flag {
		w.int(name, 1)
	}
}

// later sets a field that a later version of A2A adds to the message.
func (w writer) later(number protowire.Number, n int64) {
	if n != 0 {
		*w.out = protowire.AppendVarint(protowire.AppendTag(*w.out, number, protowire.VarintType), uint64(n)) // two's complement, as in Protocol Buffers
	}
}

// message appends a message that do writes, as the value of a field or as an item of a list.
func (w writer) message(name protoreflect.Name, do func(w writer) error) error {
	if !w.tag(name, protowire.BytesType) {
		return nil
	}
	*w.out = append(*w.out, 0) // most lengths have one byte
	start := len(*w.out)
	if err := do(writer{w.Fields().ByName(name).Message(), w.out}); err != nil {
		return err
	}
	size := len(*w.out) - start
	if more := protowire.SizeVarint(uint64(size)) - 1; more > 0 {
		*w.out = append(*w.out, make([]byte, more)...)
		copy((*w.out)[start+more:], (*w.out)[start:start+size])
	}
	protowire.AppendVarint((*w.out)[:start-1], uint64(size)) // in place
	return nil
}

// proto sets a message of another package.
func (w writer) proto(name protoreflect.Name, m proto.Message) error {
	return w.message(name, func(w writer) (err error) {
		*w.out, err = proto.MarshalOptions{}.MarshalAppend(*w.out, m)
		return err
	})
}

// members sets a JSON object. Its values may have any type that can be encoded as JSON; numbers become float64.
func (w writer) members(name protoreflect.Name, m map[string]any) error {
	if len(m) == 0 {
		return nil
	}
	s, err := fromMap(m)
	if err != nil {
		return err
	}
	return w.proto(name, s)
}
