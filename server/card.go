package server

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/cardsig"
	"github.com/holdfast-dev/holdfast/server/internal/cards"
	"github.com/holdfast-dev/holdfast/server/rest"
)

// agentCard returns the content of the agent card.
func agentCard(cfg Config) a2a.AgentCard {
	c := cfg.Card
	c.Description = cmp.Or(c.Description, c.Name)
	c.Version = cmp.Or(c.Version, "0.0.0")
	if len(c.DefaultInputModes) == 0 {
		c.DefaultInputModes = []string{"text/plain"}
	}
	if len(c.DefaultOutputModes) == 0 {
		c.DefaultOutputModes = []string{"text/plain"}
	}
	c.Capabilities.Streaming = !cfg.Requests.StreamingOff
	c.Capabilities.PushNotifications = cfg.Webhook != nil
	c.Capabilities.StateTransitionHistory = true
	c.Capabilities.Extensions = slices.Concat(c.Capabilities.Extensions, extensions(cfg))
	c.SupportsAuthenticatedExtendedCard = cfg.Security.ExtendedCard != nil
	if cfg.Security.Authenticator != nil {
		c.SecuritySchemes, c.Security = cfg.Security.Authenticator.Security()
	}
	return c
}

// strictCard is the path of the card with the members of A2A 1.0 only.
const strictCard = "/v1.0/.well-known/agent-card.json"

// handleCards adds the routes of the agent cards.
func (s *Server) handleCards() (err error) {
	s.card = agentCard(s.cfg)
	var bindings []cards.Binding
	for _, codec := range s.cfg.Codecs {
		bindings = append(bindings, cards.Binding{Codec: codec, Transport: cards.JSONRPC})
	}
	for _, h := range s.rest {
		b := cards.Binding{Codec: codecOf(s.cfg.Codecs, h.Codec.Version()), Transport: rest.Transport}
		if !h.Tenants {
			b.Path = restPath
		}
		bindings = append(bindings, b)
	}
	cc := cards.Config{Card: s.card, Extended: s.cfg.Security.ExtendedCard, Bindings: bindings}
	if len(s.cfg.Security.CardKeys) > 0 {
		if cc.Signer, err = cardsig.NewSigner(s.cfg.Security.CardKeys); err != nil {
			return err
		}
	}
	if s.cards, err = cards.New(cc); err != nil {
		return err
	}
	if cc.Signer != nil {
		s.routes.Handle(http.MethodGet, cards.KeysPath, route{serve: s.cards.ServeKeys, public: true})
	}
	for _, path := range []string{"/", "/.well-known/agent-card.json", "/.well-known/agent.json"} {
		s.routes.Handle(http.MethodGet, path, route{serve: s.cards.Serve, public: true})
	}
	if codecOf(s.cfg.Codecs, v10.Codec{}.Version()) != nil {
		s.routes.Handle(http.MethodGet, strictCard, route{serve: s.cards.ServeStrict, public: true})
	}
	return nil
}
