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
type doorman struct{ checked atomic.Int64 }

func (*doorman) Post(context.Context, safehttp.Request) (safehttp.Response, error) {
	return safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeConnect, Err: errors.New("nobody is there")}
}

func (g *doorman) Check(_ context.Context, rawURL string) error {
	g.checked.Add(1)
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
	if _, err := get(""); !errors.Is(err, a2a.ErrTaskNotFound) || !strings.Contains(err.Error(), "not found") {
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
	if _, err := get("second"); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("Get of what was deleted = %v, want not found", err)
	}
	if lane := k.lane(id); lane.Cursor.Seq != 7 || lane.Cursor.Sequence != 6 || lane.Pending() {
		t.Errorf("lane of a late webhook = %+v, want it behind all that has happened", lane.Cursor)
	}
}

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
			_, err = k.Prepare(t.Context(), alice, &a2a.MessageSendConfiguration{PushNotificationConfig: &c.config})
			if c.config.Token == Mask || c.name == "credentials that are masked" {
				return // found out when there is a task
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

func TestRotation(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, nil)
	told := []string{k.set(a2a.PushNotificationConfig{ID: "w", URL: hook}).Config.SigningSecret}
	for range 5 {
		k.at.Add(int64(time.Hour))
		told = append(told, k.set(a2a.PushNotificationConfig{ID: "w", URL: hook, RotateSecret: true}).Config.SigningSecret)
	}
	keys := k.secrets("w").Keys
	if len(keys) != maxKeys || keys[0].told() != told[5] || keys[1].told() != told[4] {
		t.Fatalf("%d keys are kept, want the newest %d", len(keys), maxKeys)
	}
	if want := k.now().Add(overlap); !keys[0].Until.IsZero() || !keys[1].Until.Equal(want) {
		t.Errorf("keys are good until %s and %s, want the old one until %s", keys[0].Until, keys[1].Until, want)
	}
	k.at.Add(int64(overlap + time.Minute))
	k.set(a2a.PushNotificationConfig{ID: "w", URL: hook})
	if keys := k.secrets("w").Keys; len(keys) != 1 || keys[0].told() != told[5] {
		t.Errorf("after a day %d keys are kept, want the newest alone", len(keys))
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

// fail has a worker make a dead letter of the next event of a lane, and disable it.
func (k *keeper) fail(id, reason string) {
	k.t.Helper()
	ctx, now := k.t.Context(), store.Time(k.now())
	claimed, err := k.cfg.Store.ClaimLanes(ctx, store.LaneClaim{Worker: "x", Now: now, Until: now.Add(time.Minute), Limit: 1, Events: 1})
	if err != nil || len(claimed) != 1 {
		k.t.Fatalf("ClaimLanes = %d, %v, want one", len(claimed), err)
	}
	c := claimed[0]
	next, _ := c.Cursor.Next(&c.Events[0])
	lost, err := k.cfg.Store.AckLanes(ctx, store.LaneAck{
		Lease: store.LaneLease{Task: c.Config.Task, ID: id, Worker: "x", Fence: c.Fence}, At: now,
		Cursor: next, State: store.LaneDisabled, Reason: reason, DueAt: now.Add(time.Hour),
		Attempts: []store.PushAttempt{{Task: c.Config.Task, ConfigID: id, Seq: next.Seq, Sequence: next.Sequence, Attempt: 1, At: now, Status: 410, Outcome: "gone"}},
		Dead:     []store.DeadLetter{{Task: c.Config.Task, ConfigID: id, Cursor: c.Cursor, Seq: next.Seq, Sequence: next.Sequence, Attempts: 1, Status: 410, Reason: reason, At: now}},
	})
	if err != nil || len(lost) > 0 {
		k.t.Fatalf("AckLanes = %v, %v", lost, err)
	}
}

func TestDeadLettersAndReplay(t *testing.T) {
	t.Parallel()
	k, ctx := newKeeper(t, nil), t.Context()
	k.set(a2a.PushNotificationConfig{ID: "w", URL: hook})
	replay := func(from int64) (*a2a.ReplayResult, error) {
		return k.Replay(ctx, alice, a2a.ReplayParams{TaskID: "t", FromSequence: from})
	}
	if got, err := replay(0); err != nil || got.FromSequence != 0 || k.lane("w").Pending() {
		t.Errorf("Replay without dead letters = %+v, %v, want nothing", got, err)
	}
	if _, err := replay(7); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Replay from an update that was not = %v, want invalid_params", err)
	}
	if got, err := replay(2); err != nil || got.FromSequence != 2 || got.ConfigID != "w" {
		t.Errorf("Replay(2) = %+v, %v", got, err)
	}
	want := store.PushCursor{Seq: 2, Sequence: 1, State: a2a.StateWorking}
	if lane := k.lane("w"); lane.Cursor != want || !lane.Pending() {
		t.Errorf("lane after Replay(2) = %+v, want %+v", lane.Cursor, want)
	}
	k.fail("w", "first")
	k.at.Add(int64(2 * time.Hour))
	k.fail("w", "second")
	letters, err := k.DeadLetters(ctx, alice, a2a.ListDeadLettersParams{PageSize: 1})
	if err != nil || len(letters.DeadLetters) != 1 || letters.NextPageToken == "" || letters.PageSize != 1 {
		t.Fatalf("DeadLetters = %+v, %v, want the first page of two", letters, err)
	}
	d := letters.DeadLetters[0]
	if d.Sequence != 3 || d.EventID != EventID(store.Key{Owner: "alice", ID: "t"}, born, 4) || d.Reason != "second" || d.Status != 410 {
		t.Errorf("newest dead letter = %+v, want the second", d)
	}
	rest, err := k.DeadLetters(ctx, alice, a2a.ListDeadLettersParams{PageSize: 1, PageToken: letters.NextPageToken})
	if err != nil || len(rest.DeadLetters) != 1 || rest.DeadLetters[0].Sequence != 2 {
		t.Errorf("second page = %+v, %v, want the first dead letter", rest, err)
	}
	if _, err := k.DeadLetters(ctx, alice, a2a.ListDeadLettersParams{TaskID: "t", PageToken: letters.NextPageToken}); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("token of another list = %v, want invalid_params", err)
	}
	if _, err := k.DeadLetters(ctx, alice, a2a.ListDeadLettersParams{PageToken: newList("dead", store.PushQuery{Owner: "alice"}).token("forged")}); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("forged token = %v, want invalid_params", err)
	}
	attempts, err := k.Attempts(ctx, alice, a2a.ListAttemptsParams{TaskID: "t", ConfigID: "default"})
	if err != nil || len(attempts.Attempts) != 2 || attempts.Attempts[0].EventID != d.EventID || attempts.PageSize != 50 {
		t.Errorf("Attempts = %+v, %v, want two, the newest first", attempts, err)
	}
	if got, err := k.DeadLetters(ctx, bob, a2a.ListDeadLettersParams{}); err != nil || len(got.DeadLetters) != 0 {
		t.Errorf("DeadLetters of a stranger = %+v, %v, want none", got, err)
	}
	if got, err := replay(0); err != nil || got.FromSequence != 2 {
		t.Errorf("Replay = %+v, %v, want it from the first dead letter", got, err)
	}
	if lane := k.lane("w"); lane.Cursor != want || lane.State != store.LaneActive {
		t.Errorf("lane after Replay = %+v, want it active at %+v", lane, want)
	}
}

func TestAttemptsWithoutAnAnswerLookTheSameToOwners(t *testing.T) {
	t.Parallel()
	attempt := store.PushAttempt{ConfigID: "w", Sequence: 2, Attempt: 3, At: born, Duration: 15 * time.Second, Address: "10.0.0.1:80", Detail: "i/o timeout"}
	want := a2a.PushAttempt{ConfigID: "w", EventID: "e", Sequence: 2, Attempt: 3, At: born, Outcome: "no-answer"}
	for _, outcome := range []string{
		safehttp.OutcomeDNS, safehttp.OutcomeConnect, safehttp.OutcomeTLS, safehttp.OutcomeTimeout, safehttp.OutcomeProtocol, safehttp.OutcomeCanceled,
	} {
		attempt.Outcome = outcome
		if got := ownAttempt(&attempt, "e"); got != want {
			t.Errorf("%s is told as %+v, want %+v", outcome, got, want)
		}
		if got := wholeAttempt(&attempt, "e"); got.Outcome != outcome || got.Millis != 15000 {
			t.Errorf("%s is told to operators as %+v", outcome, got)
		}
	}
	attempt.Outcome, attempt.Status = outcomeUnavailable, 503
	want.Outcome, want.Status, want.Millis = "unavailable", 503, 15000
	if got := ownAttempt(&attempt, "e"); got != want {
		t.Errorf("an answer is told as %+v, want %+v", got, want)
	}
}

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
	if later, err := in.Push(ctx, task, 3); err != nil || later != nil {
		t.Errorf("a later message brings %+v, %v, want nothing", later, err)
	}
	log := testLog()
	k.commit(store.Change{Key: task, Create: &store.Create{ContextID: "ctx"}, Events: log[:2], Run: &store.Run{Phase: store.PhaseIdle}, Push: brought})
	lanes := func() (ids []string) {
		t.Helper()
		page, err := k.cfg.Store.Lanes(ctx, store.LaneQuery{Owner: "alice", TaskID: "open", Limit: 9})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Lanes {
			ids = append(ids, fmt.Sprintf("%s@%d", l.Config.ID, l.Cursor.Seq))
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
	same("with own ones", "a@2", "b@2")
	k.commit(store.Change{Key: task, Version: 2, Events: log[2:3]})
	for _, id := range []string{"a", "b"} {
		if err := k.Delete(ctx, alice, a2a.DeleteTaskPushNotificationConfigParams{TaskID: "open", ConfigID: id}); err != nil {
			t.Fatal(err)
		}
	}
	same("without own ones again", "global@3")

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
	same("with one of a message", "c@3")
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
	if got := set("v1"); got != "" {
		t.Errorf("the next Set tells the secret %q again", got)
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
