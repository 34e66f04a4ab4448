package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob/blobcmd"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/board/boardcmd"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph/graphcmd"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
	"github.com/holdfast-dev/holdfast/store/history/historycmd"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/memorycmd"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/vector/documents"
	"github.com/holdfast-dev/holdfast/store/vector/vectorcmd"
)

// contractFlags select other stores than the main one for data that agents keep besides tasks.
type contractFlags struct {
	StoreBlob    string `secret:"" placeholder:"URL" envvar:"" also:"STORE_BLOB" group:"Storage:" help:"Store of blobs, such as s3://bucket/prefix?endpoint=host:port. Their refs stay in the main storage (default the main storage)."`
	StoreHistory string `secret:"" placeholder:"URL" envvar:"" also:"STORE_HISTORY" group:"Storage:" help:"Store of transcripts, such as redis://:password@host:6379/0 (default the main storage)."`
	StoreMemory  string `secret:"" placeholder:"URL" envvar:"" also:"STORE_MEMORY" group:"Storage:" help:"Store of facts, such as postgres://user:password@host/database?schema=name or the path of a SQLite data directory (default the main storage)."`
	StoreVector  string `secret:"" placeholder:"URL" envvar:"" also:"STORE_VECTOR" group:"Storage:" help:"Store of documents, such as the path of a SQLite data directory (default the main storage, in which they are committed with the task)."`
	StoreGraph   string `secret:"" placeholder:"URL" envvar:"" also:"STORE_GRAPH" group:"Storage:" help:"Store of graphs, such as postgres://user:password@host/database?schema=name (default the main storage, in which they are committed with the task)."`
	StoreState   string `secret:"" placeholder:"URL" envvar:"" also:"STORE_STATE" group:"Storage:" help:"Store of session states, such as redis://:password@host:6379/0 (default the main storage, in which they are committed with the task)."`
}

// contractFlag is a contract with a flag that moves its data to another store.
type contractFlag struct {
	flag string
	*contract.Kind
	url func(f *contractFlags) string
}

// contracts returns all contracts that have a URL.
func contracts() []contractFlag {
	return []contractFlag{
		{"store-blob", blobs.Kind, func(f *contractFlags) string { return f.StoreBlob }},
		{"store-history", transcripts.Kind, func(f *contractFlags) string { return f.StoreHistory }},
		{"store-memory", facts.Kind, func(f *contractFlags) string { return f.StoreMemory }},
		{"store-vector", documents.Kind, func(f *contractFlags) string { return f.StoreVector }},
		{"store-graph", graphs.Kind, func(f *contractFlags) string { return f.StoreGraph }},
		{"store-state", states.Kind, func(f *contractFlags) string { return f.StoreState }},
	}
}

// contractCommands are the commands of Holdfast's contracts, in the order of the help.
func contractCommands() []command.Command {
	return []command.Command{historycmd.Command, memorycmd.Command, vectorcmd.Command, graphcmd.Command, blobcmd.Command, boardcmd.Command}
}

// contractStore is the store that the URL of a contract selects.
type contractStore struct {
	contractFlag
	backend
	url string
	at  storage // if the backend is a kind of storage
}

// place identifies the store among the stores of other contracts.
func (c *contractStore) place() string {
	if c.open != nil {
		return c.kind + " " + c.at.location()
	}
	return c.kind + " " + c.url
}

var urlScheme = regexp.MustCompile(`^[\s'"]*([A-Za-z][A-Za-z0-9+.-]*):`)

// schemeOf returns the scheme of a URL, and "" for a path.
func schemeOf(text string) string {
	if m := urlScheme.FindStringSubmatch(text); m != nil {
		return strings.ToLower(m[1])
	}
	return ""
}

// resolveContracts returns the stores that the URLs of contracts select, or all problems.
func (f *storageFlags) resolveContracts(a *app) (all []contractStore, errs []error) {
	for _, c := range contracts() {
		if text := c.url(&f.contractFlags); text != "" {
			one, err := a.contractStore(c, text)
			if err != nil {
				errs = append(errs, fmt.Errorf("--%s %s", c.flag, strings.ReplaceAll(err.Error(), "\n", " and ")))
				continue
			}
			all = append(all, one)
		}
	}
	return all, errs
}

// contractStore returns the store that the URL of a contract selects. Its errors do not contain the
// URL, which may have a password.
func (a *app) contractStore(c contractFlag, text string) (one contractStore, err error) {
	scheme := schemeOf(text)
	if scheme == "" && !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, ".") {
		scheme = text // the name of a kind, such as memory
	}
	i := slices.IndexFunc(a.backends, func(b backend) bool { return slices.Contains(b.schemes, scheme) })
	if i < 0 {
		return one, fmt.Errorf("is no URL of a known store: want %s", a.contractURLs(c.flag))
	}
	one = contractStore{contractFlag: c, backend: a.backends[i], url: text}
	switch {
	case !slices.Contains(one.contracts, c.flag):
		return one, fmt.Errorf("starts with %s:, which has no store of %s: want %s", scheme, c.Name, a.contractURLs(c.flag))
	case one.open != nil:
		one.at = storage{backend: one.backend}
		return one, one.locate(a, &one.at, text)
	}
	return one, one.check(text)
}

// contractURLs returns how URLs of a contract start, as text.
func (a *app) contractURLs(flag string) string {
	var all []string
	for i := range a.backends {
		if b := &a.backends[i]; slices.Contains(b.contracts, flag) {
			all = append(all, b.example)
		}
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// openContracts are the stores that agents keep data in, apart from the main store.
type openContracts struct {
	engine.Contracts
	opened map[string]OpenedContracts // by their place
}

// Close closes the stores.
func (o *openContracts) Close() error {
	var errs []error
	for _, one := range o.opened {
		errs = append(errs, one.Close())
	}
	o.opened = nil
	return errors.Join(errs...)
}

// openContractsParams are the params of openContracts.
type openContractsParams struct {
	main store.Store
	log  *slog.Logger
	// existing opens stores which servers may be using, for reading at least.
	existing bool
	// age returns for how long the server stores data of a kind of its retention. nil means without
	// limit.
	age      func(kind string) time.Duration
	embedder contract.Embedder // set by openContracts
}

// openContracts opens the stores that the URLs of contracts select.
func (s *storage) openContracts(ctx context.Context, a *app, p openContractsParams) (*openContracts, error) {
	o := &openContracts{opened: make(map[string]OpenedContracts)}
	o.Kinds = a.kinds
	o.Pings = make(map[string]func(context.Context) error)
	if s.embedder != nil {
		o.Embedder = s.embedder
		p.embedder = s.embedder
	}
	for i := range s.contracts {
		c := &s.contracts[i]
		place := c.place()
		if place == s.kind+" "+s.location() {
			continue // the main store
		}
		one, ok := o.opened[place]
		if !ok {
			var err error
			if one, err = c.connect(ctx, a, &p); err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				return nil, errors.Join(a.contractError(c, err), o.Close())
			}
			o.opened[place] = one
		}
		kept := contract.Find(one.Stores, c.Kind)
		if kept == nil {
			return nil, errors.Join(a2a.Errorf(a2a.CodeUnsupported, "%s: %s has no store of %s", a.set.sourceName("--"+c.flag), c.kind, c.Name), o.Close())
		}
		o.Stores = append(o.Stores, kept)
		o.Pings[c.Name] = one.Ping
	}
	return o, nil
}

// contractError adds the setting to an error of the store that it selects.
func (a *app) contractError(c *contractStore, err error) error {
	return a.storeError(a.set.sourceName("--"+c.flag), c.url, err)
}

// storeError adds a setting and its URL to an error of a store.
func (a *app) storeError(setting, url string, err error) error {
	hint := a.hint(err)
	var coded *a2a.Error
	if errors.As(err, &coded) {
		named := *coded
		named.Message = fmt.Sprintf("%s is %s: %s", setting, maskURL(url), coded.Message)
		err = &named
	} else {
		err = fmt.Errorf("%s is %s: %w", setting, maskURL(url), err)
	}
	if hint != "" {
		return command.WithHint(err, hint)
	}
	return err
}

// connect opens the store.
func (c *contractStore) connect(ctx context.Context, a *app, p *openContractsParams) (OpenedContracts, error) {
	if c.backend.connect != nil {
		return c.backend.connect(ctx, OpenParams{URL: c.url, Main: p.main, Age: p.age})
	}
	open := func() (store.Store, error) { return c.at.open(ctx, a, p.log) }
	if p.existing {
		open = func() (store.Store, error) { return c.at.openExisting(ctx, a) }
	}
	st, err := open()
	if err != nil {
		return OpenedContracts{}, err
	}
	return OpenedContracts{Stores: a.partsOf(st, p), Ping: st.Ping, Close: st.Close}, nil
}

// partsOf returns all parts of a store of tasks.
func (a *app) partsOf(st store.Store, p *openContractsParams) (parts []contract.Store) {
	for _, kind := range a.kinds {
		if kind.Part == nil {
			continue
		}
		if one := kind.Part(st, contract.PartParams{Embedder: p.embedder, Age: p.age}); one != nil {
			parts = append(parts, one)
		}
	}
	return parts
}
