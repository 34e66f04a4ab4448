package cards

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/cardsig"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/rpc"
)

// Config configures [Cards].
type Config struct {
	// Card has the content of the cards. Its AdditionalInterfaces are the interfaces of other
	// servers of the agent. If its URL is empty, the cards have the address to which the
	// request was sent.
	Card a2a.AgentCard
	// Extended returns the card of an authenticated caller, or nil if the caller has none. card is
	// a copy of Card. It may be nil.
	Extended func(ctx context.Context, caller a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error)
	// Signer signs the cards. If nil, they have the signatures of Card.
	Signer *cardsig.Signer
	// Bindings are the interfaces of the server, at least one.
	Bindings []Binding
}

// Binding is an interface of the server.
type Binding struct {
	Codec rpc.Codec
	// Transport is JSONRPC or HTTP+JSON.
	Transport string
	// Path is the path of an HTTP+JSON interface below the URL of the card, without a slash at
	// its end.
	Path string
}

// KeysPath is the path of the key set that verifies the signatures of cards.
const KeysPath = "/.well-known/jwks.json"

// JSONRPC is the name of the JSON-RPC transport on cards.
const JSONRPC = "JSONRPC"

// Cards are the agent cards of a server. It is safe for concurrent use.
type Cards struct {
	cfg Config
	// legacy and current are the codecs of A2A 0.3 and 1.0; one of them may be nil.
	legacy, current rpc.Codec
	keys            []byte // the key set of the signer
	built           time.Time

	mu     sync.Mutex
	recent map[located][]byte // encoded public cards, at most maxRecent
}

// located is a form of the card with the URL of the agent.
type located struct {
	form form
	url  string
}

// maxRecent is the maximum number of encoded cards that are kept. Their URLs differ only if
// clients use several names of the server.
const maxRecent = 64

// form is a form of the agent card.
type form int

const (
	union form = iota
	strict
)

// New returns the cards of a server, or an error if they cannot be encoded.
func New(cfg Config) (*Cards, error) {
	c := &Cards{cfg: cfg, built: time.Now(), recent: make(map[located][]byte)}
	if cfg.Signer != nil {
		c.cfg.Card.Signatures = nil
		var err error
		if c.keys, err = json.Marshal(cfg.Signer.Keys()); err != nil {
			return nil, err
		}
	}
	for _, b := range cfg.Bindings {
		if b.Codec.Version() == (v10.Codec{}).Version() {
			c.current = b.Codec
		} else {
			c.legacy = b.Codec
		}
	}
	for _, f := range []form{union, strict} {
		if _, err := c.public(f, ""); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// public returns the public card of an agent at a URL, if the content has none.
func (c *Cards) public(f form, url string) ([]byte, error) {
	key := located{f, cmp.Or(c.cfg.Card.URL, url)}
	c.mu.Lock()
	body := c.recent[key]
	c.mu.Unlock()
	if body != nil {
		return body, nil
	}
	body, err := c.encode(f, c.cfg.Card, key.url)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) >= maxRecent {
		clear(c.recent)
	}
	c.recent[key] = body
	return body, nil
}

// Extended returns the card of the caller in the version of a call. Errors:
// extended_card_not_configured.
func (c *Cards) Extended(ctx context.Context, call *rpc.Call) (json.RawMessage, error) {
	if call.Principal.ID == a2a.Anonymous {
		return nil, a2a.Errorf(a2a.CodeNoExtendedCard, "callers without credentials have no extended agent card")
	}
	card, err := c.cfg.Extended(ctx, call.Principal, copyCard(c.cfg.Card))
	switch {
	case err != nil:
		return nil, err
	case card == nil:
		return nil, a2a.Errorf(a2a.CodeNoExtendedCard, "this caller has no extended agent card")
	}
	f := union
	if c.current != nil && call.Codec.Version() == c.current.Version() {
		f = strict
	}
	return c.encode(f, *card, cmp.Or(c.cfg.Card.URL, call.Origin.URL()))
}

// encode returns a card of an agent at a URL, with the interfaces of the server. Without a codec
// of A2A 1.0 or of A2A 0.3 the card has the form of the other version.
func (c *Cards) encode(f form, content a2a.AgentCard, url string) (out []byte, err error) {
	if c.legacy != nil && (f == union || c.current == nil) {
		card := content
		card.URL, card.PreferredTransport = url, JSONRPC
		card.AdditionalInterfaces = c.interfacesV03(url)
		if out, err = c.legacy.AppendCard(nil, &card); err != nil {
			return nil, err
		}
		if c.current == nil {
			return c.sign(url, out)
		}
	}
	card := content
	card.URL, card.PreferredTransport = url, JSONRPC
	card.AdditionalInterfaces = c.interfacesV10(url)
	newer, err := c.current.AppendCard(nil, &card)
	if err != nil {
		return nil, err
	}
	if out == nil {
		return c.sign(url, newer)
	}
	if out, err = merge(out, newer); err != nil {
		return nil, err
	}
	return c.sign(url, out, newer)
}

// sign returns a card with its signatures. Clients that know only some members of the card verify
// the signatures of the parts with these members.
func (c *Cards) sign(url string, card []byte, parts ...[]byte) ([]byte, error) {
	if c.cfg.Signer == nil {
		return card, nil
	}
	var all []a2a.AgentCardSignature
	for _, text := range append([][]byte{card}, parts...) {
		signatures, err := c.cfg.Signer.Sign(text, strings.TrimSuffix(url, "/")+KeysPath)
		if err != nil {
			return nil, err
		}
		all = append(all, signatures...)
	}
	raw, err := wire.Marshal(all)
	if err != nil {
		return nil, err
	}
	signed := append(slices.Clone(card[:len(card)-1]), `,"signatures":`...)
	return append(append(signed, raw...), '}'), nil
}

// interfacesV03 returns the interfaces for clients of A2A 0.3. Their cards have no versions. The
// first interface is the preferred one again, as the specification recommends.
func (c *Cards) interfacesV03(url string) (all []a2a.AgentInterface) {
	for _, b := range c.cfg.Bindings {
		if b.Codec == c.legacy {
			all = append(all, a2a.AgentInterface{URL: b.url(url), Transport: b.Transport})
		}
	}
	for _, other := range c.cfg.Card.AdditionalInterfaces {
		if other.ProtocolVersion == "" || strings.HasPrefix(other.ProtocolVersion, "0.") {
			all = append(all, other)
		}
	}
	return all
}

// interfacesV10 returns the interfaces with their versions. The interfaces of A2A 1.0 are
// first.
func (c *Cards) interfacesV10(url string) (all []a2a.AgentInterface) {
	for _, codec := range []rpc.Codec{c.current, c.legacy} {
		for _, b := range c.cfg.Bindings {
			if codec != nil && b.Codec == codec {
				tenant, _ := codec.(v10.Codec)
				all = append(all, a2a.AgentInterface{URL: b.url(url), Transport: b.Transport, ProtocolVersion: minor(codec.Version()), Tenant: tenant.Tenant})
			}
		}
	}
	return append(all, c.cfg.Card.AdditionalInterfaces...)
}

func (b Binding) url(base string) string {
	if b.Transport == JSONRPC {
		return base
	}
	return strings.TrimSuffix(base, "/") + b.Path
}

// minor returns a version without its patch number, as cards of A2A 1.0 have it.
func minor(version string) string {
	if first := strings.IndexByte(version, '.'); first >= 0 {
		if second := strings.IndexByte(version[first+1:], '.'); second >= 0 {
			return version[:first+1+second]
		}
	}
	return version
}
