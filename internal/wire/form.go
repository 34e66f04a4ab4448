package wire

import (
	"fmt"
	"reflect"
	"sync"
)

// Form is a JSON form of typed objects. The zero value is a form with its own tags and unions, so
// that the form does not change with the types. Declare its types and unions with [Retag] and
// [UnionIn] before the first use. Only declared types and struct types of the package that declares
// the form can be encoded. The form accepts values outside of enums. See [NewForm] and
// [NewProtoForm] for forms that follow the tags of the types.
type Form struct {
	snake  bool
	codecs sync.Map // reflect.Type -> *codec
	pkg    string   // the package that declares the form, "" for forms that follow the tags of the types
	tags   map[reflect.Type]reflect.Type
	unions map[reflect.Type]*union

	special map[reflect.Type]func() *codec // of forms by NewForm and NewProtoForm

	// The following fields are set by NewProtoForm.

	key      string // of the tags that modify the tags of the types
	extended bool   // encode members tagged ext
}

// NewForm returns a form that follows the tags of the types. Declare its differences with
// [Convert] before the first use.
func NewForm() *Form { return &Form{special: make(map[reflect.Type]func() *codec)} }

// Retag gives the struct type Model the tags of Tags, in the order of its fields. Tags has the
// fields of Model, with the same names and types, and blank fields for constants. Retag panics
// otherwise, so that a new field of Model cannot be forgotten.
func Retag[Model, Tags any](f *Form) {
	model, tags := reflect.TypeFor[Model](), reflect.TypeFor[Tags]()
	for _, pair := range [][2]reflect.Type{{model, tags}, {tags, model}} {
		for i := range pair[0].NumField() {
			has := pair[0].Field(i)
			if want, ok := pair[1].FieldByName(has.Name); has.Name != "_" && (!ok || want.Type != has.Type) {
				panic(fmt.Sprintf("wire: %s has the field %s %s, %s does not", pair[0], has.Name, has.Type, pair[1]))
			}
		}
	}
	if f.tags == nil {
		f.pkg, f.tags = tags.PkgPath(), make(map[reflect.Type]reflect.Type)
	}
	f.tags[model] = tags
}

// UnionIn is [Union] for one form, with [UnionByMember] if discriminator is "".
func UnionIn[T any](f *Form, discriminator string, kinds map[string]T) {
	f.addUnion(reflect.TypeFor[T](), newUnion(discriminator, kinds))
}

func (f *Form) addUnion(t reflect.Type, u *union) {
	if f.unions == nil {
		f.unions = make(map[reflect.Type]*union)
	}
	f.unions[t] = u
}

// Append appends v as JSON to dst. If it returns an error, dst is unchanged.
func (f *Form) Append(dst []byte, v any) ([]byte, error) {
	if v == nil {
		return append(dst, "null"...), nil
	}
	rv := reflect.ValueOf(v)
	out, err := codecFor(rv.Type(), f).append(dst, rv)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Unmarshal reads one JSON document into v, as the function of the same name does.
func (f *Form) Unmarshal(data []byte, v any) error {
	return (&decoder{data: data, form: f}).document(v)
}

// UnmarshalShared reads one JSON document into v, as the function of the same name does.
func (f *Form) UnmarshalShared(data []byte, v any) error {
	return (&decoder{data: data, form: f, shared: dense(data)}).document(v)
}

// UnmarshalStrict reads one JSON document into v, as the function of the same name does.
func (f *Form) UnmarshalStrict(data []byte, v any) error {
	return (&decoder{data: data, form: f, strict: true, shared: dense(data)}).document(v)
}

// fields returns the tagged fields of a struct type with their indexes in it.
func (f *Form) fields(t reflect.Type) []reflect.StructField {
	tags, ok := f.tags[t]
	switch {
	case ok:
	case f.pkg == "" || f.pkg == t.PkgPath():
		tags = t
	default:
		panic(fmt.Sprintf("wire: the form of %s has no tags for %s", f.pkg, t))
	}
	fields := make([]reflect.StructField, tags.NumField())
	for i := range fields {
		fields[i] = tags.Field(i)
		if own, ok := t.FieldByName(fields[i].Name); ok {
			fields[i].Index = own.Index
		}
	}
	return fields
}

// union returns the union of an interface type, or nil.
func (f *Form) union(t reflect.Type) *union {
	if u := f.unions[t]; u != nil || f.pkg != "" {
		return u
	}
	if u, ok := unions.Load(t); ok {
		return u.(*union)
	}
	return nil
}
