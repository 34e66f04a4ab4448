package cli

import (
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// cardCmd has the commands about agent cards.
type cardCmd struct {
	Show   cardShowCmd   `cmd:"" default:"withargs" help:"Show the agent card."`
	Verify cardVerifyCmd `cmd:"" help:"Verify the signature of an agent card."`
}

// cardShowCmd shows the agent card.
type cardShowCmd struct {
	URL string `arg:"" optional:"" help:"URL of the agent or of its card (default that of --server)."`

	connection
}

// Run shows the card.
func (c *cardShowCmd) Run(ctx context.Context, a *app) error {
	cl, err := c.cardClient(a, c.URL)
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
	card, err := client.DecodeCard(raw)
	if err != nil {
		return c.explain(ctx, a, err)
	}
	showCard(a.out, card)
	return nil
}

// cardClient returns a client that reads the card of an agent, at the given URL or, if it is "", at
// the URL of --server.
func (c *connection) cardClient(a *app, url string) (*client.Client, error) {
	if url != "" {
		if err := c.selectAgent(a, url); err != nil {
			return nil, err
		}
	}
	cl, err := client.New(client.Config{URL: c.url(), Token: c.Token, Header: c.config().Header})
	if err != nil {
		return nil, c.explainConfig(err)
	}
	return cl, nil
}

func showCard(o *output, card *a2a.AgentCard) {
	o.line("%s", o.bold(clean(card.Name)))
	o.row("about", card.Description)
	o.row("version", card.Version)
	for _, i := range card.AdditionalInterfaces {
		o.row("interface", "A2A "+i.ProtocolVersion+" "+i.Transport+" "+i.URL)
	}
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
