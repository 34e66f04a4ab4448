package wire_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

type scalar struct{ v any }

func (s *scalar) SetScalar(v any) { s.v = v }
func (s *scalar) Scalar() any     { return s.v }

type level int

func (level) EnumNumbers() []int64 { return []int64{1, 2} }

type auth interface{ auth() }

type basic struct {
	_    struct{} `wire:"const=type:basic,required"`
	User string   `json:"user"`
}

type plain struct {
	Schemes []string `json:"schemes" wire:"required"`
}

func (basic) auth() {}
func (plain) auth() {}

var _ = wire.UnionOr("type", map[string]auth{"basic": basic{}}, auth(plain{}))

type catalogued struct {
	_      struct{}    `wire:"number=code:-7,required"`
	ID     scalar      `json:"id" wire:"required,nullable"`
	Items  []string    `json:"display_items,omitempty"`
	Level  level       `json:"level,omitempty"`
	Auth   auth        `json:"auth,omitempty"`
	Amount json.Number `json:"amount,omitempty"`
}

func TestMembersOfTheCatalogue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ in, want string }{
		{`{"code":-7,"id":null}`, `{"code":-7,"id":null}`},
		{`{"code":-7,"id":"a"}`, `{"code":-7,"id":"a"}`},
		{`{"code":-7,"id":12}`, `{"code":-7,"id":12}`},
		{`{"code":-7,"id":1,"displayItems":["a"],"level":2,"amount":1.10}`, `{"code":-7,"id":1,"display_items":["a"],"level":2,"amount":1.10}`},
		{`{"code":-7,"id":1,"display_items":["a"],"displayItems":["b"]}`, `{"code":-7,"id":1,"display_items":["a"]}`},
		{`{"code":-7,"id":1,"auth":{"type":"basic","user":"u"}}`, `{"code":-7,"id":1,"auth":{"type":"basic","user":"u"}}`},
		{`{"code":-7,"id":1,"auth":{"schemes":["x"]}}`, `{"code":-7,"id":1,"auth":{"schemes":["x"]}}`},
	} {
		var v catalogued
		if err := wire.Unmarshal([]byte(test.in), &v); err != nil {
			t.Errorf("Unmarshal(%s): %v", test.in, err)
			continue
		}
		if got, err := wire.Marshal(v); err != nil || string(got) != test.want {
			t.Errorf("Marshal(Unmarshal(%s)) = %s, %v, want %s", test.in, got, err, test.want)
		}
	}
}

func TestRefusalsOfTheCatalogue(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"id":1}`:                               "code is required",
		`{"code":-7}`:                            "id is required",
		`{"code":-8,"id":1}`:                     "code is -8, want -7",
		`{"code":"-7","id":1}`:                   "code must be a number, not a string",
		`{"code":-7,"id":true}`:                  "id must be a string or an integer, not a boolean",
		`{"code":-7,"id":1.5}`:                   "id is 1.5, want an integer of at most 64 bits",
		`{"code":-7,"id":1,"level":3}`:           "level is 3, want one of 1 2",
		`{"code":-7,"id":1,"auth":{}}`:           "auth.schemes is required",
		`{"code":-7,"id":1,"auth":{"type":"x"}}`: `auth.type is "x", want one of basic`,
		`{"code":-7,"id":1,"displayItems":[1]}`:  "display_items[0] must be a string, not a number",
	} {
		var v catalogued
		err := wire.Unmarshal([]byte(in), &v)
		var e *wire.Error
		if !errors.As(err, &e) || e.Error() != want {
			t.Errorf("Unmarshal(%s): %v, want %s", in, err, want)
		}
	}
	if _, err := wire.Marshal(catalogued{Amount: "1;"}); err == nil {
		t.Error("Marshal of a number that is none = nil error")
	}
}

func TestCamel(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"display_items": "displayItems", "in_": "in_", "_x": "_x", "a_1": "a_1", "camelCase": "camelCase"} {
		if got := wire.Camel(in); got != want {
			t.Errorf("Camel(%q) = %q, want %q", in, got, want)
		}
	}
}
