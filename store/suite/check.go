package suite

import (
	"context"
	"fmt"
	"reflect"

	"github.com/google/go-cmp/cmp"
)

// Equal fails the test unless two values are equal.
func Equal[V any](t Reporter, got, want V, what string, args ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s = %+v, want %+v", fmt.Sprintf(what, args...), got, want)
	}
}

// Diff fails the test if there is a difference between two values.
func Diff(t Reporter, what string, got, want any, options ...cmp.Option) {
	t.Helper()
	if reflect.DeepEqual(got, want) { // much faster, and the usual case
		return
	}
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Empty fails the test if a call returned elements.
func Empty[E any](t Reporter, all []E, call string, args ...any) {
	t.Helper()
	if len(all) != 0 {
		t.Errorf("%s = %+v, want nothing", fmt.Sprintf(call, args...), all)
	}
}

// Len returns the elements that a call returned, or ends the test if their number is not n.
func Len[E any](t Reporter, all []E, n int, call string, args ...any) []E {
	t.Helper()
	if len(all) != n {
		t.Fatalf("%s has %d elements, want %d: %+v", fmt.Sprintf(call, args...), len(all), n, all)
	}
	return all
}

// Canceled fails the test unless each of the errors of calls is context.Canceled.
func Canceled(t Reporter, errs map[string]error) {
	t.Helper()
	for call, err := range errs {
		Do(err).Fails(t, context.Canceled, "%s() with a canceled context", call)
	}
}
