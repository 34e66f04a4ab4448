package wire

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// NewProtoForm returns a form in ProtoJSON, the JSON of Protocol Buffers. It has the tags of
// the types, changed by tags with the given key, such as
//
//	key:"mediaType"  another name; "-" omits the member
//	key:",optional"  not required
//	key:",inline"    the members of the struct are members of its owner, for one level
//	key:",null"      null is a value of the member
//	key:",quoted"    the number is written as a string, as an int64 is in ProtoJSON
//
// and other options of json and wire tags. A changed member loses its aliases, and constant
// members are omitted. Members of extensions are encoded only if extended is set. Numbers may be
// strings, and bytes may have either alphabet of base64.
// Declare differences between the model and the form with [UnionIn], [WrapIn], [EnumIn] and
// [Convert] before the first use.
func NewProtoForm(key string, extended bool) *Form {
	f := NewForm()
	f.key, f.extended = key, extended
	return f
}

// WrapIn declares a closed union of a form as an object with one member. The member has the
// value, and its name determines the concrete type.
func WrapIn[T any](f *Form, kinds map[string]T) {
	u := newUnion("", kinds)
	u.wrapped = true
	f.addUnion(reflect.TypeFor[T](), u)
}

func (u *union) unwrap(d *decoder, v reflect.Value) error {
	found := 0
	err := d.object(func(name []byte) error {
		key := Camel(string(name))
		t, ok := u.kinds[key]
		if !ok || d.null() {
			return within(d.skip(), string(name))
		}
		found++
		concrete := reflect.New(t).Elem()
		if err := codecFor(t, d.form).decode(d, concrete); err != nil {
			return within(err, key)
		}
		v.Set(concrete)
		return nil
	})
	if err == nil && found != 1 {
		err = &Error{Rule: "must have exactly one of " + strings.Join(u.names, ", ")}
	}
	return err
}

// EnumIn declares the names of the values of T in a form; the index is the number. The first
// name stands for all other values; it is rejected on input if its value is "". The values that
// others lists are accepted on input as they are.
func EnumIn[T ~string](f *Form, names []string, values []T, others ...string) {
	f.special[reflect.TypeFor[T]()] = func() *codec {
		return &codec{
			decode: func(d *decoder, v reflect.Value) error {
				at := -1
				if c := d.peek(); c == '-' || c >= '0' && c <= '9' {
					lit, err := d.number()
					if err != nil {
						return err
					}
					if n, err := strconv.Atoi(string(lit)); err == nil && n < len(names) {
						at = n
					}
					return setEnum(v, names, values, at, string(lit))
				}
				s, err := d.string()
				if err != nil {
					return err
				}
				if slices.Contains(others, s) {
					v.SetString(s)
					return nil
				}
				return setEnum(v, names, values, slices.Index(names, s), strconv.Quote(clip(s)))
			},
			append: func(dst []byte, v reflect.Value) ([]byte, error) {
				at := max(slices.Index(values, T(v.String())), 0)
				return append(append(append(dst, '"'), names[at]...), '"'), nil
			},
			empty: emptyLen,
		}
	}
}

func setEnum[T ~string](v reflect.Value, names []string, values []T, at int, given string) error {
	if at < 0 || values[at] == "" {
		return &Error{Rule: fmt.Sprintf("is %s, want one of %s", clip(given), strings.Join(names[1:], ", "))}
	}
	v.SetString(string(values[at]))
	return nil
}

// Convert declares that values of the type M are encoded as values of W, which may be the same
// type. to is called with a zero W; it must not change the M. from must set the whole M.
func Convert[M, W any](f *Form, to func(*M, *W), from func(*W, *M) error) {
	model, form := reflect.TypeFor[M](), reflect.TypeFor[W]()
	pool, copies := sync.Pool{New: func() any { return new(W) }}, sync.Pool{New: func() any { return new(M) }}
	release := func(w *W) {
		var zero W
		*w = zero
		pool.Put(w)
	}
	f.special[model] = func() *codec {
		inner := plainCodec
		if form != model {
			inner = codecFor
		}
		c := inner(form, f)
		empty := reflect.Value.IsZero
		if model.Kind() == reflect.Slice || model.Kind() == reflect.Map {
			empty = emptyLen
		}
		return &codec{
			decode: func(d *decoder, v reflect.Value) error {
				w := pool.Get().(*W)
				defer release(w)
				if err := c.decode(d, reflect.ValueOf(w).Elem()); err != nil {
					return err
				}
				return from(w, v.Addr().Interface().(*M))
			},
			append: func(dst []byte, v reflect.Value) ([]byte, error) {
				if !v.CanAddr() {
					m := copies.Get().(*M)
					defer func() {
						var zero M
						*m = zero
						copies.Put(m)
					}()
					addressable := reflect.ValueOf(m).Elem()
					addressable.Set(v)
					v = addressable
				}
				w := pool.Get().(*W)
				defer release(w)
				to(v.Addr().Interface().(*M), w)
				return c.append(dst, reflect.ValueOf(w).Elem())
			},
			empty: empty,
		}
	}
}

// Members returns the kinds of the members of a struct type by the names that the form accepts, in
// camelCase.
func (f *Form) Members(t reflect.Type) map[string]reflect.Kind {
	plan := newStructPlan(t, f)
	all := make(map[string]reflect.Kind, len(plan.byName))
	for name, l := range plan.byName {
		if l.field.constant == "" {
			all[Camel(name)] = l.field.kind
		}
	}
	return all
}

// inQuotes returns a codec that writes a string with the text of c.
func (c *codec) inQuotes() *codec {
	quoted := *c
	quoted.append = func(dst []byte, v reflect.Value) ([]byte, error) {
		out, err := c.append(append(dst, '"'), v)
		return append(out, '"'), err
	}
	return &quoted
}

// orQuoted returns a decoder of numbers that accepts them as strings too, if the form does.
func (f *Form) orQuoted(number func(*decoder, reflect.Value) error) func(*decoder, reflect.Value) error {
	if f.key == "" {
		return number
	}
	return func(d *decoder, v reflect.Value) error {
		if d.peek() != '"' {
			return number(d, v)
		}
		s, err := d.string()
		if err != nil {
			return err
		}
		quoted := &decoder{data: []byte(s)}
		if strings.TrimSpace(s) != s || number(quoted, v) != nil || quoted.end() != nil {
			return &Error{Rule: fmt.Sprintf("is %q, want a number", clip(s))}
		}
		return nil
	}
}
