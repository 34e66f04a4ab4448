package a2a_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// What is written in snake_case has the catalogue's other names throughout, and says the same.
func TestEveryTypeIsWrittenInSnakeCase(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	other := func(t *catalogueType, f *catalogueField) string {
		if name, ok := renamed[t.Type+"."+f.Name]; ok {
			return wire.Snake(name)
		}
		if f.Name == "in" { // whose underscore is Python's
			return f.Name
		}
		return f.snake()
	}
	c.each(t, "object", func(t *testing.T, entry *catalogueType) {
		t.Parallel()
		v, again := reflect.New(goTypes[entry.Type]), reflect.New(goTypes[entry.Type])
		if err := wire.Unmarshal(text(c.full(entry)), v.Interface()); err != nil {
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
		if diff := c.same(entry.Type, c.rename(entry.Type, own, ownName, wireName), c.full(entry)); diff != "" {
			t.Errorf("in snake_case:\n%s", diff)
		}
		if err := wire.Unmarshal(out, again.Interface()); err != nil || !reflect.DeepEqual(again.Interface(), v.Interface()) {
			t.Errorf("read again: %v\n%s", err, out)
		}
	})
}
