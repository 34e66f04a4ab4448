package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board"
)

// keptFlags select the stores of a command for data that agents keep, and the owner of the data.
type keptFlags struct {
	Owner nonEmpty `placeholder:"PRINCIPAL" default:"anonymous" help:"Owner of the data (default ${default}, the owner on servers without tokens)."`

	keptStorage
}

// keptStorage are the stores of a command for data that agents keep.
type keptStorage struct {
	Data string `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" help:"SQLite data directory; to read it, a server may be using it."`

	storageFlags
}

// kept are the stores of data that agents keep.
type kept struct {
	engine.Contracts
	store  store.Store
	boards *board.Records
	owner  string
}

// with opens the stores, calls do and closes them. The stores exist; write opens them for writing.
func (f *keptFlags) with(ctx context.Context, a *app, write bool, do func(k *kept) error) error {
	return f.openKept(ctx, a, string(f.Owner), write, do)
}

// openKept opens the stores for the data of an owner, calls do and closes them.
func (f *keptStorage) openKept(ctx context.Context, a *app, owner string, write bool, do func(k *kept) error) error {
	s, err := f.resolve(a, f.Data)
	if err = errors.Join(err, s.requirePersistent()); err != nil {
		return err
	}
	s.printNotes(a)
	main, err := s.openToChange(ctx, a, write)
	if err != nil {
		return err
	}
	others, err := s.openContracts(ctx, a, openContractsParams{main: main, existing: !write})
	if err != nil {
		return errors.Join(err, main.Close())
	}
	k := &kept{Contracts: others.WithParts(main, nil), store: main, owner: owner}
	if k.boards, err = board.New(board.Config{Records: store.NewUpdater(main)}); err == nil {
		err = do(k)
	}
	if err = errors.Join(err, others.Close(), main.Close()); err != nil && ctx.Err() != nil { // closed also when ctx is done
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
		return nil, &hintError{err, "a change of a SQLite store needs exclusive access: stop the server first"}
	}
	return st, err
}

// pages shows one page of kept data, or all pages with --all. fetch returns the items of the page of a
// token, adds them to the table, and returns the token of the next page.
func (f *keptFlags) pages(ctx context.Context, t *table, p *pageFlags, fetch func(k *kept, token string) (items []any, next string, err error)) error {
	if err := p.check(); err != nil {
		return err
	}
	return f.with(ctx, t.a, false, func(k *kept) error {
		return p.each(t, func(token string) (json.RawMessage, string, error) {
			items, next, err := fetch(k, token)
			if err != nil {
				return nil, "", err
			}
			page := map[string]any{t.member: items}
			if items == nil {
				page[t.member] = []any{}
			}
			if next != "" {
				page["nextPageToken"] = next
			}
			raw, err := json.Marshal(page)
			return raw, next, err
		})
	})
}

// pageToken returns a position in a list as a token.
func pageToken(position any) (string, error) {
	raw, err := json.Marshal(position)
	return base64.RawURLEncoding.EncodeToString(raw), err
}

// fromPageToken sets position from a token, unless it is "".
func fromPageToken(token string, position any) error {
	if token == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(raw, position)
	}
	if err != nil {
		return usagef("--page-token is not a token of an earlier page")
	}
	return nil
}

// without returns the error for a store that lacks a feature of the command.
func without(feature string) error {
	return a2a.Errorf(a2a.CodeUnsupported, "the store does not support %s", feature)
}

// notFoundError reports data that the owner does not have.
type notFoundError struct{ text string }

func (e *notFoundError) Error() string { return e.text }

// notFound returns the error for data that an owner does not have, with a hint about the owner.
func (k *kept) notFound(what, name string) error {
	return &hintError{
		&notFoundError{fmt.Sprintf("owner %s has no %s %s", a2a.Quote(k.owner), what, a2a.Quote(name))},
		"if it has another owner, set --owner",
	}
}

// timeJSON returns a time for JSON, nil if it is zero.
func timeJSON(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// timeText returns a time as text, "" if it is zero.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// until returns the time until t as text, "-" if it is zero.
func until(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return age(time.Now().Add(-time.Until(t)))
}
