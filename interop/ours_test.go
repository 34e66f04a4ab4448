package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// ours is package client.
type ours struct {
	cfg    client.Config
	client *client.Client
}

func connectOurs(t *testing.T, cfg client.Config) *ours {
	t.Helper()
	c := connect(t, cfg)
	if i := c.Interface(); i.ProtocolVersion != cfg.Version || i.Transport != cfg.Transport {
		t.Fatalf("Discover() chose %+v, want %s over %s", i, cfg.Version, cfg.Transport)
	}
	return &ours{cfg, c}
}

func (p *ours) params(s sending) (client.SendParams, error) {
	params := client.SendParams{Configuration: &a2a.MessageSendConfiguration{Blocking: !s.immediate}}
	if s.hook != nil {
		params.Configuration.PushNotificationConfig = &a2a.PushNotificationConfig{ID: s.hook.id, URL: s.hook.url, Token: s.hook.token}
	}
	return params, json.Unmarshal(to03(s.message), &params.Message)
}

func (p *ours) send(ctx context.Context, s sending) (event, error) {
	params, err := p.params(s)
	if err != nil {
		return event{}, err
	}
	return ourEvent(p.client.Send(ctx, params))
}

func (p *ours) stream(ctx context.Context, s sending) iter.Seq2[event, error] {
	params, err := p.params(s)
	if err != nil {
		return failing(err)
	}
	return each(p.client.Stream(ctx, params), func(u client.Update, err error) (event, error) { return ourEvent(u.Event, err) })
}

func (p *ours) task(ctx context.Context, id string) (event, error) {
	return ourEvent(p.client.Task(ctx, a2a.TaskQueryParams{ID: id}))
}

func (p *ours) cancel(ctx context.Context, id string) (event, error) {
	return ourEvent(p.client.Cancel(ctx, id))
}

func ourEvent[T a2a.Event](e T, err error) (event, error) {
	if err != nil {
		var known *a2a.Error
		if errors.As(err, &known) {
			err = &failure{known.Code.JSONRPC(), err}
		}
		return event{}, err
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return event{}, err
	}
	return from03(raw)
}

// other is a server of another project.
type other struct {
	peerInfo
	start func(*testing.T) (url string)
}

func servers() []other {
	js := func(sdk string) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			_, lines := node(t, "server.mjs", sdk)
			if !lines.Scan() {
				t.Fatal("the server printed no URL")
			}
			return lines.Text()
		}
	}
	return []other{
		{peerInfo{"a2a-js 0.3.14", client.Version03, "JSON-RPC"}, js("0.3")},
		{peerInfo{"a2a-js 0.3.14", client.Version03, "HTTP+JSON"}, js("0.3")},
		{peerInfo{"a2a-js 1.3.0", client.Version10, "JSON-RPC"}, js("1.0")},
		{peerInfo{"a2a-js 1.3.0", client.Version10, "HTTP+JSON"}, js("1.0")},
		{peerInfo{"a2a-js 1.3.0", client.Version03, "JSON-RPC"}, js("1.0")},
		{peerInfo{"a2a-js 1.3.0", client.Version03, "HTTP+JSON"}, js("1.0")},
	}
}

// Package client works with servers of other projects, over each version and binding that they
// and the package have in common.
func TestServers(t *testing.T) {
	t.Parallel()
	runs := map[scenario]func(*testing.T, *ours){
		cardScenario: ourCard, sendScenario: ourSend, messageScenario: ourMessage, streamScenario: ourStream, lostScenario: ourLost, pushScenario: ourPush,
		cancelScenario: ourCancel, turnsScenario: ourTurns, filesScenario: ourFiles, errorsScenario: ourErrors,
	}
	for _, to := range servers() {
		t.Run(fmt.Sprintf("%s %s %s", to.name, to.version, to.binding), func(t *testing.T) {
			t.Parallel()
			transport := map[string]string{"JSON-RPC": client.TransportJSONRPC, "HTTP+JSON": client.TransportREST}[to.binding]
			p := connectOurs(t, client.Config{URL: to.start(t), Version: to.version, Transport: transport})
			for name, run := range runs {
				t.Run(string(name), func(t *testing.T) {
					serverResults.record(t, to.peerInfo, name)
					run(t, p)
				})
			}
		})
	}
}

func ourCard(t *testing.T, p *ours) {
	card, err := p.client.Card(t.Context())
	if err != nil || card.Name != "interop" || len(card.Skills) != 1 || !card.Capabilities.Streaming || !card.Capabilities.PushNotifications {
		t.Errorf("Card() = %+v, %v", card, err)
	}
}

// sendTask sends a message that a task answers.
func (p *ours) sendTask(t *testing.T, m message) event {
	t.Helper()
	e, err := p.send(t.Context(), sending{message: m})
	if err != nil || e.kind != "task" {
		t.Fatalf("Send(%q) = %+v, %v, want a task", text(m.parts), e, err)
	}
	return e
}

func ourSend(t *testing.T, p *ours) {
	m := say("complete")
	e := p.sendTask(t, m)
	if e.state != "completed" || e.said != "Done." || len(e.history) == 0 || e.history[0].id != m.id {
		t.Errorf("Send() = %+v, want the completed task with the message", e)
	}
	if got, err := p.task(t.Context(), e.taskID); err != nil || got.taskID != e.taskID || got.contextID != e.contextID || got.state != "completed" {
		t.Errorf("Task() = %+v, %v, want %+v", got, err, e)
	}
}

func ourMessage(t *testing.T, p *ours) {
	e, err := p.send(t.Context(), sending{message: say("message")})
	if err != nil || e.kind != "message" || e.said != "Hello." {
		t.Errorf("Send() = %+v, %v, want a message", e, err)
	}
	for e, err := range p.stream(t.Context(), sending{message: say("message")}) {
		if err != nil || e.kind != "message" || e.said != "Hello." {
			t.Errorf("Stream() = %+v, %v, want a message", e, err)
		}
	}
}

func ourStream(t *testing.T, p *ours) {
	var said, chunks []string
	events := collect(t, p.stream(t.Context(), sending{message: say("chunks")}), 0)
	for _, e := range events {
		switch e.kind {
		case "status":
			said = append(said, e.said)
		case "artifact":
			chunks = append(chunks, text(e.artifacts[0].parts))
		}
	}
	if !slices.Equal(said, []string{"thinking", "Done."}) || !slices.Equal(chunks, []string{"for", "ty-two"}) || finalState(events) != "completed" {
		t.Errorf("Stream() = statuses %q, chunks %q, final state %s", said, chunks, finalState(events))
	}
}

// The stream is cut off while the task runs. The client subscribes again and reads its end.
func ourLost(t *testing.T, p *ours) {
	var id, state string
	reconnects := 0
	cfg := p.cfg
	cfg.HTTPClient = &http.Client{Transport: &cutter{resumed: func() { go func() { _, _ = p.cancel(t.Context(), id) }() }}}
	cfg.OnReconnect = func(client.Reconnect) { reconnects++ }
	for e, err := range connectOurs(t, cfg).stream(t.Context(), sending{message: say("wait")}) {
		if err != nil {
			t.Fatalf("Stream() = %v", err)
		}
		if state = e.state; id == "" {
			id = e.taskID
		}
	}
	if reconnects != 1 || state != "canceled" {
		t.Errorf("Stream() ended in %s after %d reconnects, want canceled after one", state, reconnects)
	}
}

func ourPush(t *testing.T, p *ours) {
	url, requests := receiver(t, nil)
	e := p.sendTask(t, say("ask"))
	set, err := p.client.SetWebhook(t.Context(), a2a.TaskPushNotificationConfig{
		TaskID: e.taskID, Config: a2a.PushNotificationConfig{ID: "mine", URL: url, Token: "s3cret"},
	})
	if err != nil || set.TaskID != e.taskID || set.Config.URL != url {
		t.Fatalf("SetWebhook() = %+v, %v", set, err)
	}
	got, err := p.client.GetWebhook(t.Context(), a2a.GetTaskPushNotificationConfigParams{TaskID: e.taskID, ConfigID: "mine"})
	if err != nil || got.Config.URL != url {
		t.Errorf("GetWebhook() = %+v, %v", got, err)
	}
	if list, err := p.client.ListWebhooks(t.Context(), e.taskID); err != nil || len(list) != 1 || list[0].Config.ID != "mine" {
		t.Errorf("ListWebhooks() = %+v, %v, want one", list, err)
	}
	m := say("the red one")
	m.taskID, m.contextID = e.taskID, e.contextID
	p.sendTask(t, m)
	wantRequest(t, requests, "s3cret", "completed")
	if err := p.client.DeleteWebhook(t.Context(), e.taskID, "mine"); err != nil {
		t.Errorf("DeleteWebhook() = %v", err)
	}
	if list, err := p.client.ListWebhooks(t.Context(), e.taskID); err != nil || len(list) != 0 {
		t.Errorf("ListWebhooks() after the deletion = %+v, %v, want none", list, err)
	}
}

func ourCancel(t *testing.T, p *ours) {
	next, stop := iter.Pull2(p.stream(t.Context(), sending{message: say("wait")}))
	defer stop()
	first, err, _ := next()
	if err != nil {
		t.Fatal(err)
	}
	for e := first; e.state != "working"; {
		if e, err, _ = next(); err != nil {
			t.Fatal(err)
		}
	}
	e, err := p.cancel(t.Context(), first.taskID)
	if err != nil || e.state != "canceled" {
		t.Errorf("Cancel() = %+v, %v, want the task canceled", e, err)
	}
	last := first
	for {
		e, err, ok := next()
		if !ok {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	if last.state != "canceled" {
		t.Errorf("the stream ended with %+v, want canceled", last)
	}
}

func ourTurns(t *testing.T, p *ours) {
	asked := p.sendTask(t, say("ask"))
	if asked.state != "input-required" || asked.said != "Which one?" {
		t.Fatalf("Send() = %s %q, want input-required", asked.state, asked.said)
	}
	m := say("the red one")
	m.taskID, m.contextID = asked.taskID, asked.contextID
	e := p.sendTask(t, m)
	if e.taskID != asked.taskID || e.state != "completed" || len(e.artifacts) != 1 || text(e.artifacts[0].parts) != "You said: the red one" {
		t.Errorf("Send() = %+v, want the same task with the answer", e)
	}
}

func ourFiles(t *testing.T, p *ours) {
	e := p.sendTask(t, say("echo", bytesFile, uriFile, dataPart))
	if len(e.artifacts) != 1 {
		t.Fatalf("Send() = %+v, want one artifact", e)
	}
	want := []part{bytesFile, uriFile, dataPart}
	if p.cfg.Version == client.Version03 && p.cfg.Transport == client.TransportREST {
		want[0].name, want[1].name = "", "" // these servers have no names of files in that form
	}
	if !reflect.DeepEqual(e.artifacts[0].parts, want) {
		t.Errorf("parts = %+v, want %+v", e.artifacts[0].parts, want)
	}
}

func ourErrors(t *testing.T, p *ours) {
	const absent = "01890a5d-ac96-774b-bcce-b302099a8057"
	over := p.sendTask(t, say("complete"))
	_, err := p.task(t.Context(), absent)
	wantCode(t, "Task() of an unknown task", err, codeTaskNotFound)
	_, err = p.cancel(t.Context(), absent)
	wantCode(t, "Cancel() of an unknown task", err, codeTaskNotFound)
	_, err = p.cancel(t.Context(), over.taskID)
	wantCode(t, "Cancel() of a completed task", err, codeTaskNotCancelable)
	m := say("complete")
	m.taskID = absent
	_, err = p.send(t.Context(), sending{message: m})
	wantCode(t, "Send() to an unknown task", err, codeTaskNotFound)
}
