package cli

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// keptStorage are the flags of a command that select stores of data that agents keep. It implements Stores for the
// commands of contracts.
type keptStorage struct {
	Data string `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" help:"SQLite data directory; to read it, a server may be using it."`

	storageFlags

	app *app `kong:"-"` // for Open
}

// Open implements Stores.
func (f *keptStorage) Open(ctx context.Context, owner string, write bool, do func(k *command.Data) error) error {
	return f.openKept(ctx, f.app, write, func(main store.Store, c engine.Contracts) error {
		return do(&command.Data{Tasks: main, Stores: c.Stores, Embedder: c.Embedder, Owner: owner})
	})
}

// openKept opens the stores, calls do and closes them. The stores exist; write opens them for writing.
func (f *keptStorage) openKept(ctx context.Context, a *app, write bool, do func(main store.Store, c engine.Contracts) error) error {
	return f.openMain(ctx, a, write, func(s *storage, main store.Store) error {
		others, err := s.openContracts(ctx, a, openContractsParams{main: main, existing: !write})
		if err != nil {
			return err
		}
		return errors.Join(do(main, others.WithParts(main, nil)), others.Close())
	})
}

// openMain opens the store of tasks, calls do and closes it. The store exists; write opens it for writing.
func (f *keptStorage) openMain(ctx context.Context, a *app, write bool, do func(s *storage, main store.Store) error) error {
	s, err := f.resolve(a, f.Data)
	if err = errors.Join(err, s.requirePersistent()); err != nil {
		return err
	}
	s.printNotes(a)
	main, err := s.openToChange(ctx, a, write)
	if err != nil {
		return err
	}
	if err = errors.Join(do(&s, main), main.Close()); err != nil && ctx.Err() != nil { // closed also when ctx is done
		return context.Cause(ctx)
	}
	return err
}

// openToChange opens an existing store, with write also for changes.
func (s *storage) openToChange(ctx context.Context, a *app, write bool) (store.Store, error) {
	st, err := s.openExisting(ctx, a)
	if err != nil || !write || s.shared {
		return st, err
	}
	// The store exists: opening it for writing does not create an empty one.
	if err := st.Close(); err != nil { // closed also when ctx is done
		return nil, err
	}
	st, err = s.open(ctx, a, nil)
	if a2a.CodeOf(err) == a2a.CodeUnavailable {
		return nil, command.WithHint(err, "a change of a SQLite store needs exclusive access: stop the server first")
	}
	return st, err
}
