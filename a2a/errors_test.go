package a2a_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

func TestCodesHaveUniqueNumbers(t *testing.T) {
	t.Parallel()
	numbers := make(map[int]a2a.Code)
	for _, c := range a2a.Codes() {
		if other, taken := numbers[c.JSONRPC()]; taken {
			t.Errorf("%s and %s are both %d", c, other, c.JSONRPC())
		}
		numbers[c.JSONRPC()] = c
		if got := a2a.CodeOfJSONRPC(c.JSONRPC()); got != c {
			t.Errorf("CodeOfJSONRPC(%d) = %s, want %s", c.JSONRPC(), got, c)
		}
		if s := c.HTTPStatus(); s < 400 || s > 599 {
			t.Errorf("%s.HTTPStatus() = %d", c, s)
		}
		if e := c.ExitCode(); e < 3 || e > 19 {
			t.Errorf("%s.ExitCode() = %d, want 3 to 19", c, e)
		}
	}
	if got := a2a.CodeOfJSONRPC(-1); got != a2a.CodeInternal {
		t.Errorf("CodeOfJSONRPC(-1) = %s, want internal", got)
	}
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	cause := errors.New("dial tcp 10.0.0.1: refused")
	for _, test := range []struct {
		err  error
		want a2a.Code
	}{
		{a2a.TaskNotFound("x"), a2a.CodeTaskNotFound},
		{fmt.Errorf("read: %w", a2a.TaskNotFound("x")), a2a.CodeTaskNotFound},
		{a2a.Wrap(a2a.CodeUnavailable, cause, "the store is away"), a2a.CodeUnavailable},
		{&wire.Error{Path: "a", Rule: "is required"}, a2a.CodeInvalid},
		{&wire.Error{Rule: "not JSON", Syntax: true}, a2a.CodeParse},
		{cause, a2a.CodeInternal},
	} {
		if got := a2a.CodeOf(test.err); got != test.want {
			t.Errorf("CodeOf(%v) = %s, want %s", test.err, got, test.want)
		}
	}
}

func TestErrorsCompareByCode(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("get: %w", a2a.TaskNotFound("x"))
	if !errors.Is(err, a2a.ErrTaskNotFound) || errors.Is(err, a2a.ErrConflict) {
		t.Errorf("errors.Is(%v) does not compare codes", err)
	}
	invalid := a2a.Invalid("message.parts", "must not be empty")
	if invalid.Message != "message.parts must not be empty" || invalid.Data["field"] != "message.parts" {
		t.Errorf("Invalid() = %+v", invalid)
	}
	long := a2a.TaskNotFound(strings.Repeat("x", 1000))
	if len(long.Message) > 200 {
		t.Errorf("error message of %d bytes, want long input shortened", len(long.Message))
	}
}

func TestMethodByName(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, m := range a2a.Methods() {
		if seen[m.Name] || m.Summary == "" {
			t.Errorf("method %q is listed twice or has no summary", m.Name)
		}
		seen[m.Name] = true
		if got, ok := a2a.MethodByName(m.Name); !ok || got != m {
			t.Errorf("MethodByName(%q) = %+v, %t", m.Name, got, ok)
		}
		if got, ok := a2a.MethodByName(m.NameV10); !ok || got != m {
			t.Errorf("MethodByName(%q) = %+v, %t", m.NameV10, got, ok)
		}
	}
}
