package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/internal/cardsig"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// cardFlags has the settings of the agent card.
type cardFlags struct {
	Tenant       string `field:"Protocol.Tenant" placeholder:"NAME" envvar:"" group:"Card:" help:"Tenant that the agent card declares for A2A 1.0, for gateways that serve several agents at one address (default none)."`
	CardKey      string `placeholder:"FILE" envvar:"" group:"Card:" help:"Private keys of the agent, a PEM file with Ed25519 keys, ECDSA keys on P-256, or RSA keys of 2048 to 8192 bits. The first signs the agent card; /.well-known/jwks.json has the public keys of all. Replicas need the same file (default the card is not signed)."`
	ExtendedCard string `placeholder:"FILE" envvar:"" group:"Card:" help:"Extended agent card for authenticated clients: a JSON file with skills that are added, and a description, iconUrl, documentationUrl and provider that replace those of the public card. It needs tokens (default none)."`
}

// describeCard sets the settings of the agent card, and returns the skills on the public card and on the extended card.
func (f *cardFlags) describeCard(cfg *holdfast.Config) (skills []a2a.AgentSkill, err error) {
	more, err := f.extend(cfg)
	return slices.Concat(cfg.Card.Skills, more), errors.Join(f.readKeys(cfg), err)
}

func (f *cardFlags) readKeys(cfg *holdfast.Config) error {
	if f.CardKey == "" {
		return nil
	}
	text, err := os.ReadFile(f.CardKey)
	if err == nil {
		cfg.Security.CardKeys, err = cardsig.ParsePrivateKeys(text)
	}
	if err != nil {
		return fmt.Errorf("--card-key: %w", err)
	}
	return nil
}

// extend sets the extended agent card, and returns the skills that it adds.
func (f *cardFlags) extend(cfg *holdfast.Config) ([]a2a.AgentSkill, error) {
	if f.ExtendedCard == "" {
		return nil, nil
	}
	extended, err := readExtendedCard(f.ExtendedCard)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--extended-card: %w", err)
	case cfg.Security.Authenticator == nil:
		return nil, errors.New("--extended-card needs callers with credentials: --token, --tokens-file, --issuer or --allowed-did")
	}
	cfg.Security.ExtendedCard = extended.of
	return extended.Skills, nil
}

// extendedCard has the members of an extended agent card that differ from the public card.
type extendedCard struct {
	Description      string             `json:"description,omitempty"`
	IconURL          string             `json:"iconUrl,omitempty"`
	DocumentationURL string             `json:"documentationUrl,omitempty"`
	Provider         *a2a.AgentProvider `json:"provider,omitempty"`
	Skills           []a2a.AgentSkill   `json:"skills,omitempty"`
}

func readExtendedCard(file string) (*extendedCard, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	card := new(extendedCard)
	if err := wire.UnmarshalStrict(text, card); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i, skill := range card.Skills {
		if skill.ID == "" {
			return nil, fmt.Errorf("%s: %s must not be empty", file, a2a.Index("skills", i)+".id")
		}
	}
	return card, nil
}

// of returns the extended card of a public card, with the skills that the caller may use.
func (e *extendedCard) of(_ context.Context, caller a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error) {
	for to, from := range map[*string]string{&card.Description: e.Description, &card.IconURL: e.IconURL, &card.DocumentationURL: e.DocumentationURL} {
		if from != "" {
			*to = from
		}
	}
	if e.Provider != nil {
		card.Provider = e.Provider
	}
	card.Skills = slices.DeleteFunc(slices.Concat(card.Skills, e.Skills), func(s a2a.AgentSkill) bool { return !auth.MayUse(&caller, &s) })
	return &card, nil
}
