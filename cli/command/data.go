// Package command has what the commands of contracts need: flags, the stores that they select, and output for people
// and as JSON.
package command

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Command is a command of the first level, such as the command of a contract.
type Command struct {
	// Name is the command's name, Help its line in the list of commands.
	Name, Help string
	// Details has further texts about its commands, each below its name, such as # holdfast boards list.
	Details string
	// New returns a pointer to a struct with its commands and flags, for the library Kong. Commands have a method
	// Run(ctx context.Context, c *Console) error, and embed DataFlags or Stores if they need stores.
	New func() any
}

// DataFlags select the stores of a command for data that agents keep, and the owner of the data.
type DataFlags struct {
	Owner NonEmpty `placeholder:"PRINCIPAL" default:"anonymous" help:"Owner of the data (default ${default}, the owner on servers without tokens)."`

	Stores
}

// Stores opens the stores that the flags of a command select. The program sets it.
type Stores interface {
	// Open opens the stores for the data of an owner, calls do and closes them. The stores exist; write opens them
	// for writing.
	Open(ctx context.Context, owner string, write bool, do func(k *Data) error) error
}

// Data are the opened stores of data that agents keep.
type Data struct {
	Tasks    store.Store
	Stores   []contract.Store
	Embedder contract.Embedder // nil if there is none
	Owner    string
}

// With opens the stores, calls do and closes them. write opens them for writing.
func (f *DataFlags) With(ctx context.Context, write bool, do func(k *Data) error) error {
	return f.Open(ctx, string(f.Owner), write, do)
}

// Pages shows one page of kept data, or all pages with --all. fetch returns the items of the page of a
// token, adds them to the table, and returns the token of the next page.
func (f *DataFlags) Pages(ctx context.Context, t *Table, p *PageFlags, fetch func(k *Data, token string) (items []any, next string, err error)) error {
	if err := p.Check(); err != nil {
		return err
	}
	return f.With(ctx, false, func(k *Data) error {
		return p.Each(t, func(token string) (json.RawMessage, string, error) {
			items, next, err := fetch(k, token)
			if err != nil {
				return nil, "", err
			}
			page := map[string]any{t.Member: items}
			if items == nil {
				page[t.Member] = []any{}
			}
			if next != "" {
				page["nextPageToken"] = next
			}
			raw, err := json.Marshal(page)
			return raw, next, err
		})
	})
}

// PageToken returns a position in a list as a token.
func PageToken(position any) (string, error) {
	raw, err := json.Marshal(position)
	return base64.RawURLEncoding.EncodeToString(raw), err
}

// FromPageToken sets position from a token, unless it is "".
func FromPageToken(token string, position any) error {
	if token == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(raw, position)
	}
	if err != nil {
		return Usagef("--page-token is not a token of an earlier page")
	}
	return nil
}
