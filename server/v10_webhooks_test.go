package server_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/server"
)

// A2A 1.0 pages the webhooks of a task, over both bindings. A2A 0.3 returns all.
func TestWebhookListPages(t *testing.T) {
	t.Parallel()
	h, release := blockingHandler(t)
	defer release()
	st := newStore()
	on := withWebhook(t, st)
	e := startOn(t, st, h, func(c *server.Config) { twoTokens(c); on(c) })
	alice, bob := as("alice"), as("bob")
	open := func(who []string) string { return e.call("message/send", params(message("a")), who...).task(t).ID }
	task, other := open(alice), open(alice)
	want := []string{"a", "b", "c", "d", "e"}
	for _, id := range []string{"d", "b", "e", "a", "c"} {
		set := fmt.Sprintf(`{"taskId":%q,"pushNotificationConfig":{"id":%q,"url":"https://example.com/%s"}}`, task, id, id)
		if got := e.call("tasks/pushNotificationConfig/set", set, alice...); got.code() != 0 {
			t.Fatal(string(got.Body))
		}
	}
	type page struct {
		Configs       []struct{ ID string }
		NextPageToken *string
	}
	read := func(raw []byte) (ids []string, token string) {
		var p page
		if err := json.Unmarshal(raw, &p); err != nil || p.Configs == nil {
			t.Fatalf("page = %s, want configs", raw)
		}
		for _, c := range p.Configs {
			ids = append(ids, c.ID)
		}
		if p.NextPageToken != nil {
			token = *p.NextPageToken
		}
		return ids, token
	}
	bindings := map[string]func(size int, token string) []byte{
		"JSON-RPC": func(size int, token string) []byte {
			return e.call("ListTaskPushNotificationConfigs", fmt.Sprintf(`{"taskId":%q,"pageSize":%d,"page_token":%q}`, task, size, token), alice...).Result
		},
		"HTTP+JSON": func(size int, token string) []byte {
			return e.do("GET", fmt.Sprintf("/tasks/%s/pushNotificationConfigs?pageSize=%d&pageToken=%s", task, size, token), "", alice).Body
		},
	}
	for name, list := range bindings {
		for size := range 7 {
			var all []string
			token := ""
			for {
				ids, next := read(list(size, token))
				if full := min(cmp.Or(size, 5), 5-len(all)); len(ids) != full || (next == "") != (len(all)+full == 5) {
					t.Errorf("%s: page of %d after %v = %v with next page %t", name, size, all, ids, next != "")
				}
				all = append(all, ids...)
				if token = next; token == "" || len(all) > 5 {
					break
				}
			}
			if !slices.Equal(all, want) {
				t.Errorf("%s: pages of %d have %v, want %v", name, size, all, want)
			}
		}
	}
	_, token := read(bindings["JSON-RPC"](2, ""))
	if got := e.call("tasks/pushNotificationConfig/list", fmt.Sprintf(`{"id":%q,"pageSize":2,"pageToken":%q}`, task, token), alice...); strings.Count(string(got.Result), `"taskId"`) != 5 || got.Result[0] != '[' {
		t.Errorf("list of A2A 0.3 = %s, want an array of all 5", got.Result)
	}
	for _, bad := range []struct {
		params string
		who    []string
		code   int
		field  string
	}{
		{fmt.Sprintf(`{"taskId":%q,"pageSize":-1}`, task), alice, -32602, "pageSize"},
		{fmt.Sprintf(`{"taskId":%q,"pageSize":101}`, task), alice, -32602, "pageSize"},
		{fmt.Sprintf(`{"taskId":%q,"pageToken":"x"}`, task), alice, -32602, "pageToken"},
		{fmt.Sprintf(`{"taskId":%q,"pageToken":%q}`, other, token), alice, -32602, "pageToken"},
		{fmt.Sprintf(`{"taskId":%q,"pageToken":%q}`, task, token), bob, -32001, ""},
	} {
		if got := e.body("ListTaskPushNotificationConfigs", bad.params, bad.who...); !strings.Contains(got, fmt.Sprintf(`"code":%d`, bad.code)) || !strings.Contains(got, bad.field) {
			t.Errorf("list %s = %s, want %d on %s", bad.params, got, bad.code, bad.field)
		}
	}
}

// The config "default" is the only one of a task or its newest, unless one has this id.
func TestDefaultWebhookIsTheNewest(t *testing.T) {
	t.Parallel()
	h, release := blockingHandler(t)
	defer release()
	st := newStore()
	e := startOn(t, st, h, withWebhook(t, st))
	task := e.call("message/send", params(message("a"))).task(t).ID
	get := func(params string) string {
		return e.body("tasks/pushNotificationConfig/get", fmt.Sprintf(`{"id":%q%s}`, task, params))
	}
	if got := get(`,"pushNotificationConfigId":"default"`); !strings.Contains(got, "not found") || !strings.Contains(got, fmt.Sprint(a2a.CodePushConfigNotFound.JSONRPC())) {
		t.Errorf("get without webhooks = %s, want an error", got)
	}
	for _, id := range []string{"z", "default"} {
		e.call("tasks/pushNotificationConfig/set", fmt.Sprintf(`{"taskId":%q,"pushNotificationConfig":{"id":%q,"url":"https://example.com/%s"}}`, task, id, id))
		for _, params := range []string{"", `,"pushNotificationConfigId":"default"`} {
			if got := get(params); !strings.Contains(got, `"url":"https://example.com/`+id+`"`) {
				t.Errorf("get %s = %s, want webhook %s", params, got, id)
			}
		}
	}
}
