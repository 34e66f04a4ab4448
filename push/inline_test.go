package push

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func TestGlobalWebhookGivesWay(t *testing.T) {
	t.Parallel()
	k, ctx := newKeeper(t, func(c *Config) { c.Global = Global{URL: "https://example.com/global"} }), t.Context()
	in, err := k.Prepare(ctx, alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	task := store.Key{Owner: "alice", ID: "open"}
	brought, err := in.Push(ctx, task, 0)
	if err != nil || len(brought) != 1 || brought[0].ID != GlobalID || brought[0].Endpoint != "https://example.com:443" {
		t.Fatalf("a new task brings %+v, %v, want the global webhook", brought, err)
	}
	log := testLog()
	k.commit(store.Change{Key: task, Create: &store.Create{ContextID: "ctx"}, Events: log[:2], Run: &store.Run{Phase: store.PhaseIdle}, Push: brought})
	if later, err := in.Push(ctx, task, 2); err != nil || later != nil {
		t.Errorf("a later message brings %+v, %v, want nothing", later, err)
	}
	lanes := func() (ids []string) {
		t.Helper()
		page, err := k.cfg.Store.Lanes(ctx, store.LaneQuery{Owner: "alice", TaskID: "open", Limit: 9})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Lanes {
			id := fmt.Sprintf("%s@%d", l.Config.ID, l.Cursor.Seq)
			if through := globalThrough(&l.Config); through > 0 {
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
	if all, err := k.List(ctx, alice, a2a.ListTaskPushNotificationConfigParams{TaskID: "open"}); err != nil || len(all) != 0 {
		t.Errorf("List = %v, %v, want the global webhook hidden", all, err)
	}
	if err := k.Delete(ctx, alice, a2a.DeleteTaskPushNotificationConfigParams{TaskID: "open", ConfigID: GlobalID}); err != nil {
		t.Errorf("Delete(global) = %v, want nil as for any that is not there", err)
	}
	same("after its owner wanted it deleted", "global@0")
	for _, id := range []string{"a", "b"} {
		if _, err := k.Set(ctx, alice, a2a.TaskPushNotificationConfig{TaskID: "open", Config: a2a.PushNotificationConfig{ID: id, URL: hook}}); err != nil {
			t.Fatal(err)
		}
	}
	same("with own ones", "a@2", "b@2", "global@0-2")
	k.commit(store.Change{Key: task, Version: 2, Events: log[2:3]})
	for _, id := range []string{"a", "b"} {
		if err := k.Delete(ctx, alice, a2a.DeleteTaskPushNotificationConfigParams{TaskID: "open", ConfigID: id}); err != nil {
			t.Fatal(err)
		}
	}
	same("without own ones again", "global@0")

	// A message with one does the same.
	in, err = k.Prepare(ctx, alice, &a2a.MessageSendConfiguration{PushNotificationConfig: &a2a.PushNotificationConfig{ID: "c", URL: hook}})
	if err != nil {
		t.Fatal(err)
	}
	if brought, err = in.Push(ctx, task, 3); err != nil {
		t.Fatal(err)
	}
	k.commit(store.Change{Key: task, Version: 3, Events: log[3:4], Push: brought})
	in.Stored(ctx)
	same("with one of a message", "c@3", "global@0-3")
}

func TestMessagesBringTheirWebhookOnce(t *testing.T) {
	t.Parallel()
	k, ctx := newKeeper(t, nil), t.Context()
	task := store.Key{Owner: "alice", ID: "t"}
	push := func(config a2a.PushNotificationConfig, longRunning bool, seq int64) []store.NewPush {
		t.Helper()
		in, err := k.Prepare(ctx, alice, &a2a.MessageSendConfiguration{PushNotificationConfig: &config, LongRunning: longRunning})
		if err != nil {
			t.Fatal(err)
		}
		first, err := in.Push(ctx, task, seq)
		if err != nil {
			t.Fatal(err)
		}
		again, err := in.Push(ctx, task, seq)
		if err != nil || len(again) != len(first) || len(first) > 0 && again[0].ID != first[0].ID {
			t.Errorf("Push again = %+v, %v, want the id of the first time: %+v", again, err, first)
		}
		return first
	}
	if got := push(a2a.PushNotificationConfig{URL: hook}, true, 0); len(got) != 1 || got[0].ID == "" || !got[0].LongRunning || got[0].Cursor.Seq != 0 {
		t.Errorf("a new task brings %+v, want a webhook with an id, told from the start", got)
	}
	made := k.set(a2a.PushNotificationConfig{URL: hook, Token: "x"}).Config
	if got := push(a2a.PushNotificationConfig{URL: hook, Token: "x"}, false, 7); got != nil {
		t.Errorf("a message with what is there brings %+v, want nothing", got)
	}
	if got := push(a2a.PushNotificationConfig{ID: made.ID, URL: hook, Token: Mask}, false, 7); got != nil {
		t.Errorf("a message with what was read brings %+v, want nothing", got)
	}
	if got := push(a2a.PushNotificationConfig{URL: hook, Token: "y"}, false, 7); len(got) != 1 || got[0].ID != made.ID {
		t.Errorf("a message with another token brings %+v, want it in place of %s", got, made.ID)
	}
	if got := push(a2a.PushNotificationConfig{URL: hook + "/2"}, false, 7); len(got) != 1 || got[0].ID == made.ID || got[0].Cursor.Sequence != 6 {
		t.Errorf("a message with another URL brings %+v, want another one from here on", got)
	}
}

// The secret of a webhook that came with a message is told by the first Set.
func TestSecretOfAMessageIsToldLater(t *testing.T) {
	t.Parallel()
	k, ctx := newKeeper(t, nil), t.Context()
	in, err := k.Prepare(ctx, alice, &a2a.MessageSendConfiguration{PushNotificationConfig: &a2a.PushNotificationConfig{ID: "w", URL: hook, Signatures: []string{"v1a"}}})
	if err != nil {
		t.Fatal(err)
	}
	brought, err := in.Push(ctx, store.Key{Owner: "alice", ID: "t"}, 7)
	if err != nil {
		t.Fatal(err)
	}
	k.commit(store.Change{Key: store.Key{Owner: "alice", ID: "new"}, Create: &store.Create{ContextID: "ctx"}, Events: testLog()[:1], Run: &store.Run{Phase: store.PhaseIdle}, Push: brought})
	set := func(versions ...string) string {
		t.Helper()
		got, err := k.Set(ctx, alice, a2a.TaskPushNotificationConfig{TaskID: "new", Config: a2a.PushNotificationConfig{ID: "w", URL: hook, Signatures: versions}})
		if err != nil {
			t.Fatal(err)
		}
		return got.Config.SigningSecret
	}
	if got := set("v1a"); got != "" {
		t.Errorf("Set for v1a alone tells the secret %q", got)
	}
	if got := set("v1", "v1a"); !strings.HasPrefix(got, "whsec_") {
		t.Errorf("the first Set for v1 tells %q, want the secret", got)
	}
	k.at.Add(int64(toldAgain))
	if got := set("v1"); got != "" {
		t.Errorf("the next Set tells the secret %q again", got)
	}
}
