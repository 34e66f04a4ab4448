package webhook

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Stores contain these bytes, so every version must read them.
func TestStoredSettingsAreReadable(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_763_640_000_123).UTC()
	whole := settings{
		URL: "https://example.org/hook", Authentication: a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Bearer"}},
		Format: a2a.PayloadTask, Signatures: []string{"v1"}, SecretReturned: true, Saved: at,
		Secrets: &secrets{Token: "token", Credentials: "credentials", Keys: []signingKey{{Seed: []byte{1, 2, 255}, Made: at}, {Seed: []byte{3}, Until: at}}},
	}
	apiKey := whole
	apiKey.Authentication = a2a.APIKeySecurityScheme{Name: "X-Key", In: "header"}
	key := bytes.Repeat([]byte{7}, keyLen)
	keys, err := newSealer([][]byte{key})
	if err != nil {
		t.Fatal(err)
	}
	task := store.Key{Owner: "did:example:owner", ID: "task-1"}
	for name, test := range map[string]struct {
		want   settings
		sealed bool
	}{
		"settings.json":         {want: whole},
		"settings-api-key.json": {want: apiKey},
		"settings-global.json":  {want: settings{Global: true, Through: 7, Secrets: new(secrets)}},
		"settings-sealed.json":  {want: whole, sealed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join("testdata/stored", name))
			if err != nil {
				t.Fatal(err)
			}
			data = bytes.TrimSpace(data)
			got, err := keys.decode(&store.Webhook{Task: task, ID: "webhook-1", Data: data})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("stored settings (-want +got):\n%s", diff)
			}
			if test.sealed || test.want.Global {
				return // written with a random nonce; written without secrets
			}
			written, err := sealer(nil).encode(test.want, task, "webhook-1")
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(written, data) {
				t.Errorf("the settings are written as %s, want %s", written, data)
			}
		})
	}
}
