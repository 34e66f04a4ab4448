package postgres

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
)

// statement is a prepared statement. Its parameters are arrays with the given element types,
// followed by bigint scalars.
type statement struct {
	name    string
	text    string
	arrays  []uint32
	scalars []string
}

// paramRows are rows that are parameters of a statement, one array per column of T. In its text
// {u} is the FROM item of the rows with the alias u, and {u ord} has their ordinals too.
type paramRows[T any] struct {
	sqlrow.Columns[T]
	alias string
	first int // index of the array of the first column
}

type fromItem interface {
	expand(st *statement)
	width() int
}

// paramRowsOf returns rows with the columns of T. Their parameters follow the parameters of behind.
func paramRowsOf[T any](alias string, behind ...fromItem) *paramRows[T] {
	p := &paramRows[T]{Columns: sqlrow.Of[T](), alias: alias}
	for _, other := range behind {
		p.first += other.width()
	}
	return p
}

func (p *paramRows[T]) width() int { return p.Len() }

func (p *paramRows[T]) expand(st *statement) {
	arrays := make([]string, p.Len())
	for i := range arrays {
		name, oid := sqlType(p.Field(i))
		st.arrays = append(st.arrays, oid)
		arrays[i] = fmt.Sprintf("$%d::%s[]", p.first+i+1, name)
	}
	from, names := "unnest("+strings.Join(arrays, ", ")+")", p.alias+"("+p.List("")
	st.text = strings.NewReplacer("{"+p.alias+"}", from+" AS "+names+")",
		"{"+p.alias+" ord}", from+" WITH ORDINALITY AS "+names+", ord)").Replace(st.text)
}

// add adds a row to the arguments of a call. A nil pointer and a nil slice are null.
func (p *paramRows[T]) add(k *call, row *T) {
	v := reflect.ValueOf(row).Elem()
	for i := range p.Len() {
		a, f := &k.columns[p.first+i], p.Value(v, i)
		if f.Kind() == reflect.Pointer || f.Kind() == reflect.Slice {
			if f.IsNil() {
				a.null()
				continue
			}
			f = reflect.Indirect(f)
		}
		switch f.Kind() {
		case reflect.String:
			a.text(f.String())
		case reflect.Bool:
			a.bool(f.Bool())
		case reflect.Slice:
			a.bytes(f.Bytes())
		default:
			a.int(f.Int())
		}
	}
}

// args returns the arguments of a statement that is not part of a call: an array for each column,
// then more. No field may be null.
func (p *paramRows[T]) args(rows []T, more ...any) []any {
	args := make([]any, p.Len(), p.Len()+len(more))
	for i := range args {
		array := reflect.MakeSlice(reflect.SliceOf(plainType(p.Field(i))), 0, len(rows))
		for j := range rows {
			f := reflect.Indirect(p.Value(reflect.ValueOf(&rows[j]).Elem(), i))
			array = reflect.Append(array, f.Convert(array.Type().Elem()))
		}
		args[i] = array.Interface()
	}
	return append(args, more...)
}

// plainType returns the predeclared type of a parameter, which the driver knows.
func plainType(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Pointer:
		return plainType(t.Elem())
	case reflect.String:
		return reflect.TypeFor[string]()
	case reflect.Bool, reflect.Slice:
		return t
	default:
		return reflect.TypeFor[int64]()
	}
}

// newStatement returns a statement with rows as parameters. The text names the scalars, which
// are separated by spaces, as @name.
func newStatement(name, scalars, text string, rows ...fromItem) *statement {
	st := &statement{name: name, text: text, scalars: strings.Fields(scalars)}
	for _, r := range rows {
		r.expand(st)
	}
	for i, scalar := range st.scalars {
		st.text = strings.ReplaceAll(st.text, "@"+scalar, fmt.Sprintf("$%d::bigint", len(st.arrays)+i+1))
	}
	return st
}

var paramName = regexp.MustCompile(`@[a-z_]+`)

// namedText returns the text of a statement with the columns of T as its parameters. The
// text names them as @name.
func namedText[T any](params sqlrow.Columns[T], text string) string {
	return paramName.ReplaceAllStringFunc(text, func(name string) string {
		for i := range params.Len() {
			if params.Name(i) == name[1:] {
				of, _ := sqlType(params.Field(i))
				return fmt.Sprintf("$%d::%s", i+1, of)
			}
		}
		panic("no parameter " + name)
	})
}

// sqlType returns the type of a parameter and its OID, if it is no array.
func sqlType(t reflect.Type) (name string, oid uint32) {
	switch t.Kind() {
	case reflect.Pointer:
		return sqlType(t.Elem())
	case reflect.String:
		return "text", oidText
	case reflect.Bool:
		return "boolean", oidBool
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytea", oidBytea
		}
		name, _ := sqlType(t.Elem())
		return name + "[]", 0
	default:
		return "bigint", oidInt8
	}
}
