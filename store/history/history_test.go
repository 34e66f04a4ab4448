package history_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/history"
)

func TestErrorsHaveCodes(t *testing.T) {
	t.Parallel()
	conflict := fmt.Errorf("append: %w", &history.ConflictError{Expected: 4, Newest: 7})
	if !errors.Is(conflict, history.ErrConflict) || a2a.CodeOf(conflict) != a2a.CodeConflict || !strings.Contains(conflict.Error(), "newest message is 7, expected 4") {
		t.Errorf("ConflictError = %v (%s)", conflict, a2a.CodeOf(conflict))
	}
	for err, code := range map[error]a2a.Code{history.ErrFenced: a2a.CodeConflict, history.ErrExists: a2a.CodeConflict, history.ErrNotFound: a2a.CodeNotFound} {
		if a2a.CodeOf(err) != code || errors.Is(err, history.ErrConflict) {
			t.Errorf("%v has code %s, want %s", err, a2a.CodeOf(err), code)
		}
	}
}

func TestTextIsFolded(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`null`:                              "",
		`[1,true,{}]`:                       "",
		`"A\tB\\ \"C\" \u00c9"`:             `a b\ "c" é`,
		`{"Key":"One","k\":":["Two ","x"]}`: "one two x",
		`{"a" : {"b":""}, "c":"\\"}`:        `\`,
	} {
		if got := history.Text([]byte(body)); got != want {
			t.Errorf("Text(%s) = %q, want %q", body, got, want)
		}
	}
	for _, char := range []string{"x", "\u00e9", "\u212a", "\U0001f600"} {
		if got := history.Text([]byte(`"` + strings.Repeat(char, history.MaxSearchText) + `"`)); len(got) > history.MaxSearchText || len(got) < history.MaxSearchText-4 || !utf8.ValidString(got) {
			t.Errorf("Text() of many %q has %d bytes, want up to %d", char, len(got), history.MaxSearchText)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte(`{"a":"b","c":["\u00e9\\"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if !utf8.Valid(body) || !json.Valid(body) {
			return
		}
		if text := history.Text(body); len(text) > history.MaxSearchText || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Errorf("Text(%q) = %q", body, text)
		}
	})
}
