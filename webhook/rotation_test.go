package webhook

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Old keys continue to sign for a day after a rotation.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	returned := []string{f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL}).Config.SigningSecret}
	for range maxKeys - 1 {
		f.at.Add(int64(time.Hour))
		returned = append(returned, f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL, RotateSecret: true}).Config.SigningSecret)
	}
	keys := f.secrets("w").Keys
	if len(keys) != maxKeys || keys[0].encodedSecret() != returned[3] || keys[1].encodedSecret() != returned[2] {
		t.Fatalf("%d keys after %d rotations, want %d", len(keys), maxKeys-1, maxKeys)
	}
	if want := f.now().Add(rotationOverlap); !keys[0].Until.IsZero() || !keys[1].Until.Equal(want) {
		t.Errorf("keys are valid until %s and %s, want no end and %s", keys[0].Until, keys[1].Until, want)
	}
	rotate := a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{ID: "w", URL: hookURL, RotateSecret: true}}
	_, err := f.Set(t.Context(), alice, rotate)
	if err == nil || !strings.HasPrefix(err.Error(), "pushNotificationConfig.rotateSecret is rejected") {
		t.Errorf("Set with all keys valid = %v, want it rejected", err)
	}
	if keys := f.secrets("w").Keys; len(keys) != maxKeys || keys[maxKeys-1].encodedSecret() != returned[0] {
		t.Errorf("%d keys after a rejected rotation, want them unchanged", len(keys))
	}
	f.at.Store(keys[maxKeys-1].Until.UnixNano())
	if got := f.set(rotate.Config); got.Config.SigningSecret == "" {
		t.Errorf("Set after the oldest key expired returns no new secret")
	}
	f.at.Add(int64(rotationOverlap + time.Minute))
	f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL})
	if keys := f.secrets("w").Keys; len(keys) != 1 || slices.Contains(returned, keys[0].encodedSecret()) {
		t.Errorf("%d keys after a day, want only the newest", len(keys))
	}
}

// A response may be lost.
func TestSecretIsReturnedAgainForAWhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first := f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL}).Config.SigningSecret
	for _, step := range []struct {
		after  time.Duration
		rotate bool
		want   bool // the secret is returned
	}{{secretResendWindow - time.Second, false, true}, {time.Second, false, false}, {0, true, true}, {time.Second, false, true}, {secretResendWindow, false, false}} {
		f.at.Add(int64(step.after))
		got := f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL, RotateSecret: step.rotate}).Config.SigningSecret
		if step.rotate {
			first = got
		}
		if want := map[bool]string{true: first}[step.want]; got != want || step.want && got == "" {
			t.Errorf("Set after %s returns %q, want %q", step.after, got, want)
		}
	}
}
