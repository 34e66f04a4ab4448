package cli

import (
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// cardCmd shows the agent card.
type cardCmd struct {
	connection
}

// Run shows the card.
func (c *cardCmd) Run(ctx context.Context, a *app) error {
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	raw, err := cl.CardJSON(ctx)
	if err != nil {
		return c.explain(ctx, a, err)
	}
	if a.json {
		a.out.json(raw)
		return nil
	}
	card := new(a2a.AgentCard)
	if err := wire.Unmarshal(raw, card); err != nil {
		return c.explain(ctx, a, a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the agent card is not valid A2A 0.3"))
	}
	showCard(a.out, card)
	return nil
}

func showCard(o *output, card *a2a.AgentCard) {
	o.line("%s", o.bold(clean(card.Name)))
	o.row("about", card.Description)
	o.row("url", card.URL)
	o.row("version", card.Version)
	o.row("protocol", strings.TrimSpace("A2A "+card.ProtocolVersion+" "+card.PreferredTransport))
	o.row("input", strings.Join(card.DefaultInputModes, ", "))
	o.row("output", strings.Join(card.DefaultOutputModes, ", "))
	var features []string
	for name, has := range map[string]bool{"streaming": card.Capabilities.Streaming, "webhooks": card.Capabilities.PushNotifications} {
		if has {
			features = append(features, name)
		}
	}
	o.row("features", strings.Join(sorted(features), ", "))
	var schemes []string
	for name := range card.SecuritySchemes {
		schemes = append(schemes, name)
	}
	o.row("access", strings.Join(sorted(schemes), ", "))
	for _, skill := range card.Skills {
		o.line("")
		o.line("  %s", o.bold(clean("skill "+skill.Name)))
		o.line("    %s", clean(skill.Description))
		for _, example := range skill.Examples {
			o.line("    for example: %s", clean(example))
		}
	}
}
