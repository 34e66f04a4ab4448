package sqlrow

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store/encoding"
)

// Columns lists columns of a table and the field of the row type T that holds each. The text of
// a statement, its arguments and the scan of its result are generated from this list, so they
// always have the same order.
type Columns[T any] struct{ all []column }

type column struct {
	name  string
	index []int // of the field
}

// Of returns the columns that the tags of T name, in the order of its fields: `col:"name"`. The
// tag of a field of a struct type has one column name for each field of the struct, separated
// by commas. Fields of an embedded struct belong to T. Fields are strings, integers and booleans;
// parameters may also be slices and pointers.
func Of[T any]() Columns[T] { return Columns[T]{appendColumns(nil, reflect.TypeFor[T](), nil)} }

func appendColumns(all []column, t reflect.Type, in []int) []column {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(in), i)
		tag, tagged := f.Tag.Lookup("col")
		switch {
		case f.Anonymous:
			all = appendColumns(all, f.Type, index)
		case tagged && f.Type.Kind() == reflect.Struct:
			for j, name := range strings.Split(tag, ",") {
				all = append(all, column{name, append(slices.Clone(index), j)})
			}
		case tagged:
			all = append(all, column{tag, index})
		}
	}
	return all
}

// fields returns columns with fields of T that have no tags: the name of the column, a space and
// the path of the field.
func fields[T any](all ...string) (c Columns[T]) {
	for _, pair := range all {
		name, path, _ := strings.Cut(pair, " ")
		t, index := reflect.TypeFor[T](), []int(nil)
		for _, part := range strings.Split(path, ".") {
			f, ok := t.FieldByName(part)
			if !ok {
				panic(fmt.Sprintf("%s has no field %s", reflect.TypeFor[T](), path))
			}
			t, index = f.Type, append(index, f.Index...)
		}
		c.all = append(c.all, column{name, index})
	}
	return c
}

// Only returns the columns with the given names, separated by spaces, in this order. It panics
// if there is no such column.
func (c Columns[T]) Only(names string) (some Columns[T]) {
	for _, name := range strings.Fields(names) {
		i := slices.IndexFunc(c.all, func(col column) bool { return col.name == name })
		if i < 0 {
			panic(fmt.Sprintf("%s has no column %s", reflect.TypeFor[T](), name))
		}
		some.all = append(some.all, c.all[i])
	}
	return some
}

// Without returns c without the columns with the given names, separated by spaces.
func (c Columns[T]) Without(names string) (some Columns[T]) {
	for _, col := range c.all {
		if !slices.Contains(strings.Fields(names), col.name) {
			some.all = append(some.all, col)
		}
	}
	return some
}

// And returns c followed by other columns.
func (c Columns[T]) And(other Columns[T]) Columns[T] {
	return Columns[T]{slices.Concat(c.all, other.all)}
}

// Len returns the number of columns.
func (c Columns[T]) Len() int { return len(c.all) }

// Name returns the name of the column i.
func (c Columns[T]) Name(i int) string { return c.all[i].name }

// List returns the names after a prefix, such as "t.", separated by commas.
func (c Columns[T]) List(prefix string) string {
	return c.join(func(name string) string { return prefix + name })
}

// Marks returns a question mark for each column, separated by commas.
func (c Columns[T]) Marks() string { return c.join(func(string) string { return "?" }) }

// Set returns the assignments of arguments to all columns.
func (c Columns[T]) Set() string { return c.join(func(name string) string { return name + "=?" }) }

func (c Columns[T]) join(text func(name string) string) string {
	parts := make([]string, len(c.all))
	for i := range c.all {
		parts[i] = text(c.all[i].name)
	}
	return strings.Join(parts, ", ")
}

// Field returns the type of the field of the column i.
func (c Columns[T]) Field(i int) reflect.Type {
	return reflect.TypeFor[T]().FieldByIndex(c.all[i].index).Type
}

// Value returns the field of the column i in a row. row is an addressable value of type T.
func (c Columns[T]) Value(row reflect.Value, i int) reflect.Value {
	for _, f := range c.all[i].index {
		row = row.Field(f)
	}
	return row
}

// Scan sets the fields of a row from a result that starts with these columns. integer and text
// return the value of a column of the result. A boolean is an integer, and so is a time, in
// milliseconds since 1970.
func (c Columns[T]) Scan(row *T, integer func(i int) int64, text func(i int) string) {
	v := reflect.ValueOf(row).Elem()
	for i := range c.all {
		switch f := c.Value(v, i); f.Kind() {
		case reflect.String:
			f.SetString(text(i))
		case reflect.Bool:
			f.SetBool(integer(i) != 0)
		case reflect.Struct:
			*f.Addr().Interface().(*time.Time) = encoding.FromMillis(integer(i))
		default:
			f.SetInt(integer(i))
		}
	}
}

// Args returns the values of the fields as arguments of a statement, then more.
func (c Columns[T]) Args(row *T, more ...any) []any {
	v := reflect.ValueOf(row).Elem()
	args := make([]any, 0, len(c.all)+len(more))
	for i := range c.all {
		switch f := reflect.Indirect(c.Value(v, i)); f.Kind() {
		case reflect.String:
			args = append(args, f.String())
		case reflect.Bool:
			args = append(args, f.Bool())
		case reflect.Slice:
			args = append(args, f.Interface())
		case reflect.Struct:
			args = append(args, encoding.Millis(*f.Addr().Interface().(*time.Time)))
		default:
			args = append(args, f.Int())
		}
	}
	return append(args, more...)
}
