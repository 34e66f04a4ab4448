package push

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// GlobalID is the id of the lane that tells the global webhook of a task. No webhook
// of an owner has it, and owners do not see it.
const GlobalID = "global"

// noGlobal is why a lane that tells the global webhook is given up when there is none.
const noGlobal = "there is no global webhook any more"

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
		return settings{}, &permanent{noGlobal}
	}
	return settings{Global: true, URL: s.cfg.Global.URL, Secrets: &secrets{Token: s.cfg.Global.Token}}, nil
}

// endpointOf returns where a webhook goes: the global one where it does now.
func (s *Service) endpointOf(c *store.PushConfig) endpointName {
	switch {
	case c.ID != GlobalID:
		return endpointName{c.Task.Owner, c.Endpoint}
	case s.cfg.Global.URL != "":
		return endpointName{address: endpointOf(s.cfg.Global.URL)}
	}
	return endpointName{address: c.Endpoint}
}

// newGlobal returns the global webhook for a task that begins, nil if there is none.
func (s *Service) newGlobal() []store.NewPush {
	if s.cfg.Global.URL == "" {
		return nil
	}
	return []store.NewPush{{ID: GlobalID, Endpoint: endpointOf(s.cfg.Global.URL), Data: globalData}}
}

// joinGlobal returns the global webhook for a task that goes on, from its version seq on,
// where none tells it: the task may have begun, or lost its own, when there was no global one.
func (s *Service) joinGlobal(ctx context.Context, task store.Key, seq int64) ([]store.NewPush, error) {
	push := s.newGlobal()
	if push == nil {
		return nil, nil
	}
	all, err := s.webhooks(ctx, task)
	if err != nil || len(all.own) > 0 || all.global != nil && globalThrough(&all.global.Config) == 0 && all.global.Reason != noGlobal {
		return nil, err
	}
	push[0].Cursor, err = store.CursorAt(ctx, s.cfg.Store, s.cfg.Memory, task, seq)
	return push, err
}

// bringGlobal has the global webhook, if there is one, told of a task from its present
// version on, or where it is told of it still, without end.
func (s *Service) bringGlobal(ctx context.Context, t *store.Task) error {
	if s.cfg.Global.URL == "" || t.Status.State.Terminal() {
		return nil
	}
	cursor, err := store.CursorAt(ctx, s.cfg.Store, s.cfg.Memory, t.Key, t.Seq)
	if err != nil {
		return taskError(t.Key.ID, err)
	}
	now := store.Time(s.now())
	c := store.PushConfig{Task: t.Key, ID: GlobalID, Endpoint: endpointOf(s.cfg.Global.URL), Data: globalData, CreatedAt: now}
	_, err = s.cfg.Store.SavePush(ctx, c, cursor, now)
	return taskError(t.Key.ID, err)
}

// endedGlobal returns the global webhook of a task to be saved so that it is told no
// events behind a cursor: what it has not been told up to there it still will be. It is
// nil if there is nothing to save.
func (w *webhooks) endedGlobal(cursor store.PushCursor) (*store.NewPush, error) {
	if w.global == nil || cursor.Seq == 0 || globalThrough(&w.global.Config) > 0 {
		return nil, nil
	}
	data, err := wire.Marshal(&settings{Global: true, Through: cursor.Seq})
	if err != nil {
		return nil, err
	}
	c := &w.global.Config
	return &store.NewPush{ID: GlobalID, Endpoint: c.Endpoint, Data: data, LongRunning: c.LongRunning, Cursor: cursor}, nil
}

// endGlobal has the global webhook told no events of a task behind a cursor.
func (s *Service) endGlobal(ctx context.Context, task store.Key, all *webhooks, cursor store.PushCursor) error {
	n, err := all.endedGlobal(cursor)
	if n == nil || err != nil {
		return err
	}
	now := store.Time(s.now())
	c := store.PushConfig{Task: task, ID: n.ID, Endpoint: n.Endpoint, Data: n.Data, LongRunning: n.LongRunning, CreatedAt: now}
	lane, err := s.cfg.Store.SavePush(ctx, c, cursor, now)
	if err == nil {
		s.cancelLane(task, GlobalID, lane.Fence)
	}
	return err
}

// globalThrough returns the last event that a global webhook is told of, 0 if there is no
// last one.
func globalThrough(c *store.PushConfig) int64 {
	var set settings
	if c.ID != GlobalID || bytes.Equal(c.Data, globalData) || wire.Unmarshal(c.Data, &set) != nil {
		return 0
	}
	return set.Through
}

// next returns the cursor behind the event that follows, and whether the lane tells it.
func (l *lane) next(e *store.Event) (next store.PushCursor, told bool) {
	next, told = l.Cursor.Next(e)
	return next, told && (l.through == 0 || e.Seq <= l.through)
}
