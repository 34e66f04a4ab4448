//go:build faults

package faults_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// A message that answers in place of a task survives a kill before its commit, and between its
// commit and the response: a repeated request gets it.
func TestMessageAnswerSurvivesKill(t *testing.T) {
	parallel(t)
	for name, open := range map[string]func(t *testing.T) (*site, func() *process){
		"SQLite": func(t *testing.T) (*site, func() *process) {
			s := newSite(t, "-message-wait", "1m")
			return s, s.start
		},
		"PostgreSQL": func(t *testing.T) (*site, func() *process) {
			c := newEmptyCluster(t, pgtest.URL(t), 1)
			c.args = []string{"-message-wait", "1m", "-lease", "5s"}
			return c.site, func() *process {
				c.start(0, c.db)
				return c.replicas[0]
			}
		},
	} {
		for _, text := range []string{"say", "say killed"} {
			for _, request := range []answerRequest{
				{method: "message/send", key: "k"}, {method: "message/send"}, {method: "message/stream"},
			} {
				t.Run(fmt.Sprintf("%s: %s %s %s", name, text, request.method, request.key), func(t *testing.T) {
					parallel(t)
					s, start := open(t)
					request.text, request.id = text, newID()
					p := start()
					if resp, err := request.send(p); err == nil {
						_, _ = resp.Body.Read(make([]byte, 1)) // the answer is stored, and the rest of the response is lost
						_ = resp.Body.Close()
					}
					p.kill()
					p = start()
					first := request.answer(t, p)
					p.kill()
					if again := request.answer(t, start()); again != first {
						t.Errorf("repeated request = %s, want the first answer %s", again, first)
					}
					starts := 0
					for _, e := range s.done() {
						if e.what == "begin" {
							starts++
						}
					}
					if want := 1 + strings.Count(text, "killed"); starts != want {
						t.Errorf("the handler started %d times, want %d", starts, want)
					}
				})
			}
		}
	}
}

// answerRequest is a request that can be repeated.
type answerRequest struct{ method, key, id, text string }

// send sends the request and returns when the response has started.
func (r *answerRequest) send(p *process) (*http.Response, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"message":{"messageId":%q,"role":"user","parts":[{"kind":"text","text":%q}]},"configuration":{"blocking":true}}}`, r.method, r.id, r.text)
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	return httpClient.Do(req)
}

// answer sends the request and returns the message that answers it.
func (r *answerRequest) answer(t *testing.T, p *process) string {
	t.Helper()
	resp, err := r.send(p)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answers []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line, data := strings.CutPrefix(lines.Text(), "data: ")
		if !data && !strings.HasPrefix(line, "{") {
			continue
		}
		var got struct {
			Result struct{ Kind, MessageID, ContextID, TaskID string }
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if m := got.Result; m.Kind != "message" || m.MessageID == "" || m.ContextID == "" || m.TaskID != "" {
			t.Errorf("answer = %s, want a message without a task", line)
		}
		answers = append(answers, got.Result.MessageID)
	}
	if len(answers) != 1 {
		t.Fatalf("%d answers %v, want the message alone", len(answers), answers)
	}
	return answers[0]
}
