package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

type strict struct {
	ID       string            `json:"id"`
	TaskID   string            `json:"taskId" wire:"alias=job"`
	Caption  string            `json:"caption" wire:"text"`
	Free     any               `json:"free"`
	Metadata map[string]any    `json:"metadata"`
	Labels   map[string]string `json:"labels"`
	Ratio    float64           `json:"ratio"`
	List     []strict          `json:"list"`
	Shape    shape             `json:"shape"`
}

func TestStrictRejectsUndefinedJSON(t *testing.T) {
	t.Parallel()
	const lone = `a lone surrogate (an escape from \ud800 to \udfff without its pair)`
	const beyond = "which is out of the range of a 64-bit float"
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":0,`, i)
		}
		return b.String()
	}
	for text, want := range map[string]string{
		`{"id":"a","id":"a"}`:                                 "id occurs more than once",
		`{"id":null,"id":"a"}`:                                "id occurs more than once",
		`{"id":"a","\u0069d":"b"}`:                            "id occurs more than once",
		`{"task_id":"a","task_id":"b"}`:                       "taskId occurs more than once",
		`{"job":"a","x":1,"job":"b"}`:                         "taskId occurs more than once",
		`{"x":1,"x":1}`:                                       "x occurs more than once",
		`{` + many(100) + `"k77":1}`:                          "k77 occurs more than once",
		`{"x":[{"y":{"z":1,"z":2}}]}`:                         "x[0].y.z occurs more than once",
		`{"x":{` + many(20) + `"k3":1}}`:                      "x.k3 occurs more than once",
		`{"metadata":{"a":{"b":[0,{"c":1,"c":1}]}}}`:          "metadata.a.b[1].c occurs more than once",
		`{"metadata":{"a":1,"a":2}}`:                          "metadata.a occurs more than once",
		`{"labels":{"a":"1","a":"2"}}`:                        "labels.a occurs more than once",
		`{"free":[{"a":null,"a":1}]}`:                         "free[0].a occurs more than once",
		`{"list":[{},{"list":[{"id":"a","id":"b"}]}]}`:        "list[1].list[0].id occurs more than once",
		`{"shape":{"kind":"circle","r":1,"kind":"circle"}}`:   "shape.kind occurs more than once",
		`{"shape":{"kind":"circle","r":1,"x":{"y":1,"y":2}}}`: "shape.x.y occurs more than once",
		`{"id":"a\ud800"}`:                                    "id has " + lone,
		`{"id":"\udc00\ud800"}`:                               "id has " + lone,
		`{"labels":{"a":"\ud800 "}}`:                          "labels.a has " + lone,
		`{"metadata":{"a":{"\ud800":1}}}`:                     "metadata.a has a member name with " + lone,
		`{"\ud800":1}`:                                        "has a member name with " + lone,
		`{"x":{"\ud83dx":1}}`:                                 "x has a member name with " + lone,
		`{"metadata":{"a":1e999999}}`:                         "metadata.a is 1e999999, " + beyond,
		`{"metadata":{"a":-1e309}}`:                           "metadata.a is -1e309, " + beyond,
		`{"metadata":{"a":[1e-999999]}}`:                      "metadata.a[0] is 1e-999999, " + beyond,
		`{"free":1` + strings.Repeat("0", 400) + `}`:          "free is 1" + strings.Repeat("0", 39) + "..., " + beyond,
		`{"ratio":1e309}`:                                     "ratio is 1e309, " + beyond,
		`{"x":[1e309]}`:                                       "x[0] is 1e309, " + beyond,
	} {
		err := wire.UnmarshalStrict([]byte(text), new(strict))
		var e *wire.Error
		if !errors.As(err, &e) || e.Syntax || err.Error() != want {
			t.Errorf("UnmarshalStrict(%.80s) = %v, want %s", text, err, want)
		}
		if err := wire.Unmarshal([]byte(text), new(strict)); err != nil && !strings.Contains(text, "ratio") {
			t.Errorf("Unmarshal(%.80s) = %v, want nil", text, err)
		}
	}
}

func TestStrictAcceptsDefinedJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"taskId":"a","task_id":"b"}`,
		`{"id":"\ud83d\ude00","metadata":{"\ud83d\ude00":1}}`,
		`{"caption":"cut \ud83d","id":"a","metadata":{"a":"cut \ud83d","b":["\udc00"]}}`,
		`{"x":"cut \ud83d","y":"\ud83d","id":"a"}`,
		`{"free":[0e999999,0.000e-999999,-0,1e308,5e-324,12345678901234567890123],"ratio":1e-400}`,
		`{"metadata":{"a":{"x":1},"b":{"x":1}},"list":[{"id":"a"},{"id":"a"}]}`,
	} {
		if err := wire.UnmarshalStrict([]byte(text), new(strict)); err != nil {
			t.Errorf("UnmarshalStrict(%s) = %v, want nil", text, err)
		}
	}
	var got strict
	if err := wire.UnmarshalStrict([]byte(`{"caption":"cut \ud83d","free":"\ude00"}`), &got); err != nil || got.Caption != "cut \ufffd" || got.Free != "\ufffd" {
		t.Errorf("UnmarshalStrict = %+v, %v, want U+FFFD for lone surrogates in free text", got, err)
	}
}
