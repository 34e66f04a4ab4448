package config_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/config"
)

type limits struct {
	Bytes int64 `default:"2MiB" min:"1KiB" max:"1GiB"`
}

type sample struct {
	Name   string
	Wait   time.Duration `default:"15s" min:"100ms"`
	Grace  time.Duration `min:"1ns"`
	N      int           `default:"8"`
	Limits limits
}

func TestApplySetsDefaults(t *testing.T) {
	t.Parallel()
	c := sample{Grace: 1}
	if err := config.Apply("sample", &c).OrNil(); err != nil {
		t.Errorf("Apply() = %v, want nil", err)
	}
	if want := (sample{Wait: 15 * time.Second, Grace: 1, N: 8, Limits: limits{2 << 20}}); c != want {
		t.Errorf("Apply() set %+v, want %+v", c, want)
	}
}

func TestApplyReportsAllFieldsOutOfBounds(t *testing.T) {
	t.Parallel()
	cause := errors.New("of no use")
	c := sample{Wait: time.Millisecond, N: -1, Limits: limits{2 << 30}}
	e := config.Apply("sample", &c)
	e.Require(c.Name == "", "Name")
	e.Reject(true, "N", c.N, "less than %d", 3)
	e.Add("Name", errors.Join(cause, fmt.Errorf("twice")))
	const want = "sample config: Wait is 1ms, want 100ms or more\nGrace is 0s, want more than 0\n" +
		"Limits.Bytes is 2147483648, want 1KiB to 1GiB\nName is required\nN is -1, want less than 3\nName: of no use\nName: twice"
	if err := e.OrNil(); err == nil || err.Error() != want || !errors.Is(err, cause) {
		t.Errorf("Apply() = %v, want %s", err, want)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	if got, want := config.Lookup(reflect.TypeFor[sample](), "Limits.Bytes"), (config.Tag{Default: "2MiB", Min: "1KiB", Max: "1GiB"}); got != want {
		t.Errorf("Lookup() = %v, want %v", got, want)
	}
}
