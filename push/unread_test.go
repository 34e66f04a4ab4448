package push

import (
	"bytes"
	"strings"
	"testing"

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
