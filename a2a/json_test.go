package a2a_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// values returns values of all struct types: the types of the catalogue, with all members and
// with the required ones, and results that are not in the catalogue.
func values(t testing.TB) (all []reflect.Value) {
	t.Helper()
	c := readCatalogue(t)
	for _, name := range c.names {
		entry := c.types[name]
		if entry.Kind != "object" {
			continue
		}
		for _, document := range []any{c.fullExample(entry), c.examples[name]} {
			v := reflect.New(goTypes[name])
			if err := wire.Unmarshal(text(document), v.Interface()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all = append(all, v)
		}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 120e6, time.UTC)
	for _, v := range []any{
		&a2a.ListTasksResult{Tasks: []a2a.Task{{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateWorking}}}},
		&a2a.ListContextsResult{Contexts: []a2a.Context{{ID: "c", Role: "r", CreatedAt: at, UpdatedAt: at}}},
		&a2a.ListTaskFeedbackResult{Feedback: []a2a.TaskFeedback{{ID: "f", TaskID: "t", CreatedAt: at}}, Summary: a2a.FeedbackSummary{Ratings: map[string]int{"5": 1}}},
		&a2a.ListDeadLettersResult{DeadLetters: []a2a.DeadLetter{{TaskID: "t"}}},
		&a2a.ListAttemptsResult{Attempts: []a2a.PushAttempt{{TaskID: "t", At: at}}},
		&a2a.ListTasksParams{StatusAfter: at},
	} {
		all = append(all, reflect.ValueOf(v))
	}
	return all
}

func TestEncodingJSONAgreesWithTheCodec(t *testing.T) {
	t.Parallel()
	for _, v := range values(t) {
		want, err := wire.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		for _, encoded := range []any{v.Interface(), v.Elem().Interface()} {
			if got, err := json.Marshal(encoded); err != nil || !reflect.DeepEqual(plain(t, got), plain(t, want)) {
				t.Errorf("json.Marshal(%T) = %s, %v, want %s", encoded, got, err, want)
			}
		}
		again := reflect.New(v.Type().Elem())
		if err := json.Unmarshal(want, again.Interface()); err != nil || !reflect.DeepEqual(again.Interface(), v.Interface()) {
			t.Errorf("json.Unmarshal(%s) into %T = %v, %v", want, v.Interface(), again.Elem(), err)
		}
	}
}

func plain(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return v
}
