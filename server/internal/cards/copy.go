package cards

import (
	"reflect"

	"github.com/holdfast-dev/holdfast/a2a"
)

// copyCard returns a deep copy of a card.
func copyCard(card a2a.AgentCard) a2a.AgentCard {
	return deepCopy(reflect.ValueOf(card)).Interface().(a2a.AgentCard)
}

// deepCopy returns a copy of v without the pointers, slices and maps of v. Unexported fields are copied as they are.
func deepCopy(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		if v.IsNil() {
			return v
		}
	}
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(deepCopy(v.Elem()))
	case reflect.Interface:
		out.Set(deepCopy(v.Elem()))
	case reflect.Slice:
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(deepCopy(v.Index(i)))
		}
	case reflect.Map:
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for key, value := range v.Seq2() {
			out.SetMapIndex(key, deepCopy(value))
		}
	case reflect.Struct:
		out.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
	default:
		return v
	}
	return out
}
