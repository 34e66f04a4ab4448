package server_test

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
)

// mutants returns copies of value: one for each string and member name, which it replaces by
// long, and one for each list, to which it adds long.
func mutants(value any, long string) (all []any) {
	switch v := value.(type) {
	case string:
		return []any{long}
	case []any:
		all = append(all, append(slices.Clone(v), long))
		if len(v) > 0 {
			all = append(all, slices.Repeat(v[:1], 5_000), slices.Repeat([]any{"\t"}, 5_000))
		}
		for i := range v {
			for _, m := range mutants(v[i], long) {
				c := slices.Clone(v)
				c[i] = m
				all = append(all, c)
			}
		}
	case map[string]any:
		for key := range v {
			for _, m := range mutants(v[key], long) {
				c := maps.Clone(v)
				c[key] = m
				all = append(all, c)
			}
		}
		c := maps.Clone(v)
		c[long] = map[string]any{long: long}
		all = append(all, c, long)
	default:
		all = append(all, long, []any{long})
	}
	return all
}

func TestErrorsDoNotEchoLongInput(t *testing.T) {
	t.Parallel()
	st := newStore()
	on := withWebhook(t, st)
	e := startConfig(t, engine.Config{Store: st, Handler: echo, NewID: newID, OutputModes: []string{"application/x-none"}}, on)
	ts := httptest.NewServer(e.server)
	t.Cleanup(ts.Close)
	e.url, e.client = ts.URL, ts.Client()
	long := strings.Repeat("é\n", 10_000)
	hooks := `"pushNotificationConfig":{"id":"w","url":"https://a.example/","token":"t","authentication":{"schemes":["Bearer"],"credentials":"c","type":"apiKey","in":"header","name":"n"},"payloadFormat":"event","signatures":["v1"]}`
	more := map[string]string{
		a2a.MethodSend: `{"message":{"messageId":"m","taskId":"t","contextId":"c","role":"user","referenceTaskIds":["r"],"metadata":{"a":"b"},"parts":[{"kind":"text","text":"a"},
			{"kind":"file","file":{"name":"n","mimeType":"text/plain","uri":"https://a.example/"}},{"kind":"file","file":{"bytes":"YQ=="}},{"kind":"data","data":{"a":1}}]},
			"configuration":{"acceptedOutputModes":["text/plain"],"historyLength":1,"blocking":true,` + hooks + `}}`,
		a2a.MethodList:                 `{"contextId":"c","states":["working"],"status":"working","statusTimestampAfter":"2020-01-01T00:00:00Z","pageSize":1,"pageToken":"x"}`,
		a2a.MethodContextsList:         `{"pageToken":"x","pageSize":1}`,
		a2a.MethodFeedbackList:         `{"taskId":"x","pageToken":"x"}`,
		a2a.MethodPushSet:              `{"taskId":"x",` + hooks + `}`,
		a2a.MethodPushGet:              `{"id":"x","pushNotificationConfigId":"y"}`,
		a2a.MethodPushList:             `{"id":"x"}`,
		a2a.MethodPushDelete:           `{"id":"x","pushNotificationConfigId":"y"}`,
		a2a.MethodDeadLetters:          `{"taskId":"x","pageToken":"x"}`,
		a2a.MethodPushReplay:           `{"taskId":"x","pushNotificationConfigId":"y","fromSequence":1}`,
		a2a.MethodPushAttempts:         `{"taskId":"x","pageToken":"x"}`,
		a2a.MethodContextsUpdate + " ": `{"contextId":"c","status":"x"}`,
	}
	check := func(method, text string) {
		t.Helper()
		var valid any
		if err := json.Unmarshal([]byte(text), &valid); err != nil {
			t.Fatalf("%s %s: %v", method, text, err)
		}
		for _, mutant := range mutants(valid, long) {
			raw, err := json.Marshal(mutant)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.call(method, string(raw)); got.Error != nil && len(got.Body) > 4096 {
				t.Errorf("%s %.600s: error of %d bytes: %.300s", method, strings.ReplaceAll(string(raw), strings.ReplaceAll(long, "\n", `\n`), "LONG"), len(got.Body), got.Body)
			}
		}
	}
	for method, text := range sampleParams {
		if method != a2a.MethodStream {
			check(method, text)
		}
	}
	for method, text := range more {
		check(strings.TrimSpace(method), text)
	}
	for _, got := range []reply{
		e.call(strings.Repeat("m", 200_000), `{}`), e.do("GET", "/"+strings.Repeat("p", 20_000), "", nil),
		e.post(`{}`, "Content-Type", strings.Repeat("c", 20_000)), e.post(`{}`, "Content-Encoding", strings.Repeat("c", 20_000)),
		e.call(a2a.MethodGet, `{"id":"x"}`, "Idempotency-Key", strings.Repeat("k", 20_000)),
		e.call(a2a.MethodSend, params(message("a")), "Idempotency-Key", strings.Repeat("k", 20_000)),
		e.call(a2a.MethodResubscribe, `{"id":"x"}`, "Last-Event-Id", strings.Repeat("k", 20_000)),
	} {
		if len(got.Body) > 4096 {
			t.Errorf("error of %d bytes: %.300s", len(got.Body), got.Body)
		}
	}
}
