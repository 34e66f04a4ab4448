package suite

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Reporter is the part of a test or a benchmark that reports failures.
type Reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Outcome is what a call returned. The arguments of its methods describe the call.
type Outcome[V any] struct {
	Value V
	Err   error
}

// Call returns the outcome of a call: Call(s.Get(ctx, key)).
func Call[V any](v V, err error) Outcome[V] { return Outcome[V]{v, err} }

// Must returns the value, or ends the test with the error.
func (o Outcome[V]) Must(t Reporter, call string, args ...any) V {
	t.Helper()
	Do(o.Err).Must(t, call, args...)
	return o.Value
}

// Check returns the value, and fails the test if there is an error.
func (o Outcome[V]) Check(t Reporter, call string, args ...any) V {
	t.Helper()
	Do(o.Err).Check(t, call, args...)
	return o.Value
}

// Want fails the test unless the call returned a value and no error.
func (o Outcome[V]) Want(t Reporter, want V, call string, args ...any) {
	t.Helper()
	if o.Err != nil || !reflect.DeepEqual(o.Value, want) {
		t.Errorf("%s = %+v, %v, want %+v", fmt.Sprintf(call, args...), o.Value, o.Err, want)
	}
}

// Fails fails the test unless the call returned an error.
func (o Outcome[V]) Fails(t Reporter, want error, call string, args ...any) {
	t.Helper()
	if !errors.Is(o.Err, want) {
		t.Errorf("%s = %+v, %v, want %v", fmt.Sprintf(call, args...), o.Value, o.Err, want)
	}
}

// Rejected fails the test unless the call returned an error with a code.
func (o Outcome[V]) Rejected(t Reporter, code a2a.Code, call string, args ...any) {
	t.Helper()
	Do(o.Err).Rejected(t, code, call, args...)
}

// Empty fails the test unless the call returned a slice or a map without elements, and no error.
func (o Outcome[V]) Empty(t Reporter, call string, args ...any) {
	t.Helper()
	if o.Err != nil || reflect.ValueOf(o.Value).Len() != 0 {
		t.Errorf("%s = %+v, %v, want nothing", fmt.Sprintf(call, args...), o.Value, o.Err)
	}
}

// Done is what a call without a value returned.
type Done struct{ err error }

// Do returns the outcome of a call without a value: Do(s.Delete(ctx, key)).
func Do(err error) Done { return Done{err} }

// Must ends the test if there is an error.
func (d Done) Must(t Reporter, call string, args ...any) {
	t.Helper()
	if d.err != nil {
		t.Fatalf("%s = %v", fmt.Sprintf(call, args...), d.err)
	}
}

// Check fails the test if there is an error.
func (d Done) Check(t Reporter, call string, args ...any) {
	t.Helper()
	if d.err != nil {
		t.Errorf("%s = %v", fmt.Sprintf(call, args...), d.err)
	}
}

// Fails fails the test unless the call returned an error.
func (d Done) Fails(t Reporter, want error, call string, args ...any) {
	t.Helper()
	if !errors.Is(d.err, want) {
		t.Errorf("%s = %v, want %v", fmt.Sprintf(call, args...), d.err, want)
	}
}

// MayFail fails the test if there is another error than permitted.
func (d Done) MayFail(t Reporter, permitted error, call string, args ...any) {
	t.Helper()
	if d.err != nil && !errors.Is(d.err, permitted) {
		t.Errorf("%s = %v, want nil or %v", fmt.Sprintf(call, args...), d.err, permitted)
	}
}

// Contains fails the test unless the call returned an error and its text contains another one.
func (d Done) Contains(t Reporter, text, call string, args ...any) {
	t.Helper()
	if d.err == nil || !strings.Contains(d.err.Error(), text) {
		t.Errorf("%s = %v, want an error that contains %q", fmt.Sprintf(call, args...), d.err, text)
	}
}

// Rejected fails the test unless the call returned an error with a code.
func (d Done) Rejected(t Reporter, code a2a.Code, call string, args ...any) {
	t.Helper()
	if d.err == nil || a2a.CodeOf(d.err) != code {
		t.Errorf("%s = %v, want an error with code %s", fmt.Sprintf(call, args...), d.err, code)
	}
}

// Canceled fails the test unless each of the errors of calls is context.Canceled.
func Canceled(t Reporter, errs map[string]error) {
	t.Helper()
	for call, err := range errs {
		Do(err).Fails(t, context.Canceled, "%s() with a canceled context", call)
	}
}

// Err returns the error of a call with a value.
func Err[V any](_ V, err error) error { return err }

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
