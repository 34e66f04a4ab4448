package push

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Invariant 13: two signatures while keys are changed.
func TestRotation(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, nil)
	told := []string{k.set(a2a.PushNotificationConfig{ID: "w", URL: hook}).Config.SigningSecret}
	for range maxKeys - 1 {
		k.at.Add(int64(time.Hour))
		told = append(told, k.set(a2a.PushNotificationConfig{ID: "w", URL: hook, RotateSecret: true}).Config.SigningSecret)
	}
	keys := k.secrets("w").Keys
	if len(keys) != maxKeys || keys[0].told() != told[3] || keys[1].told() != told[2] {
		t.Fatalf("%d keys are kept, want all %d", len(keys), maxKeys)
	}
	if want := k.now().Add(overlap); !keys[0].Until.IsZero() || !keys[1].Until.Equal(want) {
		t.Errorf("keys are good until %s and %s, want the old one until %s", keys[0].Until, keys[1].Until, want)
	}
	again := a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{ID: "w", URL: hook, RotateSecret: true}}
	_, err := k.Set(t.Context(), alice, again)
	if err == nil || !strings.HasPrefix(err.Error(), "pushNotificationConfig.rotateSecret is refused") {
		t.Errorf("Set while all keys are good = %v, want it refused", err)
	}
	if kept := k.secrets("w").Keys; len(kept) != maxKeys || kept[maxKeys-1].told() != told[0] {
		t.Errorf("%d keys are kept after a refusal, want all that are good", len(kept))
	}
	k.at.Store(keys[maxKeys-1].Until.UnixNano())
	if got := k.set(again.Config); got.Config.SigningSecret == "" {
		t.Errorf("Set when the oldest key was no good any more tells no new secret")
	}
	k.at.Add(int64(overlap + time.Minute))
	k.set(a2a.PushNotificationConfig{ID: "w", URL: hook})
	if keys := k.secrets("w").Keys; len(keys) != 1 || slices.Contains(told, keys[0].told()) {
		t.Errorf("after a day %d keys are kept, want the newest alone", len(keys))
	}
}

// An answer may get lost.
func TestTheSecretIsToldAgainForAWhile(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, nil)
	first := k.set(a2a.PushNotificationConfig{ID: "w", URL: hook}).Config.SigningSecret
	for _, step := range []struct {
		after  time.Duration
		rotate bool
		want   bool // that it is told
	}{{toldAgain - time.Second, false, true}, {time.Second, false, false}, {0, true, true}, {time.Second, false, true}, {toldAgain, false, false}} {
		k.at.Add(int64(step.after))
		got := k.set(a2a.PushNotificationConfig{ID: "w", URL: hook, RotateSecret: step.rotate}).Config.SigningSecret
		if step.rotate {
			first = got
		}
		if want := map[bool]string{true: first}[step.want]; got != want || step.want && got == "" {
			t.Errorf("Set after %s tells %q, want %q", step.after, got, want)
		}
	}
}
