package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
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
	if a.JSON {
		a.Out.JSON(raw)
		return nil
	}
	card, err := client.DecodeCard(raw)
	if err != nil {
		return c.explain(ctx, a, err)
	}
	showCard(a.Out, card)
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

func showCard(o *command.Output, card *a2a.AgentCard) {
	o.Line("%s", o.Bold(command.Clean(card.Name)))
	o.Row("about", card.Description)
	o.Row("version", card.Version)
	for _, i := range card.AdditionalInterfaces {
		o.Row("interface", "A2A "+i.ProtocolVersion+" "+i.Transport+" "+i.URL)
	}
	o.Row("input", strings.Join(card.DefaultInputModes, ", "))
	o.Row("output", strings.Join(card.DefaultOutputModes, ", "))
	var features []string
	for name, has := range map[string]bool{"streaming": card.Capabilities.Streaming, "webhooks": card.Capabilities.PushNotifications} {
		if has {
			features = append(features, name)
		}
	}
	o.Row("features", strings.Join(slices.Sorted(slices.Values(features)), ", "))
	var schemes []string
	for name := range card.SecuritySchemes {
		schemes = append(schemes, name)
	}
	o.Row("access", strings.Join(slices.Sorted(slices.Values(schemes)), ", "))
	for _, skill := range card.Skills {
		o.Line("")
		o.Line("  %s", o.Bold(command.Clean("skill "+skill.Name)))
		o.Line("    %s", command.Clean(skill.Description))
		for _, example := range skill.Examples {
			o.Line("    for example: %s", command.Clean(example))
		}
	}
}
