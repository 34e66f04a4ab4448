// Package transcripts connects stores of transcripts to the server; see package contract.
package transcripts

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
)

// Kind is the contract of transcripts.
var Kind = &contract.Kind{
	Name:      "transcripts",
	Setting:   "store-history",
	Retention: Retention,
	Part:      func(tasks any, _ contract.PartParams) contract.Store { return Of(historysql.Of(tasks)) },
	Counts:    []string{countSessions, countMessages},
	Lines: []contract.LineType{
		{Name: typeSession, Counts: countSessions, Incomplete: true},
		{Name: typeMessage, Counts: countMessages, After: []string{typeSession, typeMessage}},
	},
	Scan:        func(owner string) contract.Scanner { return &scanner{owner: owner} },
	LeftByTasks: true,
}

// Retention is the kind of the server's retention that transcripts have. Their age starts at the last
// message.
const Retention = "transcripts"

// Names of counts.
const (
	countSessions = "sessions"
	countMessages = "messages"
)

// Of returns a store of transcripts as a store of its contract, nil for nil.
func Of(p history.Provider) contract.Store {
	if p == nil {
		return nil
	}
	return &transcripts{p}
}

// In returns the store of transcripts among the stores of contracts, nil if there is none.
func In(stores []contract.Store) history.Provider { return contract.In[history.Provider](stores, Kind) }

// transcripts implements [contract.Store], [contract.Sweeper], [contract.Clearer] and
// [contract.Remover].
type transcripts struct{ history.Provider }

func (*transcripts) Kind() *contract.Kind { return Kind }

func (t *transcripts) Unwrap() any { return t.Provider }

// lister returns the store as one that lists its sessions.
func (t *transcripts) lister() (history.SessionLister, error) {
	if lister, ok := t.Provider.(history.SessionLister); ok {
		return lister, nil
	}
	return nil, contract.Unlisted("their store does not list sessions")
}

const page = 100

func (t *transcripts) Forget(ctx context.Context, owner string, removed func(count string, n int64)) error {
	lister, err := t.lister()
	if err != nil {
		return err
	}
	for {
		found, err := lister.Sessions(ctx, history.SessionQuery{Owner: owner, Limit: page})
		if err != nil || len(found.Sessions) == 0 {
			return err
		}
		for i := range found.Sessions {
			s := &found.Sessions[i]
			if err := t.Clear(ctx, s.Key); err != nil {
				return fmt.Errorf("session %s: %w", s.Key.Session, err)
			}
			removed(countSessions, 1)
			removed(countMessages, s.Messages)
		}
	}
}

func (t *transcripts) Sweeps() []contract.Sweep {
	return []contract.Sweep{contract.Expire(Kind.Name, t.Expire)}
}

// keyOf returns the key of the transcript of a context.
func keyOf(s contract.Session) history.Key {
	return history.Key{Owner: s.Owner, Agent: s.Agent, Session: s.ID}
}

// ClearSession implements [contract.Clearer].
func (t *transcripts) ClearSession(ctx context.Context, s contract.Session) error {
	k := keyOf(s)
	if historydriver.CheckKey(k) != nil {
		return nil // no transcript has this key
	}
	return t.Clear(ctx, k)
}

// RemoveTask implements [contract.Remover]: it removes the messages of a run. It changes nothing if
// the session has no messages. If the handler appended with the fence of its lease, RemoveTask
// clears the run with the fence of the removal.
func (t *transcripts) RemoveTask(ctx context.Context, r *contract.Removal) error {
	k := keyOf(r.Session)
	if historydriver.CheckKey(k) != nil {
		return nil
	}
	n, err := t.Count(ctx, k)
	if err != nil || n == 0 {
		return err
	}
	if _, err = t.ClearRun(ctx, k, r.TaskID, 0); errors.Is(err, history.ErrFenced) {
		_, err = t.ClearRun(ctx, k, r.TaskID, r.Fence)
	}
	return err
}
