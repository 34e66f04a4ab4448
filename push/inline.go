package push

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Inline is what a message brings its task of webhooks. Use it for one message.
type Inline struct {
	s           *Service
	wish        *wish // nil: the message has none
	refused     error // why it is not taken now
	longRunning bool
	task        store.Key
	saves       bool // the last call of Push has returned the message's
}

// Prepare checks the webhook of a message that is to be sent, before its task need
// exist. c may be nil. The signing secret of a webhook that comes with a message is told
// when it is saved with Set for the first time. Errors: invalid_params for what is wrong
// with the webhook by itself, the field being in configuration.pushNotificationConfig.
// What may be otherwise another time (where its URL leads now, how many were saved within
// the minute) is an error of Push, so that a message that was sent before can be
// answered as it was then.
func (s *Service) Prepare(ctx context.Context, p a2a.Principal, c *a2a.MessageSendConfiguration) (*Inline, error) {
	in := &Inline{s: s}
	if c == nil || c.PushNotificationConfig == nil {
		return in, nil
	}
	in.longRunning = c.LongRunning
	var err error
	if in.wish, err = s.formed("configuration.pushNotificationConfig", c.PushNotificationConfig); err != nil {
		return nil, err
	}
	in.refused = s.admit(ctx, p.ID, in.wish)
	return in, nil
}

// Push returns the webhooks to be stored with the message: that of the message, or without
// one, for a task that has none, the global one. seq is the task's version before the message, 0
// if it is new. It is what the engine asks of a message's webhooks. Errors: as of Set, the
// field being in configuration.pushNotificationConfig.
func (in *Inline) Push(ctx context.Context, task store.Key, seq int64) ([]store.NewPush, error) {
	in.saves, in.task = false, task
	switch {
	case in.wish == nil && seq == 0:
		return in.s.newGlobal(), nil
	case in.wish == nil:
		return in.s.joinGlobal(ctx, task, seq)
	case in.refused != nil:
		return nil, in.refused
	}
	var all webhooks
	var err error
	if seq > 0 {
		if all, err = in.s.webhooks(ctx, task); err != nil {
			return nil, err
		}
	}
	id, set, err := in.s.beside(in.wish, &all)
	if err != nil {
		return nil, err
	}
	found := all.byID(id)
	if found != nil && found.State == store.LaneActive && found.Config.LongRunning == in.longRunning && set.equal(found.set) {
		return nil, nil // clients send the same with each message; replacing it would cut attempts short
	}
	var cursor store.PushCursor
	if found == nil || all.global != nil {
		if cursor, err = store.CursorAt(ctx, in.s.cfg.Store, in.s.cfg.Memory, task, seq); err != nil {
			return nil, err
		}
	}
	data, err := in.s.seal.encode(set, task, id)
	if err != nil {
		return nil, err
	}
	in.saves = true
	push := []store.NewPush{{ID: id, Endpoint: in.wish.endpoint, Data: data, LongRunning: in.longRunning, Cursor: cursor}}
	ended, err := all.endedGlobal(cursor)
	if ended != nil {
		push = append(push, *ended)
	}
	return push, err
}

// Stored is to be called once the message is stored. What fails then is only logged.
func (in *Inline) Stored(ctx context.Context) {
	if in.saves {
		in.s.recheck(ctx, func(l *lane) bool { return l.lease.Task == in.task })
		in.s.reopen(ctx, endpointName{in.task.Owner, in.wish.endpoint})
	}
}
