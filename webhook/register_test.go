package webhook

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

// stubSender is a Sender that sends nothing and refuses hosts that start with "bad".
type stubSender struct {
	checked atomic.Int64
	onCheck func() // called by Check
}

func (*stubSender) Post(context.Context, safehttp.Request) (safehttp.Response, error) {
	return safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeConnect, Err: errors.New("connection refused")}
}

func (g *stubSender) Check(_ context.Context, rawURL string) error {
	g.checked.Add(1)
	if g.onCheck != nil {
		g.onCheck()
	}
	if strings.Contains(rawURL, "//bad") {
		return &safehttp.Refusal{Rule: "host", Text: "must not lead there", Detail: "10.0.0.1"}
	}
	return nil
}

// fixture is a service that is not started, with an in-memory store in which alice has the
// task "t" with the events of testLog.
type fixture struct {
	*Service
	t      *testing.T
	sender *stubSender
	at     atomic.Int64 // time of the clock, in Unix nanoseconds
}

var alice, bob = a2a.Principal{ID: "alice"}, a2a.Principal{ID: "bob"}

func newFixture(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, sender: &stubSender{}}
	f.at.Store(taskCreated.Add(time.Hour).UnixNano())
	var last atomic.Int64
	cfg := Config{
		Store: inmem.New(), Sender: f.sender, NewID: func() string { return fmt.Sprintf("new-%d", last.Add(1)) },
		clock: func() time.Time { return time.Unix(0, f.at.Load()).UTC() },
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if f.Service, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	f.createTask("t", testLog()...)
	return f
}

// createTask creates a task of alice.
func (f *fixture) createTask(id string, events ...store.Event) {
	f.t.Helper()
	f.commit(store.Change{
		Key: store.Key{Owner: "alice", ID: id}, Create: &store.Create{ContextID: "ctx"},
		Events: events, Queue: &store.QueueEntry{Phase: store.PhaseIdle},
	})
}

func (f *fixture) commit(c store.Change) {
	f.t.Helper()
	results, err := f.cfg.Store.(store.Tasks).Commit(f.t.Context(), c)
	if err != nil || results[0].Err != nil {
		f.t.Fatalf("Commit = %v, %v", results, err)
	}
}

func (f *fixture) set(c a2a.PushNotificationConfig) *a2a.TaskPushNotificationConfig {
	f.t.Helper()
	got, err := f.Set(f.t.Context(), alice, a2a.TaskPushNotificationConfig{TaskID: "t", Config: c})
	if err != nil {
		f.t.Fatalf("Set(%+v) = %v", c, err)
	}
	return got
}

func (f *fixture) lane(id string) *store.Lane {
	f.t.Helper()
	page, err := f.cfg.Store.Lanes(f.t.Context(), store.LaneQuery{Owner: "alice", TaskID: "t", ID: id, Limit: 2})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(page.Lanes) == 0 {
		return nil
	}
	return &page.Lanes[0]
}

// secrets returns the stored secrets of a webhook.
func (f *fixture) secrets(id string) *secrets {
	f.t.Helper()
	set, err := f.seal.decode(&f.lane(id).Webhook)
	if err != nil {
		f.t.Fatal(err)
	}
	return set.Secrets
}

const hookURL = "https://example.com/hook"

func TestSetGetListDelete(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, nil), t.Context()
	list := func() (ids []string) {
		t.Helper()
		all, err := f.List(ctx, alice, a2a.ListTaskPushNotificationConfigParams{TaskID: "t"})
		if err != nil || all.Configs == nil {
			t.Fatalf("List = %v, %v, want a list", all, err)
		}
		for _, c := range all.Configs {
			ids = append(ids, c.Config.ID)
		}
		return ids
	}
	get := func(id string) (*a2a.TaskPushNotificationConfig, error) {
		return f.Get(ctx, alice, a2a.GetTaskPushNotificationConfigParams{TaskID: "t", ConfigID: id})
	}
	if ids := list(); len(ids) != 0 {
		t.Errorf("List without webhooks = %v", ids)
	}
	if _, err := get(""); a2a.CodeOf(err) != a2a.CodePushConfigNotFound || !strings.Contains(err.Error(), "not found") {
		t.Errorf("Get without webhooks = %v, want not found", err)
	}
	made := f.set(a2a.PushNotificationConfig{URL: hookURL, Token: "t1"})
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
	f.at.Add(int64(secretResendWindow))
	if again := f.set(a2a.PushNotificationConfig{URL: hookURL, Token: "t2"}); again.Config.ID != id || again.Config.SigningSecret != "" {
		t.Errorf("Set of the same URL = %+v, want the same id and no secret", again.Config)
	}
	f.at.Add(int64(time.Second))
	f.set(a2a.PushNotificationConfig{ID: "second", URL: hookURL})
	if got, err := get("default"); err != nil || got.Config.ID != "second" {
		t.Errorf("Get(default), two webhooks = %v, %v, want the one created last", got, err)
	}
	f.at.Add(int64(time.Second))
	f.set(a2a.PushNotificationConfig{ID: "default", URL: hookURL})
	f.at.Add(int64(time.Second))
	f.set(a2a.PushNotificationConfig{ID: "a-later", URL: hookURL})
	if got, err := get("default"); err != nil || got.Config.ID != "default" {
		t.Errorf("Get(default) = %v, %v, want the webhook with that id", got, err)
	}
	if got, err := get(""); err != nil || got.Config.ID != "a-later" {
		t.Errorf("Get without an id, four webhooks = %v, %v, want the one created last", got, err)
	}
	if diff := cmp.Diff([]string{"a-later", "default", id, "second"}, list()); diff != "" {
		t.Errorf("List differs (-want +got):\n%s", diff)
	}
	for range 2 {
		if err := f.Delete(ctx, alice, a2a.DeleteTaskPushNotificationConfigParams{TaskID: "t", ConfigID: "second"}); err != nil {
			t.Errorf("Delete = %v, want nil both times", err)
		}
	}
	if _, err := get("second"); a2a.CodeOf(err) != a2a.CodePushConfigNotFound {
		t.Errorf("Get of a deleted webhook = %v, want not found", err)
	}
	if lane := f.lane(id); lane.Cursor.Seq != 7 || lane.Cursor.Sequence != 6 || lane.Pending() {
		t.Errorf("lane of a webhook for a finished task = %+v, want it after the last event", lane.Cursor)
	}
}

// Webhooks are isolated between owners: others get the same errors as for a missing task.
func TestOtherOwnersFindNothing(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, nil), t.Context()
	f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL})
	before := f.sender.checked.Load()
	for name, call := range map[string]func(p a2a.Principal, task string) error{
		"set": func(p a2a.Principal, task string) error {
			_, err := f.Set(ctx, p, a2a.TaskPushNotificationConfig{TaskID: task, Config: a2a.PushNotificationConfig{URL: "https://bad.example.com"}})
			return err
		},
		"get": func(p a2a.Principal, task string) error {
			_, err := f.Get(ctx, p, a2a.GetTaskPushNotificationConfigParams{TaskID: task})
			return err
		},
		"list": func(p a2a.Principal, task string) error {
			_, err := f.List(ctx, p, a2a.ListTaskPushNotificationConfigParams{TaskID: task})
			return err
		},
		"delete": func(p a2a.Principal, task string) error {
			return f.Delete(ctx, p, a2a.DeleteTaskPushNotificationConfigParams{TaskID: task, ConfigID: "w"})
		},
		"dead letters": func(p a2a.Principal, task string) error {
			_, err := f.DeadLetters(ctx, p, a2a.ListDeadLettersParams{TaskID: task})
			return err
		},
		"attempts": func(p a2a.Principal, task string) error {
			_, err := f.Attempts(ctx, p, a2a.ListAttemptsParams{TaskID: task})
			return err
		},
		"replay": func(p a2a.Principal, task string) error {
			_, err := f.Replay(ctx, p, a2a.ReplayParams{TaskID: task, FromSequence: 1})
			return err
		},
	} {
		other, missing := call(bob, "t"), call(alice, "u")
		if !errors.Is(other, a2a.ErrTaskNotFound) || !errors.Is(missing, a2a.ErrTaskNotFound) {
			t.Errorf("%s: by another owner %v, of a missing task %v, want task_not_found", name, other, missing)
		} else if got := strings.ReplaceAll(other.Error(), `"t"`, `"u"`); got != missing.Error() {
			t.Errorf("%s: by another owner %q, of a missing task %q, want the same", name, other, missing)
		}
	}
	if n := f.sender.checked.Load(); n != before {
		t.Errorf("URLs of other owners were checked %d times, want 0", n-before)
	}
	if f.lane("w") == nil {
		t.Error("another owner deleted the webhook")
	}
}

func TestSetRejectsInvalidParams(t *testing.T) {
	t.Parallel()
	info := func(credentials string, schemes ...string) a2a.PushAuthentication {
		return a2a.PushNotificationAuthenticationInfo{Schemes: schemes, Credentials: credentials}
	}
	key := func(name string, in a2a.APIKeyLocation) a2a.PushAuthentication {
		return a2a.APIKeySecurityScheme{Name: name, In: in}
	}
	f := newFixture(t, func(c *Config) { c.Limits.PerMinute = 1000 })
	for _, c := range []struct {
		name, field string
		config      a2a.PushNotificationConfig
	}{
		{"a URL", "url", a2a.PushNotificationConfig{URL: "https://bad.example.com"}},
		{"a reserved id", "id", a2a.PushNotificationConfig{URL: hookURL, ID: "global"}},
		{"a long id", "id", a2a.PushNotificationConfig{URL: hookURL, ID: strings.Repeat("x", 129)}},
		{"an odd id", "id", a2a.PushNotificationConfig{URL: hookURL, ID: "a\nb"}},
		{"a line break", "token", a2a.PushNotificationConfig{URL: hookURL, Token: "a\r\nX-Evil: 1"}},
		{"another script", "token", a2a.PushNotificationConfig{URL: hookURL, Token: "tökén"}},
		{"a space at the end", "token", a2a.PushNotificationConfig{URL: hookURL, Token: "a "}},
		{"a long token", "token", a2a.PushNotificationConfig{URL: hookURL, Token: strings.Repeat("x", 4097)}},
		{"a mask of nothing", "token", a2a.PushNotificationConfig{URL: hookURL, Token: Mask}},
		{"credentials with a line break", "authentication.credentials", a2a.PushNotificationConfig{URL: hookURL, Authentication: info("a\nb", "Bearer")}},
		{"credentials that are masked", "authentication.credentials", a2a.PushNotificationConfig{URL: hookURL, Authentication: info(Mask, "Bearer")}},
		{"no credentials", "authentication.credentials", a2a.PushNotificationConfig{URL: hookURL, Authentication: info("", "Basic")}},
		{"an invalid scheme", "authentication.schemes[0]", a2a.PushNotificationConfig{URL: hookURL, Authentication: info("x", "Bearer x")}},
		{"http without a token", "token", a2a.PushNotificationConfig{URL: hookURL, Authentication: a2a.HTTPAuthSecurityScheme{Scheme: "basic"}}},
		{"a key in the query", "authentication.in", a2a.PushNotificationConfig{URL: hookURL, Token: "t", Authentication: key("k", a2a.InQuery)}},
		{"a key in a reserved header", "authentication.name", a2a.PushNotificationConfig{URL: hookURL, Token: "t", Authentication: key("webhook-signature", a2a.InHeader)}},
		{"a key in the Host header", "authentication.name", a2a.PushNotificationConfig{URL: hookURL, Token: "t", Authentication: key("host", a2a.InHeader)}},
		{"a key in an invalid header", "authentication.name", a2a.PushNotificationConfig{URL: hookURL, Token: "t", Authentication: key("a b", a2a.InHeader)}},
		{"mutual TLS", "authentication.type", a2a.PushNotificationConfig{URL: hookURL, Authentication: a2a.MutualTLSSecurityScheme{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := f.Set(t.Context(), alice, a2a.TaskPushNotificationConfig{TaskID: "t", Config: c.config})
			var invalid *a2a.Error
			if !errors.As(err, &invalid) || invalid.Code != a2a.CodeInvalid || invalid.Data["field"] != "pushNotificationConfig."+c.field {
				t.Fatalf("Set = %v, want invalid_params that names %s", err, c.field)
			}
			if strings.Contains(err.Error(), "10.0.0.1") || strings.Contains(err.Error(), "Evil") {
				t.Errorf("Set = %v, want no address and no token in it", err)
			}
			in, err := f.Prepare(t.Context(), alice, &a2a.MessageSendConfiguration{PushNotificationConfig: &c.config})
			if err == nil {
				_, err = in.Webhooks(t.Context(), store.Key{Owner: "alice", ID: "new"}, 0)
			}
			if !errors.As(err, &invalid) || invalid.Data["field"] != "configuration.pushNotificationConfig."+c.field {
				t.Errorf("Prepare = %v, want invalid_params that names %s", err, c.field)
			}
		})
	}
}

func TestSetLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Limits.PerTask, c.Limits.PerMinute = 2, 4 })
	try := func(p a2a.Principal, id string) error {
		_, err := f.Set(t.Context(), p, a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{ID: id, URL: hookURL}})
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
		t.Errorf("fifth Set in a minute = %v, want resource_exhausted", err)
	}
	f.at.Add(int64(time.Minute))
	if err := try(alice, "a"); err != nil {
		t.Errorf("Set a minute later = %v", err)
	}
}

func TestSecretsAreMaskedAndKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	auth := func(credentials string) a2a.PushAuthentication {
		return a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Basic"}, Credentials: credentials}
	}
	first := f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL, Token: "hush1", Authentication: auth("hush2"), Signatures: []string{"v1", "v1a"}})
	text, err := wire.Marshal(first)
	if err != nil || strings.Contains(string(text), "hush") {
		t.Errorf("Set = %s, %v, want no secret except the signing secret", text, err)
	}
	if !strings.HasPrefix(first.Config.SigningKey, "whpk_") {
		t.Errorf("signing key = %q, want whpk_...", first.Config.SigningKey)
	}
	// The masked webhook is saved again with another URL.
	back := first.Config
	back.URL, back.SigningSecret, back.Delivery = hookURL+"2", "", nil
	f.at.Add(int64(secretResendWindow))
	second := f.set(back)
	if got := f.secrets("w"); got.Token != "hush1" || got.Credentials != "hush2" || len(got.Keys) != 1 {
		t.Errorf("secrets after masks were saved = %+v, want them unchanged", got)
	}
	if second.Config.SigningSecret != "" || second.Config.SigningKey != first.Config.SigningKey {
		t.Errorf("Set again = %+v, want no secret and the same key", second.Config)
	}
	moved := back
	moved.URL = "https://elsewhere.example.com/hook"
	if _, err := f.Set(t.Context(), alice, a2a.TaskPushNotificationConfig{TaskID: "t", Config: moved}); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Set with masks and another host = %v, want invalid_params", err)
	}
	f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL})
	if got := f.secrets("w"); got.Token != "" || got.Credentials != "" {
		t.Errorf("secrets after saving without secrets = %+v, want none", got)
	}
}

func TestReplacingReactivatesTheLane(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, nil), t.Context()
	f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL})
	if _, err := f.Replay(ctx, alice, a2a.ReplayParams{TaskID: "t", FromSequence: 3}); err != nil {
		t.Fatal(err)
	}
	f.deadLetterNext("w", "gone")
	before := f.lane("w")
	if before.State != store.LaneDisabled {
		t.Fatalf("lane = %+v, want it disabled", before)
	}
	got := f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL}).Config.Delivery
	if got.State != "active" || got.Reason != "" || !got.Pending || got.Sequence != before.Cursor.Sequence {
		t.Errorf("delivery after Set = %+v, want it active at the same sequence", got)
	}
}

func TestParamsInSnakeCaseAndCamelCase(t *testing.T) {
	t.Parallel()
	want := a2a.TaskPushNotificationConfig{TaskID: "t", LongRunning: true, Config: a2a.PushNotificationConfig{ID: "w", URL: hookURL, Token: "x"}}
	for _, text := range []string{
		`{"id":"t","long_running":true,"push_notification_config":{"id":"w","url":"` + hookURL + `","token":"x"}}`,
		`{"taskId":"t","longRunning":true,"pushNotificationConfig":{"id":"w","url":"` + hookURL + `","token":"x"}}`,
		`{"task_id":"t","longRunning":true,"pushNotificationConfig":{"id":"w","url":"` + hookURL + `","token":"x"}}`,
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
			t.Errorf("%s: got %+v and %+v, %v", text, get, del, err)
		}
	}
	if !json.Valid(globalData) {
		t.Error("globalData is not JSON")
	}
}

// The validation of a URL may take seconds, for the name lookup.
func TestSetStartsAfterTheNewestEventWhenItSaves(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	before, err := f.task(t.Context(), "alice", "t")
	if err != nil {
		t.Fatal(err)
	}
	f.sender.onCheck = func() {
		f.commit(store.Change{Key: before.Key, Version: before.Seq, Events: []store.Event{chunk("meanwhile")}})
	}
	f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL})
	if l := f.lane("w"); l.Cursor.Seq != before.Seq+1 || l.Pending() {
		t.Errorf("lane = %+v, want it after the event written during Set", l)
	}
}

// Webhooks that name no format, and the global webhook, have the configured one.
func TestFormatOfWebhooksThatNameNone(t *testing.T) {
	t.Parallel()
	for _, format := range []a2a.PayloadFormat{"", a2a.PayloadEvent, a2a.PayloadTask, a2a.PayloadStreamResponse} {
		f := newFixture(t, func(c *Config) { c.Format, c.Global.URL = format, hookURL })
		want := format
		if want == a2a.PayloadEvent {
			want = "" // the default is not stored
		}
		if got := f.set(a2a.PushNotificationConfig{URL: hookURL}).Config.PayloadFormat; got != want {
			t.Errorf("format %q: webhook without a format has %q, want %q", format, got, want)
		}
		if got := f.set(a2a.PushNotificationConfig{ID: "own", URL: hookURL, PayloadFormat: a2a.PayloadTask}).Config.PayloadFormat; got != a2a.PayloadTask {
			t.Errorf("format %q: webhook with format task has %q", format, got)
		}
		if set, err := f.globalSettings(); err != nil || set.Format != format {
			t.Errorf("format %q: global webhook has %q, %v", format, set.Format, err)
		}
	}
	if err := (Config{Settings: Settings{Format: "xml"}}).Check(); err == nil || !strings.Contains(err.Error(), `Format is "xml", want one of event, task, stream-response`) {
		t.Errorf("Check of format xml = %v", err)
	}
}
