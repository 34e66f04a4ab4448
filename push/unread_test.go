package push

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
)

func TestSecretsThatCannotBeReadAreNotKept(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, keyLen)
	k := newKeeper(t, func(c *Config) { c.Keys = [][]byte{key} })
	auth := a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Basic"}, Credentials: "hush"}
	k.set(a2a.PushNotificationConfig{ID: "w", URL: hook, Token: "hush", Authentication: auth})
	k.seal = nil
	auth.Credentials = Mask
	for field, c := range map[string]a2a.PushNotificationConfig{
		"pushNotificationConfig.token":                      {ID: "w", URL: hook, Token: Mask},
		"pushNotificationConfig.authentication.credentials": {ID: "w", URL: hook, Authentication: auth},
	} {
		_, err := k.Set(t.Context(), alice, a2a.TaskPushNotificationConfig{TaskID: "t", Config: c})
		if err == nil || !strings.HasPrefix(err.Error(), field) || !strings.Contains(err.Error(), "cannot be decrypted") {
			t.Errorf("Set = %v, want that %s cannot be decrypted", err, field)
		}
	}
	if got := k.set(a2a.PushNotificationConfig{ID: "w", URL: hook, Token: "new"}); got.Config.SigningSecret == "" {
		t.Error("Set does not tell the new secret")
	}
}

// Who reads a webhook and sends it back must not take its secrets away.
func TestSecretsThatCannotBeReadAreToldAsThere(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, func(c *Config) { c.Keys = [][]byte{bytes.Repeat([]byte{7}, keyLen)} })
	auth := a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Basic"}, Credentials: "hush"}
	k.set(a2a.PushNotificationConfig{ID: "w", URL: hook, Token: "hush", Authentication: auth})
	k.set(a2a.PushNotificationConfig{ID: "x", URL: hook + "x"})
	auth.Credentials = Mask
	masked := func(what string, token string, got a2a.PushNotificationConfig) {
		t.Helper()
		if got.ID == "w" && (got.Token != Mask || cmp.Diff(a2a.PushAuthentication(auth), got.Authentication) != "") || got.ID == "x" && got.Token != token {
			t.Errorf("%s: %s with token %q and %+v", what, got.ID, got.Token, got.Authentication)
		}
	}
	all := func(what, token string) []a2a.TaskPushNotificationConfig {
		t.Helper()
		list, err := k.List(t.Context(), alice, a2a.ListTaskPushNotificationConfigParams{TaskID: "t"})
		if err != nil || len(list) != 2 {
			t.Fatalf("List = %+v, %v", list, err)
		}
		for _, w := range list {
			masked(what, token, w.Config)
		}
		return list
	}
	all("with the key", "")
	k.seal = nil
	for _, w := range all("without the key", Mask) {
		w.Config.Delivery = nil
		if _, err := k.Set(t.Context(), alice, w); a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Errorf("Set of %s as it was told = %v, want that its secrets cannot be decrypted", w.Config.ID, err)
		}
	}
	for w, err := range (&Operator{k.Service}).Webhooks(t.Context(), "alice", "t") {
		if err != nil {
			t.Fatal(err)
		}
		masked("operator", Mask, w.Webhook.Config)
	}
}
