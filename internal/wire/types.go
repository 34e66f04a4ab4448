package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (p *structPlan) codec() *codec {
	return &codec{p.decode, p.append, reflect.Value.IsZero}
}

func (p *structPlan) decode(d *decoder, v reflect.Value) error {
	var seen, exact, spelled uint64
	var unknown names
	err := d.object(func(name []byte) error {
		l, ok := p.byName[string(name)]
		if !ok {
			if d.strict && !unknown.add(name) {
				return duplicate(string(name))
			}
			if err := d.skip(); err != nil {
				return within(err, string(name))
			}
			return nil
		}
		f := l.field
		if d.strict && spelled&l.bit != 0 {
			return duplicate(f.name)
		}
		spelled |= l.bit
		if d.null() && !f.null || (exact&f.bit != 0 && !l.exact) {
			if f.nullable {
				seen |= f.bit
			}
			return d.skip()
		}
		if l.exact {
			exact |= f.bit
		}
		seen |= f.bit
		if f.constant != "" {
			return within(d.constant(f), f.name)
		}
		return within(f.codec.decode(d, f.of(v)), f.name)
	})
	if err != nil {
		return err
	}
	if missing := p.required &^ seen; missing != 0 {
		for _, f := range p.fields {
			if missing&f.bit != 0 {
				return within(&Error{Rule: "is required"}, f.name)
			}
		}
	}
	return nil
}

func (u *union) codec(as *Form) *codec {
	emit := func(dst []byte, v reflect.Value) ([]byte, error) { return u.append(dst, v, as) }
	return &codec{u.decode, emit, reflect.Value.IsNil}
}

func (u *union) decode(d *decoder, v reflect.Value) error {
	choose := u.byDiscriminator
	switch {
	case u.wrapped:
		return u.unwrap(d, v)
	case u.discriminator == "":
		choose = u.byMember
	}
	t, err := choose(d)
	if err != nil {
		return err
	}
	concrete := reflect.New(t).Elem()
	if err := codecFor(t, d.form).decode(d, concrete); err != nil {
		return err
	}
	v.Set(concrete)
	return nil
}

func (u *union) byDiscriminator(d *decoder) (reflect.Type, error) {
	kind, err := d.peekMember(u.discriminator)
	if err != nil {
		return nil, err
	}
	if kind == "" && u.fallback != nil {
		return u.fallback, nil
	}
	if kind == "" {
		return nil, within(&Error{Rule: "is required: one of " + strings.Join(u.names, ", ")}, u.discriminator)
	}
	t, ok := u.kinds[kind]
	if !ok {
		rule := fmt.Sprintf("is %q, want one of %s", clip(kind), strings.Join(u.names, ", "))
		return nil, within(&Error{Rule: rule}, u.discriminator)
	}
	return t, nil
}

func (u *union) byMember(d *decoder) (reflect.Type, error) {
	found := make(map[reflect.Type]bool, 1)
	start, strict := d.pos, d.strict
	d.strict = false // decoding the object follows
	err := d.object(func(name []byte) error {
		if t, ok := u.kinds[string(name)]; ok && !d.null() {
			found[t] = true
		}
		return d.skip()
	})
	d.pos, d.strict = start, strict
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, &Error{Rule: "must have exactly one of " + strings.Join(u.names, ", ")}
	}
	for t := range found {
		return t, nil
	}
	panic("unreachable")
}

func stringCodec(t reflect.Type, as *Form) *codec {
	c := &codec{
		decode: func(d *decoder, v reflect.Value) error {
			s, err := d.string()
			if err == nil {
				v.SetString(s)
			}
			return err
		},
		append: func(dst []byte, v reflect.Value) ([]byte, error) { return appendString(dst, v.String()), nil },
		empty:  emptyLen,
	}
	if as.pkg != "" || !t.Implements(enumType) {
		return c
	}
	values := reflect.Zero(t).Interface().(Enum).EnumValues()
	c.decode = func(d *decoder, v reflect.Value) error {
		s, err := d.string()
		if err != nil {
			return err
		}
		if !slices.Contains(values, s) {
			return &Error{Rule: fmt.Sprintf("is %q, want one of %s", clip(s), strings.Join(values, ", "))}
		}
		v.SetString(s)
		return nil
	}
	return c
}

// textCodec returns the codec of free text, in which U+FFFD may replace lone surrogates.
func textCodec(t reflect.Type, as *Form) *codec {
	if t.Kind() == reflect.Pointer {
		return pointerCodec(t, textCodec(t.Elem(), as))
	}
	c := stringCodec(t, as)
	c.decode = func(d *decoder, v reflect.Value) error {
		s, err := d.freeText()
		if err == nil {
			v.SetString(s)
		}
		return err
	}
	return c
}

func pointerCodec(t reflect.Type, elem *codec) *codec {
	return &codec{
		decode: func(d *decoder, v reflect.Value) error {
			if v.IsNil() {
				v.Set(reflect.New(t.Elem()))
			}
			return elem.decode(d, v.Elem())
		},
		append: func(dst []byte, v reflect.Value) ([]byte, error) {
			if v.IsNil() {
				return append(dst, "null"...), nil
			}
			return elem.append(dst, v.Elem())
		},
		empty: reflect.Value.IsNil,
	}
}

func sliceCodec(t reflect.Type, as *Form) *codec {
	elem := codecFor(t.Elem(), as)
	return &codec{
		decode: func(d *decoder, v reflect.Value) error {
			v.Set(reflect.MakeSlice(t, 0, 1))
			return d.array(func(i int) error {
				if d.null() {
					return within(&Error{Rule: "must not be null"}, i)
				}
				if i == v.Cap() {
					v.Grow(1)
				}
				v.SetLen(i + 1)
				item := v.Index(i)
				item.SetZero()
				return within(elem.decode(d, item), i)
			})
		},
		append: func(dst []byte, v reflect.Value) ([]byte, error) {
			dst = append(dst, '[')
			for i := range v.Len() {
				if i > 0 {
					dst = append(dst, ',')
				}
				var err error
				if dst, err = elem.append(dst, v.Index(i)); err != nil {
					return dst, within(err, i)
				}
			}
			return append(dst, ']'), nil
		},
		empty: emptyLen,
	}
}

func mapCodec(t reflect.Type, as *Form) *codec {
	if t.Key().Kind() != reflect.String {
		panic(fmt.Sprintf("wire: map type %s must have string keys", t))
	}
	elem := codecFor(t.Elem(), as)
	return &codec{
		decode: func(d *decoder, v reflect.Value) error {
			v.Set(reflect.MakeMap(t))
			return d.object(func(name []byte) error {
				key := string(name)
				item := reflect.New(t.Elem()).Elem()
				if !d.null() {
					if err := elem.decode(d, item); err != nil {
						return within(err, key)
					}
				} else if err := d.skip(); err != nil {
					return err
				}
				before := v.Len()
				v.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), item)
				if d.strict && v.Len() == before {
					return duplicate(key)
				}
				return nil
			})
		},
		append: func(dst []byte, v reflect.Value) ([]byte, error) {
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			dst = append(dst, '{')
			for i, k := range keys {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = append(appendString(dst, k.String()), ':')
				var err error
				if dst, err = elem.append(dst, v.MapIndex(k)); err != nil {
					return dst, within(err, k.String())
				}
			}
			return append(dst, '}'), nil
		},
		empty: emptyLen,
	}
}

func decodeTime(d *decoder, v reflect.Value) error {
	s, err := d.string()
	if err != nil {
		return err
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return &Error{Rule: fmt.Sprintf("is %q, want a time in RFC 3339 form such as 2026-01-31T12:00:00Z", clip(s))}
	}
	v.Set(reflect.ValueOf(t.UTC()))
	return nil
}

// base64Decoder returns the decoder of bytes. ProtoJSON allows both alphabets of RFC 4648.
func (f *Form) base64Decoder() func(*decoder, reflect.Value) error {
	proto := f.key != ""
	return func(d *decoder, v reflect.Value) error {
		s, err := d.string()
		if err != nil {
			return err
		}
		encoding := base64.StdEncoding
		if proto && strings.ContainsAny(s, "-_") {
			encoding = base64.URLEncoding
		}
		if len(s)%4 != 0 && !strings.HasSuffix(s, "=") {
			encoding = encoding.WithPadding(base64.NoPadding)
		}
		b, err := encoding.DecodeString(s)
		if err != nil {
			return &Error{Rule: "must be base64 (RFC 4648 section 4)"}
		}
		v.SetBytes(b)
		return nil
	}
}

func decodeRaw(d *decoder, v reflect.Value) error {
	start := d.space()
	if err := d.skip(); err != nil {
		return err
	}
	v.SetBytes(slices.Clone(d.data[start:d.pos]))
	return nil
}

func decodeNumber(d *decoder, v reflect.Value) error {
	lit, err := d.number()
	if err == nil {
		v.SetString(string(lit))
	}
	return err
}

func decodeBool(d *decoder, v reflect.Value) error {
	b, err := d.bool()
	if err == nil {
		v.SetBool(b)
	}
	return err
}

func decodeInt(d *decoder, v reflect.Value) error {
	lit, err := d.number()
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(string(lit), 10, v.Type().Bits())
	if err != nil {
		f, ferr := strconv.ParseFloat(string(lit), 64)
		if ferr != nil || f != float64(int64(f)) || v.OverflowInt(int64(f)) || f >= 1<<63 {
			return &Error{Rule: fmt.Sprintf("is %s, want an integer of at most %d bits", clip(string(lit)), v.Type().Bits())}
		}
		n = int64(f)
	}
	v.SetInt(n)
	return nil
}

// intDecoder returns decodeInt, for a [NumberEnum] with a check of its values.
func intDecoder(t reflect.Type) func(*decoder, reflect.Value) error {
	if !t.Implements(numEnum) {
		return decodeInt
	}
	values := reflect.Zero(t).Interface().(NumberEnum).EnumNumbers()
	return func(d *decoder, v reflect.Value) error {
		if err := decodeInt(d, v); err != nil {
			return err
		}
		if !slices.Contains(values, v.Int()) {
			return &Error{Rule: fmt.Sprintf("is %d, want one of %s", v.Int(), strings.Trim(fmt.Sprint(values), "[]"))}
		}
		return nil
	}
}

func decodeScalar(d *decoder, v reflect.Value) error {
	s := v.Addr().Interface().(Scalar)
	switch c := d.peek(); {
	case c == '"':
		text, err := d.string()
		if err == nil {
			s.SetScalar(text)
		}
		return err
	case c == '-' || c >= '0' && c <= '9':
		var n int64
		err := decodeInt(d, reflect.ValueOf(&n).Elem())
		if err == nil {
			s.SetScalar(n)
		}
		return err
	}
	return d.typeError("a string or an integer")
}

func decodeFloat(d *decoder, v reflect.Value) error {
	lit, err := d.number()
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(string(lit), v.Type().Bits())
	if err != nil {
		return outOfRange(lit)
	}
	v.SetFloat(f)
	return nil
}

func decodeAny(d *decoder, v reflect.Value) error {
	x, err := d.any()
	if err != nil {
		return err
	}
	if x == nil {
		v.SetZero()
		return nil
	}
	v.Set(reflect.ValueOf(x))
	return nil
}

// exactNumber keeps the value of a number literal: a float64 where that loses
// nothing, else the literal itself.
func exactNumber(lit []byte) any {
	digits, exponent := 0, false
	for _, c := range lit {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c == 'e' || c == 'E':
			exponent = true
		}
	}
	f, err := strconv.ParseFloat(string(lit), 64)
	if err != nil || exponent && (f == 0 || f > 1e300 || f < -1e300) || digits > 15 && !exponent && !roundTrips(f, lit) || digits > 18 && exponent {
		return json.Number(lit)
	}
	return f
}

func roundTrips(f float64, lit []byte) bool {
	return strconv.FormatFloat(f, 'f', -1, 64) == string(lit)
}
