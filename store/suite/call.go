package suite

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

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
	value V
	err   error
}

// Call returns the outcome of a call: Call(s.Get(ctx, key)).
func Call[V any](v V, err error) Outcome[V] { return Outcome[V]{v, err} }

// Err returns the error of a call with a value.
func Err[V any](_ V, err error) error { return err }

// Must returns the value, or ends the test with the error.
func (o Outcome[V]) Must(t Reporter, call string, args ...any) V {
	t.Helper()
	Do(o.err).Must(t, call, args...)
	return o.value
}

// Check returns the value, and fails the test if there is an error.
func (o Outcome[V]) Check(t Reporter, call string, args ...any) V {
	t.Helper()
	Do(o.err).Check(t, call, args...)
	return o.value
}

// Want fails the test unless the call returned a value and no error.
func (o Outcome[V]) Want(t Reporter, want V, call string, args ...any) {
	t.Helper()
	if o.err != nil || !reflect.DeepEqual(o.value, want) {
		t.Errorf("%s = %+v, %v, want %+v", fmt.Sprintf(call, args...), o.value, o.err, want)
	}
}

// Fails fails the test unless the call returned an error.
func (o Outcome[V]) Fails(t Reporter, want error, call string, args ...any) {
	t.Helper()
	if !errors.Is(o.err, want) {
		t.Errorf("%s = %+v, %v, want %v", fmt.Sprintf(call, args...), o.value, o.err, want)
	}
}

// Rejected fails the test unless the call returned an error with a code.
func (o Outcome[V]) Rejected(t Reporter, code a2a.Code, call string, args ...any) {
	t.Helper()
	Do(o.err).Rejected(t, code, call, args...)
}

// Empty fails the test unless the call returned a slice or a map without elements, and no error.
func (o Outcome[V]) Empty(t Reporter, call string, args ...any) {
	t.Helper()
	if o.err != nil || reflect.ValueOf(o.value).Len() != 0 {
		t.Errorf("%s = %+v, %v, want nothing", fmt.Sprintf(call, args...), o.value, o.err)
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
