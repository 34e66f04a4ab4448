package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Discover returns a client that uses the agent's card: cfg.Card, or the one that it fetches. If
// the agent has no card, cfg.URL is the endpoint, as for [New]. A card at the root of the host
// counts only if one of its interfaces is at cfg.URL or below it.
func Discover(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Card != nil {
		return New(cfg)
	}
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	raw, from, err := c.findCard(ctx)
	if err != nil {
		if !noCard(err) || isCardURL(c.url) {
			return nil, err
		}
		return New(cfg)
	}
	if err := c.useCard(ctx, raw, from); err != nil {
		return nil, err
	}
	if c.isOther(from) {
		return New(cfg)
	}
	return c, nil
}

// isOther reports whether the card from a URL describes another agent than the agent at the
// client's URL.
func (c *Client) isOther(from *url.URL) bool {
	base := strings.TrimSuffix(c.url.EscapedPath(), "/")
	if strings.HasPrefix(from.EscapedPath(), base+"/") || from.EscapedPath() == base {
		return false
	}
	return !slices.ContainsFunc(c.card.Load().AdditionalInterfaces, func(i a2a.AgentInterface) bool {
		u, err := from.Parse(i.URL)
		return err == nil && u.Host == c.url.Host && strings.HasPrefix(u.EscapedPath()+"/", base+"/")
	})
}

// useCard makes the client use a card from a URL, and an interface of it.
func (c *Client) useCard(ctx context.Context, raw []byte, from *url.URL) error {
	card, err := c.checkCard(ctx, raw)
	if err != nil {
		return err
	}
	if c.binding, err = c.cfg.choose(card.AdditionalInterfaces, from); err != nil {
		return err
	}
	c.card.Store(card)
	return nil
}

// checkCard verifies and decodes a card.
func (c *Client) checkCard(ctx context.Context, raw []byte) (*a2a.AgentCard, error) {
	if c.cfg.VerifyCard != nil {
		if err := c.cfg.VerifyCard(ctx, raw); err != nil {
			return nil, a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the agent card is rejected")
		}
	}
	return DecodeCard(raw)
}

// DecodeCard decodes an agent card of A2A 0.3 or 1.0, or a card with the members of both. In the
// result, AdditionalInterfaces are all interfaces of the agent in the order of preference, with
// their versions. URL, PreferredTransport and ProtocolVersion describe the first.
func DecodeCard(raw []byte) (*a2a.AgentCard, error) {
	var head struct {
		SupportedInterfaces json.RawMessage      `json:"supportedInterfaces"`
		ProtocolVersion     string               `json:"protocolVersion"`
		URL                 string               `json:"url"`
		PreferredTransport  string               `json:"preferredTransport"`
		Additional          []a2a.AgentInterface `json:"additionalInterfaces"`
	}
	card := new(a2a.AgentCard)
	err := wire.Unmarshal(raw, &head)
	if err == nil && head.SupportedInterfaces != nil {
		err = v10.Codec{}.DecodeResult(raw, card)
	} else if err == nil {
		err = v03.Codec{}.DecodeResult(raw, card)
		card.AdditionalInterfaces = nil
	}
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the agent card is not valid A2A")
	}
	if head.URL != "" {
		first := a2a.AgentInterface{URL: head.URL, Transport: head.PreferredTransport}
		for _, i := range append([]a2a.AgentInterface{first}, head.Additional...) {
			if i.Transport == "" {
				i.Transport = TransportJSONRPC
			}
			i.ProtocolVersion = head.ProtocolVersion
			known := func(o a2a.AgentInterface) bool {
				return o.URL == i.URL && o.Transport == i.Transport && shortVersion(o.ProtocolVersion) == shortVersion(i.ProtocolVersion)
			}
			if !slices.ContainsFunc(card.AdditionalInterfaces, known) {
				card.AdditionalInterfaces = append(card.AdditionalInterfaces, i)
			}
		}
	}
	if len(card.AdditionalInterfaces) > 0 {
		first := card.AdditionalInterfaces[0]
		card.URL, card.PreferredTransport, card.ProtocolVersion = first.URL, first.Transport, first.ProtocolVersion
	}
	return card, nil
}

// Card returns the agent's card: the extended card if the client has read it, otherwise the one
// that selected the interface. It fetches the card if neither is known.
func (c *Client) Card(ctx context.Context) (*a2a.AgentCard, error) {
	if card := c.card.Load(); card != nil {
		return card, nil
	}
	raw, err := c.CardJSON(ctx)
	if err != nil {
		return nil, err
	}
	card, err := c.checkCard(ctx, raw)
	if err != nil {
		return nil, err
	}
	c.card.CompareAndSwap(nil, card)
	return card, nil
}

// ExtendedCard reads the agent's card for authenticated clients. [Client.Card] returns it from
// then on.
func (c *Client) ExtendedCard(ctx context.Context) (*a2a.AgentCard, error) {
	params, err := c.encode(map[string]any{}) // with the tenant
	if err != nil {
		return nil, err
	}
	raw, err := c.call(ctx, newRequest(a2a.MethodExtendedCard, params))
	if err != nil {
		return nil, err
	}
	card, err := c.checkCard(ctx, raw)
	if err != nil {
		return nil, err
	}
	c.card.Store(card)
	return card, nil
}

// CardJSON fetches the agent's card and returns it unchanged. If the URL of the client ends with
// .json, it is the URL of the card. Otherwise CardJSON tries the well-known paths relative to the
// URL first, and then at the root of its host.
func (c *Client) CardJSON(ctx context.Context) (json.RawMessage, error) {
	raw, _, err := c.findCard(ctx)
	return raw, err
}

// findCard returns the card and its URL.
func (c *Client) findCard(ctx context.Context) (raw json.RawMessage, from *url.URL, err error) {
	for _, u := range c.cardURLs() {
		card, fetchErr := c.fetchCard(ctx, u.String())
		switch {
		case fetchErr == nil:
			return card, u, nil
		case a2a.CodeOf(fetchErr) != a2a.CodeInvalidAgentResponse: // other errors do not depend on the URL
			return nil, nil, fetchErr
		case err == nil || noCard(err):
			err = fetchErr
		}
	}
	return nil, nil, err
}

// noCard reports whether the server responded with an error status, and not with something that is
// no card.
func noCard(err error) bool {
	var e *a2a.Error
	if !errors.As(err, &e) {
		return false
	}
	status, _ := e.Data["httpStatus"].(float64)
	return e.Code == a2a.CodeInvalidAgentResponse && status >= 400
}

// isCardURL reports whether u is the URL of a card.
func isCardURL(u *url.URL) bool { return strings.HasSuffix(u.Path, ".json") }

func (c *Client) cardURLs() (urls []*url.URL) {
	base := *c.url
	base.RawQuery, base.Fragment = "", ""
	if isCardURL(c.url) {
		return []*url.URL{c.url}
	}
	root := base
	root.Path, root.RawPath = "/", ""
	bases := []*url.URL{&base}
	if strings.Trim(base.Path, "/") != "" {
		bases = append(bases, &root)
	}
	for _, b := range bases {
		for _, name := range []string{"agent-card.json", "agent.json"} {
			urls = append(urls, b.JoinPath(".well-known", name))
		}
	}
	return urls
}

func (c *Client) fetchCard(ctx context.Context, url string) (json.RawMessage, error) {
	req, err := c.newRequest(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	// Servers of both versions then send the card of 1.0, which names all interfaces.
	req.Header.Set(versionHeader, Version10)
	resp, err := c.do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp)
	}
	body, err := c.read(ctx, resp)
	if err != nil {
		return nil, err
	}
	if err := wire.Valid(body); err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the agent card is not valid JSON")
	}
	return body, nil
}
