package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
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
