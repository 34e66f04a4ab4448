package webhook

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
)

func TestMaskIsRejectedForUndecryptableSecrets(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, keyLen)
	f := newFixture(t, func(c *Config) { c.Keys = [][]byte{key} })
	auth := a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Basic"}, Credentials: "hush"}
	f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL, Token: "hush", Authentication: auth})
	f.seal = nil
	auth.Credentials = Mask
	for field, c := range map[string]a2a.PushNotificationConfig{
		"pushNotificationConfig.token":                      {ID: "w", URL: hookURL, Token: Mask},
		"pushNotificationConfig.authentication.credentials": {ID: "w", URL: hookURL, Authentication: auth},
	} {
		_, err := f.Set(t.Context(), alice, a2a.TaskPushNotificationConfig{TaskID: "t", Config: c})
		if err == nil || !strings.HasPrefix(err.Error(), field) || !strings.Contains(err.Error(), "cannot be decrypted") {
			t.Errorf("Set = %v, want an error that %s cannot be decrypted", err, field)
		}
	}
	if got := f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL, Token: "new"}); got.Config.SigningSecret == "" {
		t.Error("Set returns no new secret")
	}
}

// A client that reads a webhook and sends it back must not remove its secrets.
func TestUndecryptableSecretsAreMasked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Keys = [][]byte{bytes.Repeat([]byte{7}, keyLen)} })
	auth := a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Basic"}, Credentials: "hush"}
	f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL, Token: "hush", Authentication: auth})
	f.set(a2a.PushNotificationConfig{ID: "x", URL: hookURL + "x"})
	auth.Credentials = Mask
	masked := func(what string, token string, got a2a.PushNotificationConfig) {
		t.Helper()
		if got.ID == "w" && (got.Token != Mask || cmp.Diff(a2a.PushAuthentication(auth), got.Authentication) != "") || got.ID == "x" && got.Token != token {
			t.Errorf("%s: %s with token %q and %+v", what, got.ID, got.Token, got.Authentication)
		}
	}
	all := func(what, token string) []a2a.TaskPushNotificationConfig {
		t.Helper()
		list, err := f.List(t.Context(), alice, a2a.ListTaskPushNotificationConfigParams{TaskID: "t"})
		if err != nil || len(list.Configs) != 2 {
			t.Fatalf("List = %+v, %v", list, err)
		}
		for _, w := range list.Configs {
			masked(what, token, w.Config)
		}
		return list.Configs
	}
	all("with the key", "")
	f.seal = nil
	for _, w := range all("without the key", Mask) {
		w.Config.Delivery = nil
		if _, err := f.Set(t.Context(), alice, w); a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Errorf("Set of %s as it was returned = %v, want invalid_params", w.Config.ID, err)
		}
	}
	for w, err := range (&Operator{f.catalog}).Webhooks(t.Context(), "alice", "t") {
		if err != nil {
			t.Fatal(err)
		}
		masked("operator", Mask, w.Webhook.Config)
	}
}
