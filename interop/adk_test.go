package interop_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	agent1 "google.golang.org/adk/agent"
	remote15 "google.golang.org/adk/agent/remoteagent"
	remote15v2 "google.golang.org/adk/agent/remoteagent/v2"
	runner1 "google.golang.org/adk/runner"
	adka2a1 "google.golang.org/adk/server/adka2a/v2"
	session1 "google.golang.org/adk/session"
	agent2 "google.golang.org/adk/v2/agent"
	remote22 "google.golang.org/adk/v2/agent/remoteagent"
	remote22v2 "google.golang.org/adk/v2/agent/remoteagent/v2"
	runner2 "google.golang.org/adk/v2/runner"
	adka2a2 "google.golang.org/adk/v2/server/adka2a/v2"
	session2 "google.golang.org/adk/v2/session"
	"google.golang.org/genai"
)

// adkRun runs a turn of one conversation with a remote agent.
type adkRun func(ctx context.Context, streaming bool, parts ...*genai.Part) iter.Seq2[adkEvent, error]

// adkEvent is what the scenarios assert on of an ADK session event.
type adkEvent struct {
	task, context string
	parts         []*genai.Part
	failure       string
	partial       bool
	calls         []string // ids of calls that wait for the user
}

func (e adkEvent) text() string {
	var b strings.Builder
	for _, p := range e.parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// adk15 makes a remote agent of ADK-Go 1.5 for A2A 0.3.
func adk15(t *testing.T, url string) adkRun {
	t.Helper()
	a, err := remote15.NewA2A(remote15.A2AConfig{Name: "remote", AgentCardSource: url})
	if err != nil {
		t.Fatal(err)
	}
	return run1(t, a)
}

// adk15v2 makes a remote agent of ADK-Go 1.5 for A2A 1.0.
func adk15v2(t *testing.T, url string) adkRun {
	t.Helper()
	a, err := remote15v2.NewA2A(remote15v2.A2AConfig{Name: "remote", AgentCardProvider: remote15v2.NewAgentCardProvider(url)})
	if err != nil {
		t.Fatal(err)
	}
	return run1(t, a)
}

// adk22 makes a remote agent of ADK-Go 2.2 for A2A 0.3.
func adk22(t *testing.T, url string) adkRun {
	t.Helper()
	a, err := remote22.NewA2A(remote22.A2AConfig{Name: "remote", AgentCardSource: url})
	if err != nil {
		t.Fatal(err)
	}
	return run2(t, a)
}

// adk22v2 makes a remote agent of ADK-Go 2.2 for A2A 1.0.
func adk22v2(t *testing.T, url string) adkRun {
	t.Helper()
	a, err := remote22v2.NewA2A(remote22v2.A2AConfig{Name: "remote", AgentCardProvider: remote22v2.NewAgentCardProvider(url)})
	if err != nil {
		t.Fatal(err)
	}
	return run2(t, a)
}

func run1(t *testing.T, a agent1.Agent) adkRun {
	t.Helper()
	r, err := runner1.New(runner1.Config{AppName: "interop", Agent: a, SessionService: session1.InMemoryService(), AutoCreateSession: true})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, streaming bool, parts ...*genai.Part) iter.Seq2[adkEvent, error] {
		mode := agent1.StreamingModeNone
		if streaming {
			mode = agent1.StreamingModeSSE
		}
		return func(yield func(adkEvent, error) bool) {
			events := r.Run(ctx, "user", "session", &genai.Content{Role: genai.RoleUser, Parts: parts}, agent1.RunConfig{StreamingMode: mode})
			for e, err := range events {
				var got adkEvent
				if e != nil {
					task, context := adka2a1.GetA2ATaskInfo(e)
					got = adkEvent{task: string(task), context: context, failure: e.ErrorMessage, partial: e.Partial, calls: e.LongRunningToolIDs}
					if e.Content != nil {
						got.parts = e.Content.Parts
					}
				}
				if !yield(got, err) {
					return
				}
			}
		}
	}
}

func run2(t *testing.T, a agent2.Agent) adkRun {
	t.Helper()
	r, err := runner2.New(runner2.Config{AppName: "interop", Agent: a, SessionService: session2.InMemoryService(), AutoCreateSession: true})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, streaming bool, parts ...*genai.Part) iter.Seq2[adkEvent, error] {
		mode := agent2.StreamingModeNone
		if streaming {
			mode = agent2.StreamingModeSSE
		}
		return func(yield func(adkEvent, error) bool) {
			events := r.Run(ctx, "user", "session", &genai.Content{Role: genai.RoleUser, Parts: parts}, agent2.RunConfig{StreamingMode: mode})
			for e, err := range events {
				var got adkEvent
				if e != nil {
					task, context := adka2a2.GetA2ATaskInfo(e)
					got = adkEvent{task: string(task), context: context, failure: e.ErrorMessage, partial: e.Partial, calls: e.LongRunningToolIDs}
					if e.Content != nil {
						got.parts = e.Content.Parts
					}
				}
				if !yield(got, err) {
					return
				}
			}
		}
	}
}

// remoteAgent are the scenarios of ADK's remote agents, which send and stream messages of a
// conversation, and cancel the task of a run that its caller abandons.
func remoteAgent(create func(t *testing.T, url string) adkRun) map[scenario]func(*testing.T, *server) {
	with := func(run func(*testing.T, adkRun)) func(*testing.T, *server) {
		return func(t *testing.T, s *server) { run(t, create(t, s.url)) }
	}
	return map[scenario]func(*testing.T, *server){
		cardScenario:   with(adkFindsAgent),
		sendScenario:   with(adkSends),
		streamScenario: with(adkStreams),
		cancelScenario: func(t *testing.T, s *server) { adkCancels(t, create(t, s.url), connectGo03(t, s.url)) },
		turnsScenario:  with(adkContinues),
		filesScenario:  with(adkExchangesFiles),
		errorsScenario: with(adkFails),
	}
}

// turn runs a turn to its end.
func turn(t *testing.T, run adkRun, streaming bool, parts ...*genai.Part) []adkEvent {
	t.Helper()
	var all []adkEvent
	for e, err := range run(t.Context(), streaming, parts...) {
		if err != nil {
			t.Fatalf("event %d: %v", len(all)+1, err)
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		t.Fatal("the turn has no events")
	}
	return all
}

// The remote agent is made of the server's URL: it finds the card and from it the address and the version.
func adkFindsAgent(t *testing.T, run adkRun) {
	for _, e := range turn(t, run, false, genai.NewPartFromText("complete")) {
		if e.failure != "" || e.task == "" || e.context == "" {
			t.Errorf("event = %+v, want one of a task, without a failure", e)
		}
	}
}

func adkSends(t *testing.T, run adkRun) {
	events := turn(t, run, false, genai.NewPartFromText("complete"))
	if len(events) != 1 || events[0].text() != "Hello." || events[0].partial {
		t.Errorf("events = %+v, want one with %q", events, "Hello.")
	}
}

func adkStreams(t *testing.T, run adkRun) {
	for _, word := range []string{"chunks", "open"} {
		var partial, whole []string
		for _, e := range turn(t, run, true, genai.NewPartFromText(word)) {
			switch {
			case e.failure != "":
				t.Errorf("%s: failure %q", word, e.failure)
			case e.text() == "":
			case e.partial:
				partial = append(partial, e.text())
			default:
				whole = append(whole, e.text())
			}
		}
		if !slices.Equal(partial, []string{"thinking", "for", "ty-two"}) || !slices.Equal(whole, []string{"forty-two", "Done."}) {
			t.Errorf("%s: partial events %q and whole events %q", word, partial, whole)
		}
	}
}

func adkCancels(t *testing.T, run adkRun, p peer) {
	var id string
	for e, err := range run(t.Context(), true, genai.NewPartFromText("wait")) {
		if err != nil {
			t.Fatal(err)
		}
		id = e.task
		break
	}
	for end := time.Now().Add(20 * time.Second); ; {
		e, err := p.task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if e.state == "canceled" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("task is %s, want canceled", e.state)
		}
	}
}

// The user answers the call that the agent waits for, in the same task.
func adkContinues(t *testing.T, run adkRun) {
	events := turn(t, run, true, genai.NewPartFromText("ask"))
	asked := events[len(events)-1]
	if !strings.Contains(asked.text(), "Which one?") || !slices.Equal(asked.calls, []string{"call-1"}) {
		t.Fatalf("first turn = %+v, want a question with a call", events)
	}
	answer := genai.NewPartFromFunctionResponse("choose", map[string]any{"result": "the red one"})
	answer.FunctionResponse.ID = "call-1"
	events = turn(t, run, true, answer)
	said := ""
	for _, e := range events {
		if e.task != asked.task || e.context != asked.context {
			t.Errorf("second turn: event %+v is of another task than %s", e, asked.task)
		}
		said += e.text()
	}
	if !strings.Contains(said, "You said: the red one") {
		t.Errorf("second turn = %q, want the answer", said)
	}
	third := turn(t, run, false, genai.NewPartFromText("complete"))
	if third[0].task == asked.task || third[0].context != asked.context {
		t.Errorf("third turn = %+v, want another task in context %s", third, asked.context)
	}
}

func adkExchangesFiles(t *testing.T, run adkRun) {
	content := []byte("\x00\xff binary")
	events := turn(t, run, false, genai.NewPartFromText("echo"),
		genai.NewPartFromBytes(content, "application/octet-stream"), genai.NewPartFromURI("https://example.com/b.txt", "text/plain"))
	parts := events[0].parts
	if len(parts) < 2 || parts[0].InlineData == nil || parts[1].FileData == nil {
		t.Fatalf("parts = %+v, want both files", parts)
	}
	if b := parts[0].InlineData; !slices.Equal(b.Data, content) || b.MIMEType != "application/octet-stream" {
		t.Errorf("bytes = %q of %s", b.Data, b.MIMEType)
	}
	if f := parts[1].FileData; f.FileURI != "https://example.com/b.txt" || f.MIMEType != "text/plain" {
		t.Errorf("uri = %s of %s", f.FileURI, f.MIMEType)
	}
}

func adkFails(t *testing.T, run adkRun) {
	for _, streaming := range []bool{false, true} {
		events := turn(t, run, streaming, genai.NewPartFromText("fail"))
		if got := events[len(events)-1].failure; !strings.Contains(got, "Broken.") {
			t.Errorf("failure = %q, want the task's", got)
		}
		events = turn(t, run, streaming, genai.NewPartFromText("reject"))
		if got := events[len(events)-1]; got.failure != "" || got.text() != "No." {
			t.Errorf("rejection = %+v, want its text", got)
		}
	}
}
