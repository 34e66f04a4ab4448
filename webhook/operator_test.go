package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func TestOperatorReplayFindsTheWebhook(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, nil), t.Context()
	task := store.Key{Owner: "alice", ID: "t"}
	op := &Operator{f.catalog}
	replay := func(key store.Key, id string, from int64, want int64, code a2a.Code, text string) {
		t.Helper()
		r, err := op.Replay(ctx, key, id, from)
		if err != nil {
			if code == "" || a2a.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
				t.Errorf("Replay(%v, %q, %d) = %v, want %q %s", key, id, from, err, code, text)
			}
			return
		}
		if code != "" || r.Owner != "alice" || r.Replay.FromSequence != want {
			t.Errorf("Replay(%v, %q, %d) = %+v, want from %d, %q %s", key, id, from, r, want, code, text)
		}
	}
	replay(store.Key{Owner: "alice", ID: "none"}, "", 0, 0, a2a.CodeTaskNotFound, `task "none"`)
	replay(store.Key{Owner: "bob", ID: "t"}, "", 0, 0, a2a.CodeTaskNotFound, `task "t"`)
	replay(task, "", 0, 0, a2a.CodePushConfigNotFound, `task "t" has none`)
	f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL})
	replay(task, "", 0, 0, "", "")
	replay(task, "", 2, 2, "", "")
	replay(task, "", 99, 0, a2a.CodeInvalid, "fromSequence")
	f.deadLetterNext("w", "first")
	replay(task, "", 0, 2, "", "")
	replay(task, "other", 0, 0, a2a.CodePushConfigNotFound, `"other"`)

	// The global webhook counts as one of two, and is only replayed if selected.
	global := store.Webhook{Task: task, ID: GlobalID, Endpoint: "https://global:443", CreatedAt: f.now()}
	at, err := store.CursorAt(ctx, f.cfg.Store, nil, task, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.cfg.Store.SaveWebhook(ctx, global, at, f.now()); err != nil {
		t.Fatal(err)
	}
	before := f.lane(GlobalID).Cursor
	replay(task, "", 1, 0, a2a.CodeInvalid, "pushNotificationConfigId is required: task \"t\" has 2 webhooks")
	replay(task, "w", 1, 1, "", "")
	if after := f.lane(GlobalID).Cursor; after != before {
		t.Errorf("cursor of the global webhook = %+v, want it unchanged at %+v", after, before)
	}
	replay(task, GlobalID, 1, 1, "", "")
	if after := f.lane(GlobalID).Cursor; after.Sequence != 0 {
		t.Errorf("cursor of the global webhook after its replay = %+v, want sequence 0", after)
	}
}

func TestOperatorReplaysAllDeadLetters(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, nil), t.Context()
	op := &Operator{f.catalog}
	replayed := func(owner string) (ids []string) {
		t.Helper()
		for r, err := range op.ReplayDeadLetters(ctx, owner) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.Owner+" "+r.Replay.ConfigID)
		}
		return ids
	}
	for _, id := range []string{"v", "w", "x"} {
		f.set(a2a.PushNotificationConfig{ID: id, URL: hookURL + id})
	}
	for _, id := range []string{"v", "w"} {
		if _, err := op.Replay(ctx, store.Key{Owner: "alice", ID: "t"}, id, 1); err != nil {
			t.Fatal(err)
		}
		f.deadLetterNext(id, "no")
		f.at.Add(int64(time.Second))
	}
	if got := replayed("bob"); len(got) != 0 {
		t.Errorf("ReplayDeadLetters(bob) = %v, want nothing", got)
	}
	if diff := cmp.Diff([]string{"alice w", "alice v"}, replayed("")); diff != "" {
		t.Errorf("ReplayDeadLetters (-want +got):\n%s", diff)
	}
	if got := replayed(""); len(got) != 0 {
		t.Errorf("ReplayDeadLetters again = %v, want nothing", got)
	}
}

func TestOperatorCountsDeadLetters(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, nil), t.Context()
	op := &Operator{f.catalog}
	for _, id := range []string{"v", "w", "x"} {
		f.set(a2a.PushNotificationConfig{ID: id, URL: hookURL + id})
	}
	for _, id := range []string{"v", "w"} {
		if _, err := op.Replay(ctx, store.Key{Owner: "alice", ID: "t"}, id, 1); err != nil {
			t.Fatal(err)
		}
		f.deadLetterNext(id, "no")
	}
	all := map[Key]int{{"alice", "t", "v"}: 1, {"alice", "t", "w"}: 1}
	for _, c := range []struct {
		owner, task string
		limit       int
		want        int // total
		more        bool
	}{
		{"", "", 100, 2, false},
		{"alice", "", 100, 2, false},
		{"alice", "t", 2, 2, false},
		{"alice", "t", 1, 1, true},
		{"bob", "", 100, 0, false},
	} {
		counts, more, err := op.CountDeadLetters(ctx, c.owner, c.task, c.limit)
		sum := 0
		for _, n := range counts {
			sum += n
		}
		if err != nil || sum != c.want || more != c.more {
			t.Errorf("CountDeadLetters(%q, %q, %d) = %v, %t, %v, want %d, %t", c.owner, c.task, c.limit, counts, more, err, c.want, c.more)
		}
		if c.want == len(all) {
			if diff := cmp.Diff(all, counts); diff != "" {
				t.Errorf("CountDeadLetters(%q, %q, %d) (-want +got):\n%s", c.owner, c.task, c.limit, diff)
			}
		}
	}
	if _, _, err := op.CountDeadLetters(ctx, "alice", "none", 100); code(err) != a2a.CodeTaskNotFound {
		t.Errorf("CountDeadLetters of a missing task = %v, want %s", err, a2a.CodeTaskNotFound)
	}
}

func TestOperatorReportsMissingTasksAndWebhooks(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, nil), t.Context()
	f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL})
	op := &Operator{f.catalog}
	webhooks := func(task string) (err error) {
		for _, err = range op.Webhooks(ctx, "alice", task) {
			continue
		}
		return err
	}
	for _, c := range []struct {
		task, id string
		want     a2a.Code
	}{
		{"t", "", ""},
		{"t", "w", ""},
		{"", "", ""},
		{"none", "", a2a.CodeTaskNotFound},
		{"t", "none", a2a.CodePushConfigNotFound},
	} {
		q := store.WebhookQuery{Owner: "alice", TaskID: c.task, ID: c.id, Limit: 1}
		_, _, attempts := op.Attempts(ctx, q)
		_, _, dead := op.DeadLetters(ctx, q)
		got := map[string]a2a.Code{"attempts": code(attempts), "dead": code(dead)}
		want := map[string]a2a.Code{"attempts": c.want, "dead": c.want}
		if c.id == "" {
			got["webhooks"], want["webhooks"] = code(webhooks(c.task)), c.want
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("task %q, webhook %q (-want +got):\n%s", c.task, c.id, diff)
		}
	}
}

// code returns the code of an error, or "" for nil.
func code(err error) a2a.Code {
	if err == nil {
		return ""
	}
	return a2a.CodeOf(err)
}
