package a2a_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// The snake_case encoding uses the catalogue's snake_case names and decodes to the same value.
func TestEveryTypeIsWrittenInSnakeCase(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	other := func(t *catalogueType, f *catalogueField) string {
		if name, ok := renamed[t.Type+"."+f.Name]; ok {
			return wire.Snake(name)
		}
		if f.Name == "in" { // in_ is a Python name
			return f.Name
		}
		return f.snake()
	}
	c.each(t, "object", func(t *testing.T, entry *catalogueType) {
		t.Parallel()
		v, again := reflect.New(goTypes[entry.Type]), reflect.New(goTypes[entry.Type])
		if err := wire.Unmarshal(text(c.fullExample(entry)), v.Interface()); err != nil {
			t.Fatal(err)
		}
		out, err := wire.AppendSnake(nil, v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		own := c.rename(entry.Type, got, other, ownName)
		if want := c.rename(entry.Type, own, ownName, other); !reflect.DeepEqual(got, want) {
			t.Errorf("in snake_case:\ngot  %s\nwant %s", text(got), text(want))
		}
		if diff := c.diff(entry.Type, c.rename(entry.Type, own, ownName, wireName), c.fullExample(entry)); diff != "" {
			t.Errorf("in snake_case:\n%s", diff)
		}
		if err := wire.Unmarshal(out, again.Interface()); err != nil || !reflect.DeepEqual(again.Interface(), v.Interface()) {
			t.Errorf("decoding the output: %v\n%s", err, out)
		}
	})
}
