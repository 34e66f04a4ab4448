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
			t.Errorf("method %s has a descriptor and is not served: %s", m.Name, got.Body)
		case m.Off != "" && got.code() != m.Off.JSONRPC():
			t.Errorf("method %s, which is off, answers %s, want %d", m.Name, got.Body, m.Off.JSONRPC())
		}
	}
	info := string(e.do("GET", "/agent/info", "", nil).Body)
	for _, m := range a2a.Methods() {
		if told := strings.Contains(info, fmt.Sprintf(`"name":%q`, m.Name)); told != (m.Off == "") {
			t.Errorf("/agent/info tells of %s: %t, want it to tell what is offered", m.Name, told)
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
			t.Errorf("%s is no section of docs/extensions.md", uri)
		}
	}
}

func TestCancelEndsStreams(t *testing.T) {
	t.Parallel()
	h, _ := hold(t)
	e := start(t, h, nil)
	s := e.open("message/stream", params(message("a")))
	first, _ := s.next()
	e.call("tasks/cancel", fmt.Sprintf(`{"id":%q}`, first.view(t).ID)).task(t)
	events := s.rest()
	if last := events[len(events)-1].view(t); last.Status.State != "canceled" || !last.Final {
		t.Errorf("last event = %+v, want a final update to canceled", last)
	}
}
