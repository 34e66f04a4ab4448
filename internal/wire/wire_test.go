package wire_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/cputime"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// The types of these tests have one member of every kind.
type shape interface{ area() }

type circle struct {
	_ struct{} `wire:"const=kind:circle"`
	R float64  `json:"r" wire:"required"`
}

type square struct {
	_      struct{} `wire:"const=kind:square"`
	SideCm int      `json:"sideCm" wire:"required"`
}

func (circle) area() {}
func (square) area() {}

type source interface{ open() }

type inline struct {
	Bytes []byte `json:"bytes" wire:"required"`
}

type remote struct {
	URI string `json:"uri" wire:"required,alias=url"`
}

func (inline) open() {}
func (remote) open() {}

var (
	_ = wire.Union("kind", map[string]shape{"circle": circle{}, "square": square{}})
	_ = wire.UnionByMember(map[string]source{"bytes": inline{}, "uri": remote{}, "url": remote{}})
)

type colour string

func (colour) EnumValues() []string { return []string{"red", "dark-blue"} }

type whole struct {
	Name       string            `json:"name" wire:"required"`
	Colour     colour            `json:"colour,omitempty"`
	ShapeList  []shape           `json:"shapeList,omitempty"`
	Known      []string          `json:"known,omitzero"`
	Source     source            `json:"source,omitempty"`
	Small      int8              `json:"small,omitempty"`
	Big        int64             `json:"big,omitempty"`
	Ratio      float64           `json:"ratio,omitempty"`
	Limit      *int              `json:"limit,omitempty"`
	Flag       bool              `json:"flag"`
	At         time.Time         `json:"at,omitempty"`
	Number     json.Number       `json:"number,omitempty"`
	Raw        json.RawMessage   `json:"raw,omitempty"`
	Free       any               `json:"free,omitempty"`
	Metadata   map[string]any    `json:"metadata,omitempty"`
	LabelTexts map[string]string `json:"labelTexts,omitempty"`
	Inner      *whole            `json:"innerPart,omitempty"`
	Skipped    string            `json:"-"`
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	deep := func(n int) string {
		return `{"name":"a","free":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	for _, test := range []struct {
		text, want string
		syntax     bool
	}{
		{`{}`, "name is required", false},
		{`{"name":null}`, "name is required", false},
		{`[]`, "must be an object, not an array", false},
		{`"x"`, "must be an object, not a string", false},
		{`null`, "must be an object, not null", false},
		{`5`, "must be an object, not a number", false},
		{`true`, "must be an object, not a boolean", false},
		{`{"name":5}`, "name must be a string, not a number", false},
		{`{"name":-5}`, "name must be a string, not a number", false},
		{`{"name":{}}`, "name must be a string, not an object", false},
		{`{"name":[]}`, "name must be a string, not an array", false},
		{`{"name":false}`, "name must be a string, not a boolean", false},
		{`{"name":"a","colour":"pink"}`, `colour is "pink", want one of red, dark-blue`, false},
		{`{"name":"a","colour":"` + strings.Repeat("é", 100) + `"}`, `colour is "` + strings.Repeat("é", 20) + `...", want one of red, dark-blue`, false},
		{`{"name":"a","flag":"yes"}`, "flag must be a boolean, not a string", false},
		{`{"name":"a","small":128}`, "small is 128, want an integer of at most 8 bits", false},
		{`{"name":"a","small":1.5}`, "small is 1.5, want an integer of at most 8 bits", false},
		{`{"name":"a","big":9223372036854775808}`, "big is 9223372036854775808, want an integer of at most 64 bits", false},
		{`{"name":"a","big":1e999}`, "big is 1e999, want an integer of at most 64 bits", false},
		{`{"name":"a","ratio":1e999}`, "ratio is 1e999, which is out of the range of a 64-bit float", false},
		{`{"name":"a","limit":"5"}`, "limit must be a number, not a string", false},
		{`{"name":"a","at":"noon"}`, `at is "noon", want a time in RFC 3339 form such as 2026-01-31T12:00:00Z`, false},
		{`{"name":"a","number":"5"}`, "number must be a number, not a string", false},
		{`{"name":"a","known":{}}`, "known must be an array, not an object", false},
		{`{"name":"a","known":["x",null]}`, "known[1] must not be null", false},
		{`{"name":"a","known":["x",5]}`, "known[1] must be a string, not a number", false},
		{`{"name":"a","metadata":[]}`, "metadata must be an object, not an array", false},
		{`{"name":"a","labelTexts":{"Some_Key":1}}`, "labelTexts.Some_Key must be a string, not a number", false},
		{`{"name":"a","shape_list":[{"r":1}]}`, "shapeList[0].kind is required: one of circle, square", false},
		{`{"name":"a","shapeList":[{"kind":"oval"}]}`, `shapeList[0].kind is "oval", want one of circle, square`, false},
		{`{"name":"a","shapeList":[{"kind":7}]}`, "shapeList[0].kind must be a string, not a number", false},
		{`{"name":"a","shapeList":["circle"]}`, "shapeList[0] must be an object, not a string", false},
		{`{"name":"a","shapeList":[{"kind":"square"}]}`, "shapeList[0].sideCm is required", false},
		{`{"name":"a","shapeList":[{"kind":"square","side_cm":"x"}]}`, "shapeList[0].sideCm must be a number, not a string", false},
		{`{"name":"a","source":{}}`, "source must have exactly one of bytes, uri, url", false},
		{`{"name":"a","source":{"bytes":"","uri":"x"}}`, "source must have exactly one of bytes, uri, url", false},
		{`{"name":"a","source":{"bytes":"*"}}`, "source.bytes must be base64 (RFC 4648 section 4)", false},
		{`{"name":"a","innerPart":{"innerPart":{"name":5}}}`, "innerPart.innerPart.name must be a string, not a number", false},
		{deep(wire.MaxDepth), "nested deeper than 128 levels", true},
		{``, "not JSON: offset 0: unexpected end", true},
		{` `, "not JSON: offset 1: unexpected end", true},
		{`{`, "not JSON: offset 1: expected a member name", true},
		{`{"name"}`, "not JSON: offset 7: expected a colon after a member name", true},
		{`{"name":`, "not JSON: offset 8: unexpected end", true},
		{`{"name":"a"`, "not JSON: offset 11: expected a comma or a closing brace", true},
		{`{"name":"a",}`, "not JSON: offset 12: expected a member name", true},
		{`{"name":"a"} x`, "not JSON: offset 13: unexpected text after the end", true},
		{`{"name":"a`, "not JSON: offset 10: unexpected end of a string", true},
		{`{"name":"a\`, "not JSON: offset 12: unknown escape", true},
		{`{"name":"\x"}`, "not JSON: offset 11: unknown escape", true},
		{`{"name":"\u12"}`, `malformed \u escape`, true},
		{`{"name":"\u12G4"}`, `malformed \u escape`, true},
		{`{"name":"\u+123"}`, `malformed \u escape`, true},
		{"{\"name\":\"a\n\"}", "control character in a string", true},
		{"{\"name\":\"\\t\n\"}", "control character in a string", true},
		{"{\"name\":\"\xff\"}", "string is not UTF-8", true},
		{"{\"name\":\"\\n\xff\"}", "string is not UTF-8", true},
		{`{"name":nul}`, "unknown literal", true},
		{`{"name":"a","flag":tru}`, "unknown literal", true},
		{`{"name":"a","x":nope}`, "unknown literal", true},
		{`{"name":"a","x":'y'}`, "unexpected character", true},
		{`{"name":x}`, "unexpected character 'x'", true},
		{`{"name":"a","ratio":01}`, "expected a comma or a closing brace", true},
		{`{"name":"a","ratio":1.}`, "malformed number", true},
		{`{"name":"a","ratio":-}`, "malformed number", true},
		{`{"name":"a","ratio":1e}`, "malformed number", true},
		{`{"name":"a","known":["x"`, "expected a comma or a closing bracket", true},
		{`{"name":"a","known":["x",]}`, "unexpected character ']'", true},
	} {
		var got whole
		err := wire.Unmarshal([]byte(test.text), &got)
		var e *wire.Error
		if !errors.As(err, &e) || e.Syntax != test.syntax || !strings.Contains(err.Error(), test.want) || !test.syntax && err.Error() != test.want {
			t.Errorf("Unmarshal(%.80s) = %v, want %s, syntax %t", test.text, err, test.want, test.syntax)
		}
		if valid := wire.Valid([]byte(test.text)); (valid != nil) != test.syntax {
			t.Errorf("Valid(%.80s) = %v, want an error only for bad syntax", test.text, valid)
		}
	}
	if err := wire.Unmarshal([]byte(deep(wire.MaxDepth-1)), new(whole)); err != nil {
		t.Errorf("Unmarshal of %d levels = %v, want nil", wire.MaxDepth, err)
	}
}

func TestLenientInput(t *testing.T) {
	t.Parallel()
	one := 1
	for _, test := range []struct {
		text string
		want whole
	}{
		{`{"name":"a","labelTexts":{"x":"camel"},"label_texts":{"x":"snake"}}`, whole{Name: "a", LabelTexts: map[string]string{"x": "camel"}}},
		{`{"name":"a","label_texts":{"x":"snake"},"labelTexts":{"x":"camel"}}`, whole{Name: "a", LabelTexts: map[string]string{"x": "camel"}}},
		{`{"name":"a","label_texts":{"x":"snake"},"labelTexts":null}`, whole{Name: "a", LabelTexts: map[string]string{"x": "snake"}}},
		{`{"name":"a","name":"b"}`, whole{Name: "b"}},
		{`{"name":"a","unknown":{"x":[1,{"y":null}]},"Name":"b"}`, whole{Name: "a"}},
		{`{"name":"a","colour":null,"known":null,"limit":null,"at":null,"free":null,"flag":null}`, whole{Name: "a"}},
		{`{"name":"a","known":[]}`, whole{Name: "a", Known: []string{}}},
		{`{"name":"a","limit":1.0}`, whole{Name: "a", Limit: &one}},
		{`{"name":"a","limit":1e0}`, whole{Name: "a", Limit: &one}},
		{`{"name":"a","big":-9223372036854775808}`, whole{Name: "a", Big: math.MinInt64}},
		{`{"name":"a","at":"2026-01-31T13:00:00.5+01:00"}`, whole{Name: "a", At: time.Date(2026, 1, 31, 12, 0, 0, 5e8, time.UTC)}},
		{`{"name":"a","source":{"url":"u"}}`, whole{Name: "a", Source: remote{URI: "u"}}},
		{`{"name":"a","source":{"bytes":null,"uri":"u"}}`, whole{Name: "a", Source: remote{URI: "u"}}},
		{`{"name":"a","source":{"bytes":"aGk"}}`, whole{Name: "a", Source: inline{Bytes: []byte("hi")}}},
		{`{"name":"a","source":{"bytes":"aGk="}}`, whole{Name: "a", Source: inline{Bytes: []byte("hi")}}},
		{`{"name":"a","shapeList":[{"r":2,"kind":"circle"},{"kind":"square","side_cm":3}]}`, whole{Name: "a", ShapeList: []shape{circle{R: 2}, square{SideCm: 3}}}},
		{`{"name":"\ud83d\ude00 \ud83d \ude00 \u00e9\/\b\f"}`, whole{Name: "😀 \ufffd \ufffd é/\b\f"}},
		{`{"name":"a","metadata":{"snake_case":1,"camelCase":[true,null,"x"],"":{}}}`, whole{Name: "a", Metadata: map[string]any{"snake_case": 1.0, "camelCase": []any{true, nil, "x"}, "": map[string]any{}}}},
		{`{"name":"a","raw": [1, 2 ] ,"number":1.50}`, whole{Name: "a", Raw: json.RawMessage(`[1, 2 ]`), Number: "1.50"}},
		{`{"name":"a","free":[1.5,12345678901234567890,1e400,0.1,1e-400,100000000000000000000]}`, whole{Name: "a", Free: []any{1.5, json.Number("12345678901234567890"), json.Number("1e400"), 0.1, json.Number("1e-400"), 1e20}}},
	} {
		var got whole
		if err := wire.Unmarshal([]byte(test.text), &got); err != nil {
			t.Errorf("Unmarshal(%s) = %v", test.text, err)
			continue
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(circle{}, square{})); diff != "" {
			t.Errorf("Unmarshal(%s) (-want +got)\n%s", test.text, diff)
		}
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	one := 1
	for _, test := range []struct {
		value any
		want  string
	}{
		{nil, `null`},
		{whole{}, `{"name":"","flag":false}`},
		{&whole{Name: "<é\x00\"\\\n\r\t\xff&>"}, `{"name":"<é\u0000\"\\\n\r\t` + "\ufffd" + `&>","flag":false}`},
		{whole{Known: []string{}, Limit: &one}, `{"name":"","known":[],"limit":1,"flag":false}`},
		{whole{ShapeList: []shape{circle{R: 0.5}, square{SideCm: 2}}}, `{"name":"","shapeList":[{"kind":"circle","r":0.5},{"kind":"square","sideCm":2}],"flag":false}`},
		{whole{Source: inline{Bytes: []byte("hi")}}, `{"name":"","source":{"bytes":"aGk="},"flag":false}`},
		{whole{At: time.Date(2026, 1, 31, 13, 0, 0, 123456789, time.FixedZone("", 3600))}, `{"name":"","flag":false,"at":"2026-01-31T12:00:00.123Z"}`},
		{whole{Ratio: 1e21, Number: "1.50", Raw: json.RawMessage(`[1]`)}, `{"name":"","ratio":1e+21,"flag":false,"number":1.50,"raw":[1]}`},
		{map[string]any{"b": 1, "a": []any{nil, true, int64(2), 1e-7, json.Number("5"), struct{ X int }{3}}, "c": map[string]any(nil)}, `{"a":[null,true,2,1e-07,5,{"X":3}],"b":1,"c":null}`},
		{map[string]string{"b": "2", "a": "1"}, `{"a":"1","b":"2"}`},
		{[]*whole{nil}, `[null]`},
	} {
		got, err := wire.Append([]byte("x"), test.value)
		if err != nil || string(got) != "x"+test.want {
			t.Errorf("Append(%+v) = %s, %v, want x%s", test.value, got, err, test.want)
		}
		if !json.Valid(got[1:]) {
			t.Errorf("Append(%+v) = %s, which is not JSON", test.value, got)
		}
	}
	for _, test := range []struct {
		value any
		want  string
	}{
		{whole{ShapeList: []shape{nil}}, "shapeList[0] must not be nil"},
		{whole{Ratio: math.NaN()}, "ratio must be a finite number"},
		{whole{Metadata: map[string]any{"a": []any{math.Inf(1)}}}, "metadata.a[0] must be a finite number"},
		{map[string]any{"f": func() {}}, "f json: unsupported type: func()"},
	} {
		if got, err := wire.Append([]byte("x"), test.value); err == nil || err.Error() != test.want || string(got) != "x" {
			t.Errorf("Append(%+v) = %s, %v, want x and the error %q", test.value, got, err, test.want)
		}
	}
}

func TestMembersAndItems(t *testing.T) {
	t.Parallel()
	var got []string
	err := wire.Members([]byte(` {"a" : [1, 2] ,"b":{"c":3},"d":null} `), func(name, value []byte) error {
		got = append(got, string(name)+"="+string(value))
		return nil
	})
	if want := `a=[1, 2] b={"c":3} d=null`; err != nil || strings.Join(got, " ") != want {
		t.Errorf("Members = %q, %v, want %s", got, err, want)
	}
	got = nil
	err = wire.Items([]byte(`[ 1 ,"x",[]]`), func(_ int, value []byte) error {
		got = append(got, string(value))
		return nil
	})
	if want := `1 "x" []`; err != nil || strings.Join(got, " ") != want {
		t.Errorf("Items = %q, %v, want %s", got, err, want)
	}
	stop := errors.New("stop")
	if err := wire.Members([]byte(`{"a":1}`), func(_, _ []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Members = %v, want the error of the function", err)
	}
	for _, bad := range []string{``, `[]`, `{"a":1} x`, `{"a"}`, `{"a":1,"\u0061":2}`} {
		if err := wire.Members([]byte(bad), func(_, _ []byte) error { return nil }); err == nil {
			t.Errorf("Members(%s) = nil, want an error", bad)
		}
	}
	if err := wire.Items([]byte(`[1] x`), func(int, []byte) error { return nil }); err == nil {
		t.Error("Items([1] x) = nil, want an error")
	}
}

// Processor time must be linear: hostile documents of 16 times the size may take little more
// than 16 times as long. The bound is wide; quadratic time exceeds it by far.
func TestHostileDocumentsTakeLinearTime(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]func(n int) string{
		"escapes":     func(n int) string { return `{"name":"` + strings.Repeat(`\n`, n) + `"}` },
		"surrogates":  func(n int) string { return `{"name":"` + strings.Repeat(`\ud83d`, n) + `"}` },
		"members":     func(n int) string { return `{` + strings.Repeat(`"x":[],`, n) + `"name":"a"}` },
		"same member": func(n int) string { return `{` + strings.Repeat(`"name":"a",`, n) + `"name":"a"}` },
		"late kinds": func(n int) string {
			return `{"name":"a","shapeList":[` + strings.Repeat(`{"r":1,"kind":"circle"},`, n) + `{"r":1,"kind":"circle"}]}`
		},
		"nesting": func(n int) string {
			return `{"name":"a","free":[` + strings.Repeat(strings.Repeat("[", 100)+strings.Repeat("]", 100)+",", n/100) + `1]}`
		},
	} {
		took := func(n int) time.Duration {
			text := []byte(document(n))
			best := time.Hour
			for range 3 {
				best = min(best, cputime.Of(func() { _ = wire.Unmarshal(text, new(whole)) }))
			}
			return best
		}
		const n = 4_000
		small, large := took(n), took(16*n)
		if large > 16*8*small+50*time.Millisecond {
			t.Errorf("%s: %s for n, %s for 16 n, want about 16 times as much", name, small, large)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, text := range []string{
		`{"name":"a","colour":"red","shapeList":[{"kind":"circle","r":1.5}],"source":{"bytes":"aGk="}}`,
		`{"name":"\ud83d\ude00","free":[1,12345678901234567890,1e400,null,{"a":{}}],"metadata":{"X_y":1}}`,
		`{"name":"a","at":"2026-01-31T12:00:00.123456Z","limit":0,"big":-5,"raw":{"a":[1]},"number":1e5}`,
		`{"name":"a","known":[],"innerPart":{"name":"b","label_texts":{"k":"v"}}}`,
		`{"name":"a","shape_list":[{"side_cm":3,"kind":"square"}],"source":{"url":"u"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var first whole
		err := wire.Unmarshal(data, &first)
		var e *wire.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("Unmarshal(%q) = %v, want a *wire.Error", data, err)
		}
		if valid := wire.Valid(data); (valid == nil) != json.Valid(data) && !strings.Contains(valid.Error(), "UTF-8") && !strings.Contains(valid.Error(), "deeper") {
			t.Fatalf("Valid(%q) = %v, encoding/json disagrees", data, valid)
		}
		if err != nil {
			return
		}
		text, err := wire.Marshal(first)
		if err != nil {
			t.Fatalf("Marshal(%+v) = %v", first, err)
		}
		if !json.Valid(text) {
			t.Fatalf("Marshal(%+v) = %s, which is not JSON", first, text)
		}
		var second whole
		if err := wire.Unmarshal(text, &second); err != nil {
			t.Fatalf("Unmarshal(%s) = %v, which was written by Marshal", text, err)
		}
		truncateTimes(&first)
		if !reflect.DeepEqual(compact(first), compact(second)) {
			t.Fatalf("%s was decoded as\n%+v, want\n%+v", text, second, first)
		}
	})
}

// truncateTimes drops what times lose on the wire.
func truncateTimes(w *whole) {
	for ; w != nil; w = w.Inner {
		w.At = w.At.Truncate(time.Millisecond)
	}
}

// compact makes values equal that differ only by omission.
func compact(w whole) whole {
	if len(w.ShapeList) == 0 {
		w.ShapeList = nil
	}
	if len(w.Metadata) == 0 {
		w.Metadata = nil
	}
	if len(w.LabelTexts) == 0 {
		w.LabelTexts = nil
	}
	if w.Limit != nil {
		n := *w.Limit
		w.Limit = &n
	}
	if w.Inner != nil {
		inner := compact(*w.Inner)
		w.Inner = &inner
	}
	return w
}

// A value that contains itself is an error instead of the end of the process.
func TestMarshalLimitsTheDepthOfFreeFormValues(t *testing.T) {
	t.Parallel()
	nested := func(levels int) (v any) {
		for i := range levels {
			if v = map[string]any{"m": v}; i%2 == 0 {
				v = []any{v.(map[string]any)["m"]}
			}
		}
		return v
	}
	if _, err := wire.Marshal(nested(wire.MaxDepth)); err != nil {
		t.Errorf("Marshal of %d levels = %v, want nil", wire.MaxDepth, err)
	}
	self, list := map[string]any{}, make([]any, 1)
	self["self"] = self
	list[0] = list
	for name, v := range map[string]any{"too many levels": nested(wire.MaxDepth + 2), "map": self, "list": list} {
		if _, err := wire.Marshal(v); err == nil || !strings.Contains(err.Error(), "is nested deeper than 128 levels") {
			t.Errorf("Marshal of %s = %v, want an error that names the limit", name, err)
		}
	}
}
