package server_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/server"
)

func TestEveryMethodHasABinding(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, m := range a2a.Methods() {
		got := e.call(m.Name, `{}`)
		switch {
		case got.Error != nil && got.Error.Code == -32601:
			t.Errorf("method %s has a descriptor but no binding: %s", m.Name, got.Body)
		case m.Off != "" && got.code() != m.Off.JSONRPC():
			t.Errorf("method %s, which is off, = %s, want %d", m.Name, got.Body, m.Off.JSONRPC())
		}
	}
	info := string(e.do("GET", "/agent/info", "", nil).Body)
	for _, m := range a2a.Methods() {
		if listed := strings.Contains(info, fmt.Sprintf(`"name":%q`, m.Name)); listed != (m.Off == "") {
			t.Errorf("/agent/info lists %s: %t, want only supported methods", m.Name, listed)
		}
	}
}

func TestExtensionsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := make(map[string]bool)
	for line := range strings.Lines(string(doc)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			anchors[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-")] = true
		}
	}
	for _, uri := range []string{server.ExtensionList, server.ExtensionResume, server.ExtensionRepeatable, server.ExtensionClientIDs, server.ExtensionContexts, server.ExtensionFeedback, server.ExtensionWebhooks} {
		if file, anchor, _ := strings.Cut(uri, "#"); !strings.HasSuffix(file, "/docs/extensions.md") || !anchors[anchor] {
			t.Errorf("%s has no section in docs/extensions.md", uri)
		}
	}
}

func TestCancelEndsStreams(t *testing.T) {
	t.Parallel()
	h, _ := blockingHandler(t)
	e := start(t, h, nil)
	s := e.open("message/stream", params(message("a")))
	first, _ := s.next()
	e.call("tasks/cancel", fmt.Sprintf(`{"id":%q}`, first.view(t).ID)).task(t)
	events := s.rest()
	if last := events[len(events)-1].view(t); last.Status.State != "canceled" || !last.Final {
		t.Errorf("last event = %+v, want a final update to canceled", last)
	}
}
