package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
)

// Enum is implemented by string types with a closed set of values on input.
type Enum interface {
	// EnumValues lists the accepted values.
	EnumValues() []string
}

// NumberEnum is implemented by integer types with a closed set of values on
// input.
type NumberEnum interface {
	// EnumNumbers lists the accepted values.
	EnumNumbers() []int64
}

// Scalar is implemented by pointers to types that hold a string or an integer,
// such as the id of a JSON-RPC request.
type Scalar interface {
	// SetScalar sets the value, a string or an int64.
	SetScalar(v any)
	// Scalar returns the value: a string, an int64, or nil for null.
	Scalar() any
}

// codec decodes and encodes one Go type.
type codec struct {
	decode func(d *decoder, v reflect.Value) error
	append func(dst []byte, v reflect.Value) ([]byte, error)
	empty  func(v reflect.Value) bool
}

type field struct {
	name     string
	index    int
	outer    int // index of the inlined struct that has the field, -1 for none
	required bool
	omit     bool // omit the member if it is empty
	omitZero bool // omit the member if it is nil
	nullable bool // null counts as present
	literal  bool // the name is the same in snake_case
	text     bool // the string is free text
	null     bool // null is a value
	ext      bool // a member of an extension
	inline   bool // the members of the struct are members of its owner
	hidden   bool // only for decoding
	quoted   bool // the number is written as a string
	constant string
	number   bool // the constant is a number
	bit      uint64
	kind     reflect.Kind // of the value, or of the value that a pointer refers to
	codec    *codec
	key      []byte // `"name":`
}

type lookup struct {
	field *field
	exact bool // the encoder writes this name
	bit   uint64
}

type structPlan struct {
	fields   []*field
	byName   map[string]lookup
	names    int
	required uint64
}

// of returns the field of the struct v.
func (f *field) of(v reflect.Value) reflect.Value {
	if f.outer >= 0 {
		v = v.Field(f.outer)
	}
	return v.Field(f.index)
}

// union is a set of concrete types. The value of the member discriminator determines
// the type or, if discriminator is "", the member that is present.
type union struct {
	discriminator string
	wrapped       bool // the only member has the value
	kinds         map[string]reflect.Type
	names         []string
	fallback      reflect.Type // if the discriminator is absent; may be nil
}

// tagged is the form that follows the tags of the types. snake differs only in the names of
// members, which are in snake_case.
var tagged, snake = new(Form), &Form{snake: true}

var unions sync.Map // reflect.Type -> *union

// Union declares that the interface type T is a closed union, and that the member
// discriminator determines the concrete type. kinds maps each of its values to a zero
// value of a struct type. Call Union in the declaration of a package variable, so that it
// runs before the first use of T.
func Union[T any](discriminator string, kinds map[string]T) struct{} {
	unions.Store(reflect.TypeFor[T](), newUnion(discriminator, kinds))
	return struct{}{}
}

// UnionByMember declares that the interface type T is a closed union of struct types. Each
// type has a member, or an alias of one, that the others do not have. A document must have
// exactly one of these members.
func UnionByMember[T any](members map[string]T) struct{} { return Union("", members) }

// UnionOr is [Union] with one more concrete type: the type of other, which has no
// discriminator.
func UnionOr[T any](discriminator string, kinds map[string]T, other T) struct{} {
	u := newUnion(discriminator, kinds)
	u.fallback = reflect.TypeOf(other)
	unions.Store(reflect.TypeFor[T](), u)
	return struct{}{}
}

func newUnion[T any](discriminator string, kinds map[string]T) *union {
	u := &union{discriminator: discriminator, kinds: make(map[string]reflect.Type, len(kinds))}
	for kind, zero := range kinds {
		u.kinds[kind] = reflect.TypeOf(zero)
		u.names = append(u.names, kind)
	}
	sortStrings(u.names)
	return u
}

func sortStrings(s []string) {
	for i := 1; i < len(s); i++ {
		for j := i; j > 0 && s[j] < s[j-1]; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	bytesType  = reflect.TypeFor[[]byte]()
	rawType    = reflect.TypeFor[json.RawMessage]()
	numberType = reflect.TypeFor[json.Number]()
	anyType    = reflect.TypeFor[any]()
	enumType   = reflect.TypeFor[Enum]()
	numEnum    = reflect.TypeFor[NumberEnum]()
	scalarType = reflect.TypeFor[Scalar]()
)

// codecFor returns the codec of t, and builds it on first use. It stores the codec before it
// is complete, because a recursive type needs its own codec.
func codecFor(t reflect.Type, as *Form) *codec {
	if c, ok := as.codecs.Load(t); ok {
		return c.(*codec)
	}
	var ready sync.WaitGroup
	ready.Add(1)
	var built *codec
	indirect := &codec{
		decode: func(d *decoder, v reflect.Value) error { ready.Wait(); return built.decode(d, v) },
		append: func(dst []byte, v reflect.Value) ([]byte, error) { ready.Wait(); return built.append(dst, v) },
		empty:  func(v reflect.Value) bool { ready.Wait(); return built.empty(v) },
	}
	if c, loaded := as.codecs.LoadOrStore(t, indirect); loaded {
		return c.(*codec)
	}
	built = newCodec(t, as)
	ready.Done()
	as.codecs.Store(t, built)
	return built
}

func newCodec(t reflect.Type, as *Form) *codec {
	if special := as.special[t]; special != nil {
		return special()
	}
	return plainCodec(t, as)
}

func plainCodec(t reflect.Type, as *Form) *codec {
	switch t {
	case timeType:
		return &codec{decodeTime, appendTime, func(v reflect.Value) bool { return v.IsZero() }}
	case bytesType:
		return &codec{as.base64Decoder(), appendBase64, emptyLen}
	case rawType:
		return &codec{decodeRaw, appendRaw, emptyLen}
	case numberType:
		return &codec{decodeNumber, appendNumber, emptyLen}
	case anyType:
		return &codec{decodeAny, appendAnyValue, reflect.Value.IsNil}
	}
	if reflect.PointerTo(t).Implements(scalarType) {
		return &codec{decodeScalar, appendScalar, reflect.Value.IsZero}
	}
	switch t.Kind() {
	case reflect.String:
		return stringCodec(t, as)
	case reflect.Bool:
		return &codec{decodeBool, appendBool, reflect.Value.IsZero}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &codec{as.orQuoted(intDecoder(t)), appendInt, reflect.Value.IsZero}
	case reflect.Float32, reflect.Float64:
		return &codec{as.orQuoted(decodeFloat), appendFloatValue, reflect.Value.IsZero}
	case reflect.Pointer:
		return pointerCodec(t, codecFor(t.Elem(), as))
	case reflect.Slice:
		return sliceCodec(t, as)
	case reflect.Map:
		return mapCodec(t, as)
	case reflect.Struct:
		return newStructPlan(t, as).codec()
	case reflect.Interface:
		if u := as.union(t); u != nil {
			return u.codec(as)
		}
	default:
	}
	panic(fmt.Sprintf("wire: type %s cannot be encoded", t))
}

func emptyLen(v reflect.Value) bool { return v.Len() == 0 }

func newStructPlan(t reflect.Type, as *Form) *structPlan {
	p := &structPlan{byName: make(map[string]lookup)}
	p.addFields(t, as, -1)
	return p
}

func (p *structPlan) addFields(t reflect.Type, as *Form, outer int) {
	for _, sf := range as.fields(t) {
		f, aliases := newField(sf, as)
		f.outer = outer
		switch {
		case f.inline:
			p.addFields(sf.Type, as, f.index)
			continue
		case f.name == "" || f.name == "-":
			continue
		case len(p.fields) == 64:
			panic(fmt.Sprintf("wire: %s has more than 64 members", t))
		case f.text:
			f.codec = textCodec(sf.Type, as)
		case f.constant == "":
			f.codec = codecFor(sf.Type, as)
		}
		if f.quoted {
			f.codec = f.codec.inQuotes()
		}
		f.bit = 1 << len(p.fields)
		f.key = append(appendString(nil, f.spelled(as)), ':')
		p.add(f, aliases)
	}
}

// newField returns a field as its tags describe it, and its aliases.
func newField(sf reflect.StructField, as *Form) (f *field, aliases []string) {
	name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
	f = &field{name: name, index: sf.Index[0], kind: sf.Type.Kind()}
	if f.kind == reflect.Pointer {
		f.kind = sf.Type.Elem().Kind()
	}
	f.options(options)
	aliases = f.options(sf.Tag.Get("wire"))
	if as.key == "" {
		return f, aliases
	}
	if f.constant != "" {
		f.name = ""
	}
	if tag, ok := sf.Tag.Lookup(as.key); ok {
		name, options, _ = strings.Cut(tag, ",")
		aliases = f.options(options)
		if name != "" {
			f.name = name
		}
	}
	f.hidden = f.ext && !as.extended
	return f, aliases
}

// spelled returns the name that the encoder writes.
func (f *field) spelled(as *Form) string {
	if as.snake && !f.literal {
		return Snake(f.name)
	}
	return f.name
}

// options applies the options of a tag and returns its aliases.
func (f *field) options(tag string) (aliases []string) {
	for opt := range strings.SplitSeq(tag, ",") {
		switch key, value, _ := strings.Cut(opt, "="); key {
		case "omitempty":
			f.omit = true
		case "omitzero":
			f.omitZero = true
		case "required":
			f.required = true
		case "optional":
			f.required = false
		case "null":
			f.null = true
		case "ext":
			f.ext = true
		case "inline":
			f.inline = true
		case "nullable":
			f.nullable = true
		case "quoted":
			f.quoted = true
		case "literal":
			f.literal = true
		case "text":
			f.text = true
		case "const":
			f.name, f.constant, _ = strings.Cut(value, ":")
		case "number":
			f.name, f.constant, _ = strings.Cut(value, ":")
			f.number = true
		case "alias":
			aliases = append(aliases, value)
		}
	}
	return aliases
}

func (p *structPlan) add(f *field, aliases []string) {
	p.fields = append(p.fields, f)
	p.name(f.name, f, true)
	if snake := Snake(f.name); snake != f.name {
		p.name(snake, f, false)
	}
	if camel := Camel(f.name); camel != f.name {
		p.name(camel, f, false)
	}
	for _, alias := range aliases {
		p.name(alias, f, false)
	}
	if f.required {
		p.required |= f.bit
	}
}

// name adds a name of a member. Each has a bit in a set, so that duplicates are detected.
func (p *structPlan) name(name string, f *field, exact bool) {
	if p.names == 64 {
		panic(fmt.Sprintf("wire: %s is one of more than 64 names", name))
	}
	p.byName[name] = lookup{f, exact, 1 << p.names}
	p.names++
}

// Snake returns the snake_case spelling of a camelCase member name.
func Snake(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Camel returns the camelCase spelling of a snake_case member name. Underscores
// at the ends stay.
func Camel(snake string) string {
	var b strings.Builder
	for i := 0; i < len(snake); i++ {
		if c := snake[i]; c == '_' && i > 0 && i+1 < len(snake) && snake[i+1] >= 'a' && snake[i+1] <= 'z' {
			i++
			b.WriteByte(snake[i] - 'a' + 'A')
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
