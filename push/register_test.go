package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// doorman is a Sender that sends nothing and refuses hosts that begin with "bad".
type doorman struct {
	checked atomic.Int64
	during  func() // a check
}

func (*doorman) Post(context.Context, safehttp.Request) (safehttp.Response, error) {
	return safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeConnect, Err: errors.New("nobody is there")}
}

func (g *doorman) Check(_ context.Context, rawURL string) error {
	g.checked.Add(1)
	if g.during != nil {
		g.during()
	}
	if strings.Contains(rawURL, "//bad") {
		return &safehttp.Refusal{Rule: "host", Text: "must not lead there", Detail: "10.0.0.1"}
	}
	return nil
}

// keeper is a service that is not started, over a store in memory in which alice has the
// task "t" with the whole log.
type keeper struct {
	*Service
	t    *testing.T
	gate *doorman
	at   atomic.Int64 // the clock
}

var alice, bob = a2a.Principal{ID: "alice"}, a2a.Principal{ID: "bob"}

func newKeeper(t *testing.T, change func(*Config)) *keeper {
	t.Helper()
	k := &keeper{t: t, gate: &doorman{}}
	k.at.Store(born.Add(time.Hour).UnixNano())
	var last atomic.Int64
	cfg := Config{
		Store: inmem.New(), Sender: k.gate, NewID: func() string { return fmt.Sprintf("new-%d", last.Add(1)) },
		clock: func() time.Time { return time.Unix(0, k.at.Load()).UTC() },
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if k.Service, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	k.begin("t", testLog()...)
	return k
}

// begin creates a task of alice's.
func (k *keeper) begin(id string, events ...store.Event) {
	k.t.Helper()
	k.commit(store.Change{
		Key: store.Key{Owner: "alice", ID: id}, Create: &store.Create{ContextID: "ctx"},
		Events: events, Run: &store.Run{Phase: store.PhaseIdle},
	})
}

func (k *keeper) commit(c store.Change) {
	k.t.Helper()
	results, err := k.cfg.Store.Commit(k.t.Context(), c)
	if err != nil || results[0].Err != nil {
		k.t.Fatalf("Commit = %v, %v", results, err)
	}
}

func (k *keeper) set(c a2a.PushNotificationConfig) *a2a.TaskPushNotificationConfig {
	k.t.Helper()
	got, err := k.Set(k.t.Context(), alice, a2a.TaskPushNotificationConfig{TaskID: "t", Config: c})
	if err != nil {
		k.t.Fatalf("Set(%+v) = %v", c, err)
	}
	return got
}

func (k *keeper) lane(id string) *store.Lane {
	k.t.Helper()
	page, err := k.cfg.Store.Lanes(k.t.Context(), store.LaneQuery{Owner: "alice", TaskID: "t", ID: id, Limit: 2})
	if err != nil {
		k.t.Fatal(err)
	}
	if len(page.Lanes) == 0 {
		return nil
	}
	return &page.Lanes[0]
}

// secret returns the secrets that are kept of a webhook.
func (k *keeper) secrets(id string) *secrets {
	k.t.Helper()
	set, err := k.seal.decode(&k.lane(id).Config)
	if err != nil {
		k.t.Fatal(err)
	}
	return set.Secrets
}

const hook = "https://example.com/hook"

func TestSetGetListDelete(t *testing.T) {
	t.Parallel()
	k, ctx := newKeeper(t, nil), t.Context()
	list := func() (ids []string) {
		t.Helper()
		all, err := k.List(ctx, alice, a2a.ListTaskPushNotificationConfigParams{TaskID: "t"})
		if err != nil || all == nil {
			t.Fatalf("List = %v, %v, want a list", all, err)
		}
		for _, c := range all {
			ids = append(ids, c.Config.ID)
		}
		return ids
	}
	get := func(id string) (*a2a.TaskPushNotificationConfig, error) {
		return k.Get(ctx, alice, a2a.GetTaskPushNotificationConfigParams{TaskID: "t", ConfigID: id})
	}
	if ids := list(); len(ids) != 0 {
		t.Errorf("List without webhooks = %v", ids)
	}
	if _, err := get(""); a2a.CodeOf(err) != a2a.CodePushConfigNotFound || !strings.Contains(err.Error(), "not found") {
		t.Errorf("Get without webhooks = %v, want not found", err)
	}
	made := k.set(a2a.PushNotificationConfig{URL: hook, Token: "t1"})
	id := made.Config.ID
	if id == "" || made.TaskID != "t" || made.Config.Token != Mask || !strings.HasPrefix(made.Config.SigningSecret, "whsec_") {
		t.Errorf("Set = %+v, want an id, a mask and the secret", made)
	}
	for _, alias := range []string{"", "default", id} {
		got, err := get(alias)
		want := *made
		want.Config.SigningSecret = ""
		if diff := cmp.Diff(&want, got); err != nil || diff != "" {
			t.Errorf("Get(%q) = %v, differs (-want +got):\n%s", alias, err, diff)
		}
	}
	k.at.Add(int64(toldAgain))
	if again := k.set(a2a.PushNotificationConfig{URL: hook, Token: "t2"}); again.Config.ID != id || again.Config.SigningSecret != "" {
		t.Errorf("Set of the same URL = %+v, want it in place of the first, and no secret", again.Config)
	}
	k.set(a2a.PushNotificationConfig{ID: "second", URL: hook})
	k.set(a2a.PushNotificationConfig{ID: "default", URL: hook})
	if got, err := get("default"); err != nil || got.Config.ID != "default" {
		t.Errorf("Get(default) = %v, %v, want the one that is called so", got, err)
	}
	if _, err := get(""); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Get without an id of three = %v, want invalid_params", err)
	}
	if diff := cmp.Diff([]string{"default", id, "second"}, list()); diff != "" {
		t.Errorf("List differs (-want +got):\n%s", diff)
	}
	for range 2 {
		if err := k.Delete(ctx, alice, a2a.DeleteTaskPushNotificationConfigParams{TaskID: "t", ConfigID: "second"}); err != nil {
			t.Errorf("Delete = %v, the second time too, want nil", err)
		}
	}
	if _, err := get("second"); a2a.CodeOf(err) != a2a.CodePushConfigNotFound {
		t.Errorf("Get of what was deleted = %v, want not found", err)
	}
	if lane := k.lane(id); lane.Cursor.Seq != 7 || lane.Cursor.Sequence != 6 || lane.Pending() {
		t.Errorf("lane of a late webhook = %+v, want it behind all that has happened", lane.Cursor)
	}
}

// Invariant 18: webhooks are their owners' alone.
func TestStrangersFindNothing(t *testing.T) {
	t.Parallel()
	k, ctx := newKeeper(t, nil), t.Context()
	k.set(a2a.PushNotificationConfig{ID: "w", URL: hook})
	before := k.gate.checked.Load()
	for name, call := range map[string]func(p a2a.Principal, task string) error{
		"set": func(p a2a.Principal, task string) error {
			_, err := k.Set(ctx, p, a2a.TaskPushNotificationConfig{TaskID: task, Config: a2a.PushNotificationConfig{URL: "https://bad.example.com"}})
			return err
		},
		"get": func(p a2a.Principal, task string) error {
			_, err := k.Get(ctx, p, a2a.GetTaskPushNotificationConfigParams{TaskID: task})
			return err
		},
		"list": func(p a2a.Principal, task string) error {
			_, err := k.List(ctx, p, a2a.ListTaskPushNotificationConfigParams{TaskID: task})
			return err
		},
		"delete": func(p a2a.Principal, task string) error {
			return k.Delete(ctx, p, a2a.DeleteTaskPushNotificationConfigParams{TaskID: task, ConfigID: "w"})
		},
		"dead letters": func(p a2a.Principal, task string) error {
			_, err := k.DeadLetters(ctx, p, a2a.ListDeadLettersParams{TaskID: task})
			return err
		},
		"attempts": func(p a2a.Principal, task string) error {
			_, err := k.Attempts(ctx, p, a2a.ListAttemptsParams{TaskID: task})
			return err
		},
		"replay": func(p a2a.Principal, task string) error {
			_, err := k.Replay(ctx, p, a2a.ReplayParams{TaskID: task, FromSequence: 1})
			return err
		},
	} {
		stranger, missing := call(bob, "t"), call(alice, "u")
		if !errors.Is(stranger, a2a.ErrTaskNotFound) || !errors.Is(missing, a2a.ErrTaskNotFound) {
			t.Errorf("%s: of a stranger %v, of no task %v, want task_not_found", name, stranger, missing)
		} else if got := strings.ReplaceAll(stranger.Error(), `"t"`, `"u"`); got != missing.Error() {
			t.Errorf("%s: of a stranger %q, of no task %q, want the same", name, stranger, missing)
		}
	}
	if n := k.gate.checked.Load(); n != before {
		t.Errorf("URLs of strangers were looked at %d times", n-before)
	}
	if k.lane("w") == nil {
		t.Error("a stranger has deleted a webhook")
	}
}

func TestSetRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	info := func(credentials string, schemes ...string) a2a.PushAuthentication {
		return a2a.PushNotificationAuthenticationInfo{Schemes: schemes, Credentials: credentials}
	}
	key := func(name string, in a2a.APIKeyLocation) a2a.PushAuthentication {
		return a2a.APIKeySecurityScheme{Name: name, In: in}
	}
	k := newKeeper(t, func(c *Config) { c.PerMinute = 1000 })
	for _, c := range []struct {
		name, field string
		config      a2a.PushNotificationConfig
	}{
		{"a URL", "url", a2a.PushNotificationConfig{URL: "https://bad.example.com"}},
		{"a reserved id", "id", a2a.PushNotificationConfig{URL: hook, ID: "global"}},
		{"a long id", "id", a2a.PushNotificationConfig{URL: hook, ID: strings.Repeat("x", 129)}},
		{"an odd id", "id", a2a.PushNotificationConfig{URL: hook, ID: "a\nb"}},
		{"a line break", "token", a2a.PushNotificationConfig{URL: hook, Token: "a\r\nX-Evil: 1"}},
		{"another script", "token", a2a.PushNotificationConfig{URL: hook, Token: "tökén"}},
		{"a blank at the end", "token", a2a.PushNotificationConfig{URL: hook, Token: "a "}},
		{"a long token", "token", a2a.PushNotificationConfig{URL: hook, Token: strings.Repeat("x", 4097)}},
		{"a mask of nothing", "token", a2a.PushNotificationConfig{URL: hook, Token: Mask}},
		{"credentials with a line break", "authentication.credentials", a2a.PushNotificationConfig{URL: hook, Authentication: info("a\nb", "Bearer")}},
		{"credentials that are masked", "authentication.credentials", a2a.PushNotificationConfig{URL: hook, Authentication: info(Mask, "Bearer")}},
		{"no credentials", "authentication.credentials", a2a.PushNotificationConfig{URL: hook, Authentication: info("", "Basic")}},
		{"a scheme that is none", "authentication.schemes[0]", a2a.PushNotificationConfig{URL: hook, Authentication: info("x", "Bearer x")}},
		{"http without a token", "token", a2a.PushNotificationConfig{URL: hook, Authentication: a2a.HTTPAuthSecurityScheme{Scheme: "basic"}}},
		{"a key in the query", "authentication.in", a2a.PushNotificationConfig{URL: hook, Token: "t", Authentication: key("k", a2a.InQuery)}},
		{"a key in a header of ours", "authentication.name", a2a.PushNotificationConfig{URL: hook, Token: "t", Authentication: key("webhook-signature", a2a.InHeader)}},
		{"a key in the host", "authentication.name", a2a.PushNotificationConfig{URL: hook, Token: "t", Authentication: key("host", a2a.InHeader)}},
		{"a key in no header", "authentication.name", a2a.PushNotificationConfig{URL: hook, Token: "t", Authentication: key("a b", a2a.InHeader)}},
		{"mutual TLS", "authentication.type", a2a.PushNotificationConfig{URL: hook, Authentication: a2a.MutualTLSSecurityScheme{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := k.Set(t.Context(), alice, a2a.TaskPushNotificationConfig{TaskID: "t", Config: c.config})
			var told *a2a.Error
			if !errors.As(err, &told) || told.Code != a2a.CodeInvalid || told.Data["field"] != "pushNotificationConfig."+c.field {
				t.Fatalf("Set = %v, want invalid_params that names %s", err, c.field)
			}
			if strings.Contains(err.Error(), "10.0.0.1") || strings.Contains(err.Error(), "Evil") {
				t.Errorf("Set = %v, tells too much", err)
			}
			in, err := k.Prepare(t.Context(), alice, &a2a.MessageSendConfiguration{PushNotificationConfig: &c.config})
			if err == nil {
				_, err = in.Push(t.Context(), store.Key{Owner: "alice", ID: "new"}, 0)
			}
			if !errors.As(err, &told) || told.Data["field"] != "configuration.pushNotificationConfig."+c.field {
				t.Errorf("Prepare = %v, want invalid_params that names %s", err, c.field)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, func(c *Config) { c.PerTask, c.PerMinute = 2, 4 })
	try := func(p a2a.Principal, id string) error {
		_, err := k.Set(t.Context(), p, a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{ID: id, URL: hook}})
		return err
	}
	for _, id := range []string{"a", "b", "a"} {
		if err := try(alice, id); err != nil {
			t.Errorf("Set(%s) = %v", id, err)
		}
	}
	if err := try(alice, "c"); !errors.Is(err, a2a.ErrExhausted) || !strings.Contains(err.Error(), "2 webhooks") {
		t.Errorf("Set of a third webhook = %v, want resource_exhausted", err)
	}
	if err := try(alice, "a"); !errors.Is(err, a2a.ErrExhausted) || !strings.Contains(err.Error(), "minute") {
		t.Errorf("the fifth Set in a minute = %v, want resource_exhausted", err)
	}
	k.at.Add(int64(time.Minute))
	if err := try(alice, "a"); err != nil {
		t.Errorf("Set a minute later = %v", err)
	}
}

func TestSecretsAreMaskedAndKept(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, nil)
	auth := func(credentials string) a2a.PushAuthentication {
		return a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Basic"}, Credentials: credentials}
	}
	first := k.set(a2a.PushNotificationConfig{ID: "w", URL: hook, Token: "hush1", Authentication: auth("hush2"), Signatures: []string{"v1", "v1a"}})
	text, err := wire.Marshal(first)
	if err != nil || strings.Contains(string(text), "hush") {
		t.Errorf("Set = %s, %v, want no secret in it but the signing secret", text, err)
	}
	if !strings.HasPrefix(first.Config.SigningKey, "whpk_") {
		t.Errorf("signing key = %q, want whpk_...", first.Config.SigningKey)
	}
	// What was read is saved again, with another URL.
	back := first.Config
	back.URL, back.SigningSecret, back.Delivery = hook+"2", "", nil
	k.at.Add(int64(toldAgain))
	second := k.set(back)
	if got := k.secrets("w"); got.Token != "hush1" || got.Credentials != "hush2" || len(got.Keys) != 1 {
		t.Errorf("secrets after masks were saved = %+v, want what was there", got)
	}
	if second.Config.SigningSecret != "" || second.Config.SigningKey != first.Config.SigningKey {
		t.Errorf("Set again = %+v, want no secret and the same key", second.Config)
	}
	elsewhere := back
	elsewhere.URL = "https://elsewhere.example.com/hook"
	if _, err := k.Set(t.Context(), alice, a2a.TaskPushNotificationConfig{TaskID: "t", Config: elsewhere}); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Set with masks and another host = %v, want invalid_params", err)
	}
	k.set(a2a.PushNotificationConfig{ID: "w", URL: hook})
	if got := k.secrets("w"); got.Token != "" || got.Credentials != "" {
		t.Errorf("secrets after none were saved = %+v, want none", got)
	}
}

func TestReplacingSetsTheLaneGoing(t *testing.T) {
	t.Parallel()
	k, ctx := newKeeper(t, nil), t.Context()
	k.set(a2a.PushNotificationConfig{ID: "w", URL: hook})
	if _, err := k.Replay(ctx, alice, a2a.ReplayParams{TaskID: "t", FromSequence: 3}); err != nil {
		t.Fatal(err)
	}
	k.fail("w", "gone")
	before := k.lane("w")
	if before.State != store.LaneDisabled {
		t.Fatalf("lane = %+v, want it disabled", before)
	}
	got := k.set(a2a.PushNotificationConfig{ID: "w", URL: hook}).Config.Delivery
	if got.State != "active" || got.Reason != "" || !got.Pending || got.Sequence != before.Cursor.Sequence {
		t.Errorf("delivery after Set = %+v, want it active where it was", got)
	}
}

func TestParamsAreTakenInBothSpellings(t *testing.T) {
	t.Parallel()
	want := a2a.TaskPushNotificationConfig{TaskID: "t", LongRunning: true, Config: a2a.PushNotificationConfig{ID: "w", URL: hook, Token: "x"}}
	for _, text := range []string{
		`{"id":"t","long_running":true,"push_notification_config":{"id":"w","url":"` + hook + `","token":"x"}}`,
		`{"taskId":"t","longRunning":true,"pushNotificationConfig":{"id":"w","url":"` + hook + `","token":"x"}}`,
		`{"task_id":"t","longRunning":true,"pushNotificationConfig":{"id":"w","url":"` + hook + `","token":"x"}}`,
	} {
		var got a2a.TaskPushNotificationConfig
		if err := wire.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{`{"id":"t","pushNotificationConfigId":"w"}`, `{"task_id":"t","push_notification_config_id":"w"}`, `{"taskId":"t","pushNotificationConfigId":"w"}`} {
		var get a2a.GetTaskPushNotificationConfigParams
		var del a2a.DeleteTaskPushNotificationConfigParams
		if err := errors.Join(wire.Unmarshal([]byte(text), &get), wire.Unmarshal([]byte(text), &del)); err != nil || get.TaskID != "t" || get.ConfigID != "w" || del.TaskID != "t" || del.ConfigID != "w" {
			t.Errorf("%s is read as %+v and %+v, %v", text, get, del, err)
		}
	}
	if !json.Valid(globalData) {
		t.Error("globalData is no JSON")
	}
}

// A name may take seconds to look up.
func TestSetBeginsWhereTheTaskIsWhenItIsSaved(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, nil)
	before, err := k.task(t.Context(), "alice", "t")
	if err != nil {
		t.Fatal(err)
	}
	k.gate.during = func() {
		k.commit(store.Change{Key: before.Key, Version: before.Seq, Events: []store.Event{chunk("meanwhile")}})
	}
	k.set(a2a.PushNotificationConfig{ID: "w", URL: hook})
	if l := k.lane("w"); l.Cursor.Seq != before.Seq+1 || l.Pending() {
		t.Errorf("lane = %+v, want it behind what came during Set", l)
	}
}

func TestLocksAreOfOneTask(t *testing.T) {
	t.Parallel()
	locks := taskLocks{held: make(map[store.Key]*taskLock)}
	key := func(n int) store.Key { return store.Key{Owner: "alice", ID: fmt.Sprint("t", n)} }
	lock := func(n int) func() {
		t.Helper()
		unlock, err := locks.lock(t.Context(), key(n))
		if err != nil {
			t.Fatal(err)
		}
		return unlock
	}
	free := lock(0)
	for n := range 1000 {
		lock(n + 1)() // waits for no other
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := locks.lock(ended, key(0)); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("lock() = %v, want unavailable when the caller is gone", err)
	}
	next := make(chan func())
	go func() {
		unlock, _ := locks.lock(t.Context(), key(0))
		next <- unlock
	}()
	select {
	case <-next:
		t.Error("lock() of what is locked did not wait")
	default:
	}
	free()
	(<-next)()
	if len(locks.held) != 0 {
		t.Errorf("%d locks are kept, want none", len(locks.held))
	}
}
