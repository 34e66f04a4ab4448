package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob/blobcmd"
	"github.com/holdfast-dev/holdfast/store/board/boardcmd"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph/graphcmd"
	"github.com/holdfast-dev/holdfast/store/history/historycmd"
	"github.com/holdfast-dev/holdfast/store/memory/memorycmd"
	"github.com/holdfast-dev/holdfast/store/vector/vectorcmd"
)

// contractFlags select other stores than the main one for data that agents keep besides tasks. Each kind with a setting
// has a flag.
type contractFlags struct {
	Flags kong.Plugins `embed:""`
}

// contractFlags returns the flags of all kinds.
func (a *app) contractFlags() kong.Plugins {
	var fields []reflect.StructField
	for _, kind := range a.kinds {
		if kind.Setting == "" {
			continue
		}
		help := fmt.Sprintf("Store of %s: %s (default the main storage).", kind.Name, a.contractURLs(kind))
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("URL%d", len(fields)), Type: reflect.TypeFor[string](),
			Tag: reflect.StructTag(fmt.Sprintf(`name:%q secret:"" placeholder:"URL" envvar:"" also:%q group:"Storage:" help:%q`,
				kind.Setting, strings.ToUpper(strings.ReplaceAll(kind.Setting, "-", "_")), help)),
		})
	}
	return kong.Plugins{reflect.New(reflect.StructOf(fields)).Interface()}
}

// urls returns the URLs of the flags by their names.
func (f *contractFlags) urls() map[string]string {
	all := make(map[string]string)
	for _, plugin := range f.Flags {
		for field, value := range reflect.ValueOf(plugin).Elem().Fields() {
			all[field.Tag.Get("name")] = value.String()
		}
	}
	return all
}

// contractCommands are the commands of Holdfast's contracts, in the order of the help.
func contractCommands() []command.Command {
	return []command.Command{historycmd.Command, memorycmd.Command, vectorcmd.Command, graphcmd.Command, blobcmd.Command, boardcmd.Command}
}

// contractStore is the store that the URL of a contract selects.
type contractStore struct {
	*contract.Kind
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
	urls := f.urls()
	for _, kind := range a.kinds {
		if text := urls[kind.Setting]; text != "" {
			one, err := a.contractStore(kind, text)
			if err != nil {
				errs = append(errs, fmt.Errorf("--%s %s", kind.Setting, strings.ReplaceAll(err.Error(), "\n", " and ")))
				continue
			}
			all = append(all, one)
		}
	}
	return all, errs
}

// contractStore returns the store that the URL of a contract selects. Its errors do not contain the
// URL, which may have a password.
func (a *app) contractStore(kind *contract.Kind, text string) (one contractStore, err error) {
	scheme := schemeOf(text)
	if scheme == "" && !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, ".") {
		scheme = text // the name of a kind, such as memory
	}
	i := slices.IndexFunc(a.backends, func(b backend) bool { return slices.Contains(b.schemes, scheme) })
	if i < 0 {
		return one, fmt.Errorf("is no URL of a known store: want %s", a.contractURLs(kind))
	}
	one = contractStore{Kind: kind, backend: a.backends[i], url: text}
	switch {
	case !one.has(kind):
		return one, fmt.Errorf("starts with %s:, which has no store of %s: want %s", scheme, kind.Name, a.contractURLs(kind))
	case one.open != nil:
		one.at = storage{backend: one.backend}
		return one, one.locate(a, &one.at, text)
	}
	return one, one.check(text)
}

// contractURLs returns how URLs of a contract start, as text.
func (a *app) contractURLs(kind *contract.Kind) string {
	var all []string
	for i := range a.backends {
		if b := &a.backends[i]; b.has(kind) {
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
			return nil, errors.Join(a2a.Errorf(a2a.CodeUnsupported, "%s: %s has no store of %s", a.set.sourceName("--"+c.Setting), c.kind, c.Name), o.Close())
		}
		o.Stores = append(o.Stores, kept)
		o.Pings[c.Name] = one.Ping
	}
	return o, nil
}

// contractError adds the setting to an error of the store that it selects.
func (a *app) contractError(c *contractStore, err error) error {
	return a.storeError(a.set.sourceName("--"+c.Setting), c.url, err)
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
