package a2a_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// A new field must count as a fact, or it is lost when the sender is stored.
func TestEveryFactMakesAPrincipalMoreThanItsID(t *testing.T) {
	t.Parallel()
	if p := (a2a.Principal{ID: "a"}); !p.Plain() {
		t.Error("Plain() of a principal with an id alone is false")
	}
	for i := range reflect.TypeFor[a2a.Principal]().NumField() {
		p := a2a.Principal{ID: "a"}
		field := reflect.TypeFor[a2a.Principal]().Field(i)
		switch v := reflect.ValueOf(&p).Elem().Field(i); v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		default:
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
		}
		if p.Plain() != (field.Name == "ID") {
			t.Errorf("Plain() with %s = %t", field.Name, p.Plain())
		}
	}
}
