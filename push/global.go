package push

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// GlobalID is the id of the lane that tells the global webhook of a task. No webhook
// of an owner has it, and owners do not see it.
const GlobalID = "global"

// globalData is what is kept of the global webhook with a task: where it goes and with
// what is decided when it is told.
var globalData = []byte(`{"global":true}`)

// decodeSecret reads a secret as receivers are told it.
func decodeSecret(told string) ([]byte, error) {
	text, ok := strings.CutPrefix(told, "whsec_")
	secret, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(secret) < 24 || len(secret) > 64 {
		return nil, errors.New("must be whsec_ and the base64 of 24 to 64 bytes")
	}
	return secret, nil
}

// globalSettings returns the settings of the global webhook as they are now.
func (s *Service) globalSettings() (settings, error) {
	if s.cfg.Global.URL == "" {
		return settings{}, &permanent{"there is no global webhook any more"}
	}
	return settings{Global: true, URL: s.cfg.Global.URL, Secrets: &secrets{Token: s.cfg.Global.Token}}, nil
}

// newGlobal returns the global webhook for a task that begins, nil if there is none.
func (s *Service) newGlobal() []store.NewPush {
	if s.cfg.Global.URL == "" {
		return nil
	}
	return []store.NewPush{{ID: GlobalID, Endpoint: endpointOf(s.cfg.Global.URL), Data: globalData}}
}

// bringGlobal has the global webhook, if there is one, told of a task from its present
// version on.
func (s *Service) bringGlobal(ctx context.Context, t *store.Task) error {
	if s.cfg.Global.URL == "" || t.Status.State.Terminal() {
		return nil
	}
	cursor, err := store.CursorAt(ctx, s.cfg.Store, t.Key, t.Seq)
	if err != nil {
		return taskError(t.Key.ID, err)
	}
	now := store.Time(s.now())
	c := store.PushConfig{Task: t.Key, ID: GlobalID, Endpoint: endpointOf(s.cfg.Global.URL), Data: globalData, CreatedAt: now}
	_, err = s.cfg.Store.SavePush(ctx, c, cursor, now)
	return taskError(t.Key.ID, err)
}

// dropGlobal has the global webhook no longer told of a task. An attempt under way may
// still end.
func (s *Service) dropGlobal(ctx context.Context, task store.Key) error {
	_, err := s.cfg.Store.DeletePush(ctx, task, GlobalID, store.Time(s.now()))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
