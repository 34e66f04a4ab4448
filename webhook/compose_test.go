package webhook

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

var (
	testTask    = store.Key{Owner: "alice", ID: "task-1"}
	taskCreated = time.Date(2026, 5, 18, 8, 0, 0, 123e6, time.UTC)
)

func agentMessage(parts ...a2a.Part) *a2a.Message {
	return &a2a.Message{ID: "m2", Role: a2a.RoleAgent, TaskID: testTask.ID, ContextID: "ctx", Parts: parts}
}

// testLog returns the log of a completed task.
func testLog() []store.Event {
	question := a2a.Message{ID: "m1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "hi"}}}
	data := a2a.DataPart{Data: map[string]any{"camelCase": 1.0, "snake_case": []any{map[string]any{"mimeType": "x"}}}}
	file := a2a.FilePart{File: a2a.FileWithBytes{Name: "a.txt", MimeType: "text/plain", Bytes: []byte("hello")}}
	events := []store.Event{
		{State: a2a.StateSubmitted, Received: &question},
		{State: a2a.StateWorking},
		{State: a2a.StateInputRequired, Message: agentMessage(a2a.TextPart{Text: "Which date range should I use?"})},
		{State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a1", Name: "results.json", Parts: []a2a.Part{data, file}}},
		{State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a2", Parts: []a2a.Part{a2a.TextPart{Text: "one "}}}},
		{State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a2", Parts: []a2a.Part{a2a.TextPart{Text: "two"}}}, Append: true, LastChunk: true},
		{State: a2a.StateCompleted},
	}
	for i := range events {
		events[i].Seq, events[i].Time = int64(i+1), taskCreated.Add(time.Duration(i)*time.Second)
	}
	return events
}

func testService(t *testing.T, cfg Config) *Service {
	t.Helper()
	cfg.NewID = func() string { return "id" }
	if cfg.Store == nil {
		cfg.Store = new(logStore)
	}
	cfg.UserAgent = "holdfast-test"
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.delivery.open(t.Context())
	return s
}

// claimed returns a lane claimed with the whole log.
func claimed(t *testing.T, s *Service, set settings) *store.ClaimedLane {
	t.Helper()
	data, err := s.seal.encode(set, testTask, "w1")
	if err != nil {
		t.Fatal(err)
	}
	return &store.ClaimedLane{
		Lane:   store.Lane{Webhook: store.Webhook{Task: testTask, ID: "w1", Data: data}, Tail: 7},
		Events: testLog(), Created: taskCreated, ContextID: "ctx",
	}
}

// sent is a request.
type sent struct {
	Header http.Header
	Body   string
}

// composeAll composes the requests for all events of a lane, and checks that a second attempt
// is the same.
func composeAll(t *testing.T, s *Service, lane *store.ClaimedLane) []sent {
	t.Helper()
	c, err := s.delivery.compose(t.Context(), lane)
	if err != nil {
		t.Fatal(err)
	}
	var all []sent
	cursor := lane.Cursor
	for i := range lane.Events {
		next, send := cursor.Next(&lane.Events[i])
		if cursor = next; !send {
			continue
		}
		r, err := c.request(t.Context(), &lane.Events[i], next, 1, taskCreated.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.request(t.Context(), &lane.Events[i], next, 2, taskCreated.Add(2*time.Hour))
		if err != nil || !bytes.Equal(again.Body, r.Body) || again.Header.Get("Webhook-Id") != r.Header.Get("Webhook-Id") {
			t.Errorf("second attempt of event %d: body %s, %v, want %s", i, again.Body, err, r.Body)
		}
		all = append(all, sent{r.Header, string(r.Body)})
	}
	return all
}

func TestEventPayloads(t *testing.T) {
	t.Parallel()
	s := testService(t, Config{})
	got := composeAll(t, s, claimed(t, s, settings{URL: "https://example.com/hook", Secrets: &secrets{}}))
	const ids = `"task_id":"task-1","context_id":"ctx"`
	id := func(seq int64) string { return EventID(testTask, taskCreated, seq) }
	want := []string{
		`{"event_id":"` + id(2) + `","sequence":1,"timestamp":"2026-05-18T08:00:01.123000+00:00","kind":"status-update",` + ids +
			`,"status":{"state":"working","timestamp":"2026-05-18T08:00:01.123000+00:00"},"final":false}`,
		`{"event_id":"` + id(3) + `","sequence":2,"timestamp":"2026-05-18T08:00:02.123000+00:00","kind":"status-update",` + ids +
			`,"status":{"state":"input-required","timestamp":"2026-05-18T08:00:02.123000+00:00","message":{"role":"agent","kind":"message","message_id":"m2",` + ids +
			`,"parts":[{"kind":"text","text":"Which date range should I use?"}]}},"final":false}`,
		`{"event_id":"` + id(4) + `","sequence":3,"timestamp":"2026-05-18T08:00:03.123000+00:00","kind":"artifact-update",` + ids +
			`,"artifact":{"artifact_id":"a1","name":"results.json","parts":[{"kind":"data","data":{"camelCase":1,"snake_case":[{"mimeType":"x"}]}},` +
			`{"kind":"file","file":{"name":"a.txt","mime_type":"text/plain","bytes":"aGVsbG8="}}]}}`,
		`{"event_id":"` + id(5) + `","sequence":4,"timestamp":"2026-05-18T08:00:04.123000+00:00","kind":"artifact-update",` + ids +
			`,"artifact":{"artifact_id":"a2","parts":[{"kind":"text","text":"one "}]}}`,
		`{"event_id":"` + id(6) + `","sequence":5,"timestamp":"2026-05-18T08:00:05.123000+00:00","kind":"artifact-update",` + ids +
			`,"artifact":{"artifact_id":"a2","parts":[{"kind":"text","text":"two"}]},"append":true,"last_chunk":true}`,
		`{"event_id":"` + id(7) + `","sequence":6,"timestamp":"2026-05-18T08:00:06.123000+00:00","kind":"status-update",` + ids +
			`,"status":{"state":"completed","timestamp":"2026-05-18T08:00:06.123000+00:00"},"final":true}`,
	}
	compareBodies(t, got, want)
	for i, d := range got {
		if ct := d.Header.Get("Content-Type"); ct != "application/json" {
			t.Errorf("event %d has Content-Type %q, want application/json", i, ct)
		}
	}
}

func compareBodies(t *testing.T, got []sent, want []string) {
	t.Helper()
	var bodies []string
	for _, d := range got {
		bodies = append(bodies, d.Body)
	}
	if diff := cmp.Diff(want, bodies); diff != "" {
		t.Errorf("bodies differ (-want +got):\n%s", diff)
	}
}

func TestStreamResponsePayloads(t *testing.T) {
	t.Parallel()
	s := testService(t, Config{})
	got := composeAll(t, s, claimed(t, s, settings{URL: "https://example.com/hook", Format: a2a.PayloadStreamResponse, Secrets: &secrets{}}))
	const ids = `"taskId":"task-1","contextId":"ctx"`
	compareBodies(t, got, []string{
		`{"statusUpdate":{` + ids + `,"status":{"state":"TASK_STATE_WORKING","timestamp":"2026-05-18T08:00:01.123Z"}}}`,
		`{"statusUpdate":{` + ids + `,"status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"m2","contextId":"ctx","taskId":"task-1","role":"ROLE_AGENT",` +
			`"parts":[{"text":"Which date range should I use?"}]},"timestamp":"2026-05-18T08:00:02.123Z"}}}`,
		`{"artifactUpdate":{` + ids + `,"artifact":{"artifactId":"a1","name":"results.json","parts":[{"data":{"camelCase":1,"snake_case":[{"mimeType":"x"}]}},` +
			`{"raw":"aGVsbG8=","filename":"a.txt","mediaType":"text/plain"}]}}}`,
		`{"artifactUpdate":{` + ids + `,"artifact":{"artifactId":"a2","parts":[{"text":"one "}]}}}`,
		`{"artifactUpdate":{` + ids + `,"artifact":{"artifactId":"a2","parts":[{"text":"two"}]},"append":true,"lastChunk":true}}`,
		`{"statusUpdate":{` + ids + `,"status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-05-18T08:00:06.123Z"}}}`,
	})
	if ct := got[0].Header.Get("Content-Type"); ct != "application/a2a+json" {
		t.Errorf("Content-Type %q, want application/a2a+json", ct)
	}
}

// logStore is a store with the log of one task.
type logStore struct {
	store.Store
	events []store.Event
	err    error
}

func (l *logStore) Info() store.Info { return store.Info{} }

func (l *logStore) Events(_ context.Context, _ store.Key, after int64, limit int) ([]store.Event, error) {
	if l.err != nil {
		return nil, l.err
	}
	rest := l.events[min(int(after), len(l.events)):]
	return rest[:min(limit, len(rest))], nil
}

func (l *logStore) LogRows(_ context.Context, _ store.Key, after int64, limit int) (rows []store.LogRow, err error) {
	for _, e := range l.events[min(int(after), len(l.events)):] {
		if len(rows) < limit {
			rows = append(rows, store.LogRow{Seq: e.Seq, Events: 1})
		}
	}
	return rows, l.err
}

func TestTaskPayloadIsTheStateAfterTheEvent(t *testing.T) {
	t.Parallel()
	s := testService(t, Config{Store: &logStore{events: testLog()}})
	set := settings{URL: "https://example.com/hook", Format: a2a.PayloadTask, Secrets: &secrets{}}
	whole := composeAll(t, s, claimed(t, s, set))
	fold := &store.Task{Key: testTask, ContextID: "ctx"}
	n := 0
	for _, e := range testLog() {
		fold.Apply(e)
		if e.Seq == 1 {
			continue
		}
		want, err := json.Marshal(taskOf(fold).Status.State)
		if err != nil || !strings.Contains(whole[n].Body, `"status":{"state":`+string(want)) {
			t.Errorf("update %d: body %s, want state %s", n+1, whole[n].Body, want)
		}
		if got := strings.Count(whole[n].Body, `"artifactId"`); got != len(fold.Artifacts) {
			t.Errorf("update %d has %d artifacts, want %d", n+1, got, len(fold.Artifacts))
		}
		n++
	}
	// The payload does not depend on the first event of the claim.
	lane := claimed(t, s, set)
	lane.Cursor = store.WebhookCursor{Seq: 5, Sequence: 4, State: a2a.StateWorking}
	lane.Events = lane.Events[5:]
	rest := composeAll(t, s, lane)
	if len(rest) != 2 || rest[0].Body != whole[4].Body || rest[1].Body != whole[5].Body {
		t.Errorf("payloads of a claim from event 6 = %v, want the same as before: %v", rest, whole[4:])
	}
	s.cfg.Store = &logStore{err: store.ErrClosed}
	if _, err := s.delivery.compose(t.Context(), lane); !errors.Is(err, store.ErrClosed) {
		t.Errorf("compose with a closed store = %v, want %v", err, store.ErrClosed)
	}
}

func TestEventIDs(t *testing.T) {
	t.Parallel()
	base := EventID(testTask, taskCreated, 2)
	if want := "4460cb9d-4e2b-851e-948c-9d8d42f7a64c"; base != want {
		t.Errorf("EventID = %s, want %s as in all versions", base, want)
	}
	seen := map[string]bool{base: true}
	for _, other := range []string{
		EventID(testTask, taskCreated, 3),
		EventID(testTask, taskCreated.Add(time.Millisecond), 2),
		EventID(store.Key{Owner: "alic", ID: "etask-1"}, taskCreated, 2),
		EventID(store.Key{Owner: "bob", ID: "task-1"}, taskCreated, 2),
	} {
		if seen[other] || other[14] != '8' || !strings.ContainsRune("89ab", rune(other[19])) {
			t.Errorf("EventID = %s, want a unique UUID of version 8", other)
		}
		seen[other] = true
	}
	if again := EventID(testTask, taskCreated.In(time.FixedZone("", 3600)), 2); again != base {
		t.Errorf("EventID in another zone = %s, want %s", again, base)
	}
}

func TestAuthenticationHeaders(t *testing.T) {
	t.Parallel()
	s := testService(t, Config{})
	for _, c := range []struct {
		name    string
		format  a2a.PayloadFormat
		auth    a2a.PushAuthentication
		secrets secrets
		want    map[string]string
	}{
		{"nothing", "", nil, secrets{}, map[string]string{}},
		{"a token", "", nil, secrets{Token: "a b/c=="}, map[string]string{"Authorization": "Bearer a b/c==", "X-A2A-Notification-Token": "a b/c=="}},
		{"credentials win", "", a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Basic", "Bearer"}}, secrets{Token: "t", Credentials: "dTpw"}, map[string]string{"Authorization": "Basic dTpw", "X-A2A-Notification-Token": "t"}},
		{"a bearer token", "", a2a.PushNotificationAuthenticationInfo{Schemes: []string{"bearer"}}, secrets{Token: "t"}, map[string]string{"Authorization": "Bearer t", "X-A2A-Notification-Token": "t"}},
		{"http", "", a2a.HTTPAuthSecurityScheme{Scheme: "Digest"}, secrets{Token: "t"}, map[string]string{"Authorization": "Digest t", "X-A2A-Notification-Token": "t"}},
		{"http bearer", "", a2a.HTTPAuthSecurityScheme{Scheme: "bearer"}, secrets{Token: "t"}, map[string]string{"Authorization": "Bearer t", "X-A2A-Notification-Token": "t"}},
		{"a key", "", a2a.APIKeySecurityScheme{Name: "x-api-key", In: a2a.InHeader}, secrets{Token: "t"}, map[string]string{"X-Api-Key": "t", "X-A2A-Notification-Token": "t"}},
		{"a token with a task", a2a.PayloadTask, nil, secrets{Token: "t"}, map[string]string{"X-A2A-Notification-Token": "t"}},
		{"a token with a stream response", a2a.PayloadStreamResponse, nil, secrets{Token: "t"}, map[string]string{"X-A2A-Notification-Token": "t"}},
		{"another scheme with a task", a2a.PayloadTask, a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Basic"}}, secrets{Token: "t"}, map[string]string{"X-A2A-Notification-Token": "t"}},
		{"a bearer token with a task", a2a.PayloadTask, a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Bearer"}}, secrets{Token: "t"}, map[string]string{"Authorization": "Bearer t", "X-A2A-Notification-Token": "t"}},
		{"http bearer with a stream response", a2a.PayloadStreamResponse, a2a.HTTPAuthSecurityScheme{Scheme: "bearer"}, secrets{Token: "t"}, map[string]string{"Authorization": "Bearer t", "X-A2A-Notification-Token": "t"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.secrets.Keys = []signingKey{newSigningKey(time.Time{})}
			got := composeAll(t, s, claimed(t, s, settings{URL: "https://example.com/hook", Format: c.format, Authentication: c.auth, Secrets: &c.secrets}))[0].Header
			for name, want := range c.want {
				if got.Get(name) != want {
					t.Errorf("header %s is %q, want %q", name, got.Get(name), want)
				}
			}
			for _, name := range []string{"Authorization", "X-A2A-Notification-Token", "X-Api-Key"} {
				if _, want := c.want[name]; !want && got.Get(name) != "" {
					t.Errorf("header %s is %q, want none", name, got.Get(name))
				}
			}
			if a, b := got.Get("X-A2A-Notification-Token"), got.Get("A2A-Notification-Token"); a != b {
				t.Errorf("A2A-Notification-Token is %q, want %q", b, a)
			}
			if got.Get("User-Agent") != "holdfast-test" || got.Get("X-Delivery-Attempt") != "1" {
				t.Errorf("headers are %v, want the agent and attempt 1", got)
			}
		})
	}
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	now := time.Now()
	current, old := newSigningKey(time.Time{}), newSigningKey(time.Time{})
	old.Until = now.Add(time.Minute)
	all := signers([]signingKey{current, old}, []string{"v1", "v1a"})
	body := []byte(`{"event_id":"x"}`)
	header := signature(all, "id-1", now, body)
	if n := len(strings.Fields(header)); n != 4 {
		t.Fatalf("signature = %q, has %d entries, want 4", header, n)
	}
	for _, key := range []signingKey{current, old} {
		if err := verifyV1(t, key.encodedSecret(), header, now, body); err != nil {
			t.Errorf("v1: %v", err)
		}
		if err := verifyV1(t, key.encodedSecret(), header, now, []byte(`{"event_id":"y"}`)); err == nil {
			t.Error("v1: verified a changed body")
		}
		if !verifyV1a(t, key.encodedPublicKey(), header, "id-1", now, body) {
			t.Errorf("v1a: %s does not verify %s", key.encodedPublicKey(), header)
		}
		if verifyV1a(t, key.encodedPublicKey(), header, "id-2", now, body) {
			t.Error("v1a: verified another id")
		}
	}
	late := signature(all, "id-1", now.Add(2*time.Minute), body)
	if verifyV1(t, old.encodedSecret(), late, now.Add(2*time.Minute), body) == nil || verifyV1(t, current.encodedSecret(), late, now.Add(2*time.Minute), body) != nil {
		t.Errorf("signature after the overlap = %q, want only the signature of the new key", late)
	}
	if got := signers([]signingKey{current}, nil); len(got) != 1 || got[0].secret == nil {
		t.Errorf("signers without versions = %v, want only v1", got)
	}
	if bytes.Equal(current.secret(), current.private().Seed()) {
		t.Error("the private key of v1a is the v1 secret that receivers have")
	}
}

// verifyV1 verifies a v1 signature with the library of Standard Webhooks.
func verifyV1(t *testing.T, secret, header string, at time.Time, body []byte) error {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set("webhook-id", "id-1")
	h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("webhook-signature", header)
	return wh.Verify(body, h)
}

// verifyV1a verifies a v1a signature as the specification says.
func verifyV1a(t *testing.T, public, header, id string, at time.Time, body []byte) bool {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(public, "whpk_"))
	if err != nil || len(key) != ed25519.PublicKeySize {
		t.Fatalf("public key %q: %v", public, err)
	}
	for entry := range strings.FieldsSeq(header) {
		version, text, _ := strings.Cut(entry, ",")
		sig, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if version == "v1a" && ed25519.Verify(key, []byte(id+"."+strconv.FormatInt(at.Unix(), 10)+"."+string(body)), sig) {
			return true
		}
	}
	return false
}

// The test vector of the specification.
func TestSignatureMatchesTheSpecification(t *testing.T) {
	t.Parallel()
	secret, err := decodeSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := signature([]signer{{secret: secret}}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature = %s, want %s", got, want)
	}
}

func TestSecretsAreEncrypted(t *testing.T) {
	t.Parallel()
	key := func(b byte) []byte { return bytes.Repeat([]byte{b}, keyLen) }
	first, both, other := testService(t, Config{Settings: Settings{Keys: [][]byte{key(1)}}}), testService(t, Config{Settings: Settings{Keys: [][]byte{key(2), key(1)}}}), testService(t, Config{Settings: Settings{Keys: [][]byte{key(3)}}})
	set := settings{URL: "https://example.com/hook", Secrets: &secrets{Token: "hush-token", Credentials: "hush-credentials", Keys: []signingKey{newSigningKey(time.Time{})}}}
	lane := claimed(t, first, set)
	if text := string(lane.Webhook.Data); strings.Contains(text, "hush") || strings.Contains(text, base64.StdEncoding.EncodeToString(set.Secrets.Keys[0].Seed)) {
		t.Errorf("stored data = %s, want no secrets", text)
	}
	for name, s := range map[string]*Service{"the same key": first, "a newer key too": both} {
		got, err := s.seal.decode(&lane.Webhook)
		if err != nil || got.Secrets.Token != "hush-token" || got.Secrets.Credentials != "hush-credentials" {
			t.Errorf("decode with %s = %+v, %v", name, got.Secrets, err)
		}
	}
	if _, err := other.delivery.compose(t.Context(), lane); !errors.Is(err, errUndecryptable) {
		t.Errorf("compose with another key = %v, want %v", err, errUndecryptable)
	}
	moved := *lane
	moved.Webhook.ID = "w2"
	if _, err := first.delivery.compose(t.Context(), &moved); !errors.Is(err, errUndecryptable) {
		t.Errorf("compose of secrets of another webhook = %v, want %v", err, errUndecryptable)
	}
	if plain := claimed(t, testService(t, Config{}), set); composeAll(t, first, plain)[0].Header.Get("Authorization") != "Bearer hush-token" {
		t.Error("secrets stored without keys cannot be read by a service with keys")
	}
	if _, err := New(Config{Store: new(logStore), NewID: func() string { return "id" }, Settings: Settings{Keys: [][]byte{key(1), key(1)[1:]}}}); err == nil || !strings.Contains(err.Error(), "Keys[1]") {
		t.Errorf("New with a short key = %v, want an error that names Keys[1]", err)
	}
}

func TestGlobalWebhookUsesTheCurrentConfiguration(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	s := testService(t, Config{Settings: Settings{Global: Global{URL: "https://example.com/global", Token: "g", Secret: secret}}})
	lane := claimed(t, s, settings{})
	lane.Webhook.ID, lane.Webhook.Data = GlobalID, globalData
	got := composeAll(t, s, lane)
	if len(got) != 6 || got[0].Header.Get("Authorization") != "Bearer g" || !strings.HasPrefix(got[0].Header.Get("Webhook-Signature"), "v1,") {
		t.Errorf("requests = %v, want six with the configured token, signed", got)
	}
	s = testService(t, Config{})
	var p *permanentError
	if _, err := s.delivery.compose(t.Context(), lane); !errors.As(err, &p) || !strings.Contains(p.reason, "no global webhook") {
		t.Errorf("compose without a global webhook = %v, want a permanent error", err)
	}
	if _, err := New(Config{Store: new(logStore), NewID: func() string { return "id" }, Settings: Settings{Global: Global{Secret: "hunter2"}}}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("New with an invalid secret = %v, want an error without the secret", err)
	}
}
