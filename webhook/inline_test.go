package webhook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func TestOwnersWebhookReplacesTheGlobalOne(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, func(c *Config) { c.Global = Global{URL: "https://example.com/global"} }), t.Context()
	in, err := f.Prepare(ctx, alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	task := store.Key{Owner: "alice", ID: "open"}
	newHooks, err := in.Webhooks(ctx, task, 0)
	if err != nil || len(newHooks) != 1 || newHooks[0].ID != GlobalID || newHooks[0].Endpoint != "https://example.com:443" {
		t.Fatalf("Push of a new task = %+v, %v, want the global webhook", newHooks, err)
	}
	log := testLog()
	f.commit(store.Change{Key: task, Create: &store.Create{ContextID: "ctx"}, Events: log[:2], Queue: &store.QueueEntry{Phase: store.PhaseIdle}, Webhooks: newHooks})
	if later, err := in.Webhooks(ctx, task, 2); err != nil || later != nil {
		t.Errorf("Push of a later message = %+v, %v, want none", later, err)
	}
	lanes := func() (ids []string) {
		t.Helper()
		page, err := f.cfg.Store.Lanes(ctx, store.LaneQuery{Owner: "alice", TaskID: "open", Limit: 9})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Lanes {
			id := fmt.Sprintf("%s@%d", l.Webhook.ID, l.Cursor.Seq)
			if through := globalThrough(&l.Webhook); through > 0 {
				id += fmt.Sprintf("-%d", through)
			}
			ids = append(ids, id)
		}
		return ids
	}
	same := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, lanes()); diff != "" {
			t.Errorf("lanes %s differ (-want +got):\n%s", what, diff)
		}
	}
	same("at first", "global@0")
	if all, err := f.List(ctx, alice, a2a.ListTaskPushNotificationConfigParams{TaskID: "open"}); err != nil || len(all.Configs) != 0 {
		t.Errorf("List = %v, %v, want the global webhook hidden", all, err)
	}
	if err := f.Delete(ctx, alice, a2a.DeleteTaskPushNotificationConfigParams{TaskID: "open", ConfigID: GlobalID}); err != nil {
		t.Errorf("Delete(global) = %v, want nil as for a webhook that does not exist", err)
	}
	same("after Delete(global)", "global@0")
	for _, id := range []string{"a", "b"} {
		if _, err := f.Set(ctx, alice, a2a.TaskPushNotificationConfig{TaskID: "open", Config: a2a.PushNotificationConfig{ID: id, URL: hookURL}}); err != nil {
			t.Fatal(err)
		}
	}
	same("with the owner's webhooks", "a@2", "b@2", "global@0-2")
	f.commit(store.Change{Key: task, Version: 2, Events: log[2:3]})
	for _, id := range []string{"a", "b"} {
		if err := f.Delete(ctx, alice, a2a.DeleteTaskPushNotificationConfigParams{TaskID: "open", ConfigID: id}); err != nil {
			t.Fatal(err)
		}
	}
	same("after these were deleted", "global@0")

	// A message with a webhook does the same.
	in, err = f.Prepare(ctx, alice, &a2a.MessageSendConfiguration{PushNotificationConfig: &a2a.PushNotificationConfig{ID: "c", URL: hookURL}})
	if err != nil {
		t.Fatal(err)
	}
	if newHooks, err = in.Webhooks(ctx, task, 3); err != nil {
		t.Fatal(err)
	}
	f.commit(store.Change{Key: task, Version: 3, Events: log[3:4], Webhooks: newHooks})
	in.AfterCommit(ctx)
	same("with the webhook of a message", "c@3", "global@0-3")
}

func TestRepeatedMessageDoesNotReplaceItsWebhook(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, nil), t.Context()
	task := store.Key{Owner: "alice", ID: "t"}
	webhook := func(config a2a.PushNotificationConfig, longRunning bool, seq int64) []store.NewWebhook {
		t.Helper()
		in, err := f.Prepare(ctx, alice, &a2a.MessageSendConfiguration{PushNotificationConfig: &config, LongRunning: longRunning})
		if err != nil {
			t.Fatal(err)
		}
		first, err := in.Webhooks(ctx, task, seq)
		if err != nil {
			t.Fatal(err)
		}
		again, err := in.Webhooks(ctx, task, seq)
		if err != nil || len(again) != len(first) || len(first) > 0 && again[0].ID != first[0].ID {
			t.Errorf("Push again = %+v, %v, want the same id as before: %+v", again, err, first)
		}
		return first
	}
	if got := webhook(a2a.PushNotificationConfig{URL: hookURL}, true, 0); len(got) != 1 || got[0].ID == "" || !got[0].LongRunning || got[0].Cursor.Seq != 0 {
		t.Errorf("webhook of a new task = %+v, want one with an id at the first event", got)
	}
	made := f.set(a2a.PushNotificationConfig{URL: hookURL, Token: "x"}).Config
	if got := webhook(a2a.PushNotificationConfig{URL: hookURL, Token: "x"}, false, 7); got != nil {
		t.Errorf("webhook of a message with the saved config = %+v, want none", got)
	}
	if got := webhook(a2a.PushNotificationConfig{ID: made.ID, URL: hookURL, Token: Mask}, false, 7); got != nil {
		t.Errorf("webhook of a message with the masked config = %+v, want none", got)
	}
	if got := webhook(a2a.PushNotificationConfig{URL: hookURL, Token: "y"}, false, 7); len(got) != 1 || got[0].ID != made.ID {
		t.Errorf("webhook of a message with another token = %+v, want it to replace %s", got, made.ID)
	}
	if got := webhook(a2a.PushNotificationConfig{URL: hookURL + "/2"}, false, 7); len(got) != 1 || got[0].ID == made.ID || got[0].Cursor.Sequence != 6 {
		t.Errorf("webhook of a message with another URL = %+v, want a new one at the current event", got)
	}
}

func TestFirstSetReturnsTheSecretOfAMessageWebhook(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, nil), t.Context()
	in, err := f.Prepare(ctx, alice, &a2a.MessageSendConfiguration{PushNotificationConfig: &a2a.PushNotificationConfig{ID: "w", URL: hookURL, Signatures: []string{"v1a"}}})
	if err != nil {
		t.Fatal(err)
	}
	newHooks, err := in.Webhooks(ctx, store.Key{Owner: "alice", ID: "t"}, 7)
	if err != nil {
		t.Fatal(err)
	}
	f.commit(store.Change{Key: store.Key{Owner: "alice", ID: "new"}, Create: &store.Create{ContextID: "ctx"}, Events: testLog()[:1], Queue: &store.QueueEntry{Phase: store.PhaseIdle}, Webhooks: newHooks})
	set := func(versions ...string) string {
		t.Helper()
		got, err := f.Set(ctx, alice, a2a.TaskPushNotificationConfig{TaskID: "new", Config: a2a.PushNotificationConfig{ID: "w", URL: hookURL, Signatures: versions}})
		if err != nil {
			t.Fatal(err)
		}
		return got.Config.SigningSecret
	}
	if got := set("v1a"); got != "" {
		t.Errorf("Set with v1a only returns the secret %q", got)
	}
	if got := set("v1", "v1a"); !strings.HasPrefix(got, "whsec_") {
		t.Errorf("first Set with v1 returns %q, want the secret", got)
	}
	f.at.Add(int64(secretResendWindow))
	if got := set("v1"); got != "" {
		t.Errorf("next Set returns the secret %q again", got)
	}
}
