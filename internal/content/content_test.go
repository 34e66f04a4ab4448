package content_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/content"
)

// lookupIn returns a function that finds cut values by their hash.
func lookupIn(values []content.Value) func(hash []byte) ([]byte, error) {
	return func(hash []byte) ([]byte, error) {
		for _, v := range values {
			if bytes.Equal(v.Hash[:], hash) {
				return []byte(v.JSON), nil
			}
		}
		return nil, errors.New("not found")
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestLargeValuesAreCutAndPutBack(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	long, other := strings.Repeat(`x"\é`, content.Size/4), strings.Repeat("y", content.Size)
	list := make([]int, content.Size/2)
	message := func(parts ...any) m { return m{"parts": parts} }
	tests := []struct {
		name     string
		value    any
		cut      int    // different values
		artifact string // what is left of it without artifacts
	}{
		{"short", []any{m{"received": message(m{"text": "short"})}}, 0, ""},
		{"at the limit", []any{m{"received": message(m{"text": strings.Repeat("x", content.Size-2)})}}, 0, ""},
		{"many short", []any{m{"received": message(m{"text": other[1:20000]}, m{"text": other[1:20001]}, m{"text": other[1:30000]})}}, 0, ""},
		{"message", []any{m{"received": message(m{"text": long})}, m{"state": "working"}}, 1, ""},
		{"the same twice", []any{m{"received": message(m{"text": long}, m{"file": m{"bytes": long}})}}, 1, ""},
		{"artifact", []any{m{"artifact": message(m{"text": long}, m{"text": "end"})}}, 1, `[{"artifact":{"parts":[{"text":""},{"text":"end"}]}}]`},
		{"data", []any{m{"artifact": message(m{"data": m{"list": list, "text": long}, "kind": "data"})}}, 1, `[{"artifact":{"parts":[{"data":"","kind":"data"}]}}]`},
		{"short data, then large", []any{m{"artifact": message(m{"data": m{"a": "]}\""}}, m{"data": list})}}, 1, `[{"artifact":{"parts":[{"data":{"a":"]}\""}},{"data":""}]}}]`},
		{"metadata named artifact", m{"metadata": m{"artifact": long, "data": 1}, "history": []any{m{"a": other}}}, 2, ""},
		{"snapshot", m{"artifacts": []any{message(m{"text": long})}, "history": []any{m{"message": message(m{"text": other})}}}, 2, `{"artifacts":[{"parts":[{"text":""}]}],"history":[{"message":{"parts":[{"text":"` + other + `"}]}}]}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text := encode(t, test.value)
			cut, values := content.Cut(text, nil)
			if len(values) != test.cut || test.cut > 0 && len(cut) > content.Size || !json.Valid([]byte(cut)) {
				t.Errorf("Cut() = %d bytes and %d values, want little JSON and %d values", len(cut), len(values), test.cut)
			}
			got, err := content.Join([]byte(cut), false, lookupIn(values))
			if err != nil || string(got) != text {
				t.Errorf("Join(Cut()) = %d bytes, %v, want the %d bytes cut", len(got), err, len(text))
			}
			want := test.artifact
			if want == "" {
				want = text
			}
			got, err = content.Join([]byte(cut), true, lookupIn(values))
			if err != nil || string(got) != want {
				t.Errorf("Join() without artifacts = %.200s, %v, want %.200s", got, err, want)
			}
		})
	}
}

func TestNothingThatIsSentReadsAsAReference(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("secret", content.Size)
	_, values := content.Cut(encode(t, []any{long}), nil)
	ref := fmt.Sprintf(`\u001AM%s`, hex.EncodeToString(values[0].Hash[:]))
	for _, text := range []string{`["` + ref + `"]`, `["\\` + ref + `"]`, `["\"` + ref + `"]`, `[{"` + ref + `":1}]`, `["` + ref + `",` + encode(t, long) + `]`} {
		cut, more := content.Cut(text, values)
		got, err := content.Join([]byte(cut), false, lookupIn(more))
		if err != nil || !sameJSON(t, got, []byte(text)) {
			t.Errorf("Join(Cut(%.90s)) = %.90s, %v, want the same", text, got, err)
		}
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Error(err)
	}
	return encode(t, x) == encode(t, y)
}

func TestMissingContentIsAnError(t *testing.T) {
	t.Parallel()
	cut, _ := content.Cut(encode(t, []string{strings.Repeat("x", content.Size)}), nil)
	for _, text := range []string{cut, cut[:len(cut)-5], strings.Replace(cut, "M", "M~", 1)} {
		if got, err := content.Join([]byte(text), false, lookupIn(nil)); err == nil {
			t.Errorf("Join(%s) = %s, want an error", text, got)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add(`{"a":[1,"\u001AM",{"data":{"b":"]"}}]}`, 3)
	f.Add(`[{"artifact":{"data":[true,null,"\\\""]}},{"data":1,"x":[{}]}]`, 70_000)
	f.Fuzz(func(t *testing.T, text string, n int) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil || n < 0 || n > 1<<20 {
			return
		}
		text = encode(t, []any{v, map[string]any{"data": v, "text": strings.Repeat(`\"`, n)}, v})
		cut, values := content.Cut(text, nil)
		got, err := content.Join([]byte(cut), false, lookupIn(values))
		if err != nil || string(got) != text || !json.Valid([]byte(cut)) {
			t.Fatalf("Join(Cut(%s)) = %s, %v", text, got, err)
		}
	})
}
