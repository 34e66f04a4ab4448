package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/client"
)

// cardVerifyCmd verifies the signature of an agent card.
type cardVerifyCmd struct {
	URL string `arg:"" optional:"" help:"URL of the agent or of its card (default that of --server)."`

	KeySet string `name:"jwks" placeholder:"URL" help:"URL of the JSON Web Key Set of the signer (default /.well-known/jwks.json at the host of the agent)."`
	Key    string `placeholder:"FILE" help:"File with the keys of the signer instead: public keys or certificates in PEM, or a JSON Web Key Set."`

	connection
}

const keysHint = "pass the keys of the signer with --key or --jwks"

// Run verifies the card.
func (c *cardVerifyCmd) Run(ctx context.Context, a *app) error {
	if c.KeySet != "" && c.Key != "" {
		return command.Usagef("--jwks and --key must not both be given")
	}
	cl, err := c.cardClient(a, c.URL)
	if err != nil {
		return err
	}
	card, err := cl.CardJSON(ctx)
	if err != nil {
		return c.explain(ctx, a, err)
	}
	if _, err := client.VerifyCard(card, client.CardKeys{}); errors.Is(err, client.ErrCardUnsigned) {
		return err // an agent without signatures may have no key set
	}
	keys, err := c.keys(ctx, cl)
	if err != nil && a2a.CodeOf(err) == a2a.CodeInvalidAgentResponse {
		return command.WithHint(err, keysHint)
	}
	if err != nil {
		return c.explain(ctx, a, err)
	}
	signature, err := client.VerifyCard(card, keys)
	switch {
	case errors.Is(err, client.ErrCardKeyUnknown):
		return command.WithHint(err, keysHint)
	case err != nil:
		return err
	}
	decoded, err := client.DecodeCard(card)
	if err != nil {
		return c.explain(ctx, a, err)
	}
	if a.JSON {
		return a.WriteResult(map[string]any{"valid": true, "name": decoded.Name, "keyId": signature.KeyID, "algorithm": signature.Algorithm, "jku": signature.JKU})
	}
	a.Out.Line("%s", a.Out.Bold("the signature is valid"))
	a.Out.Row("agent", decoded.Name)
	a.Out.Row("key", signature.KeyID)
	a.Out.Row("algorithm", signature.Algorithm)
	a.Out.Row("key set", signature.JKU)
	return nil
}

// keys returns the keys of the signer.
func (c *cardVerifyCmd) keys(ctx context.Context, cl *client.Client) (client.CardKeys, error) {
	if c.Key == "" {
		return cl.CardKeys(ctx, c.KeySet)
	}
	text, err := os.ReadFile(c.Key)
	if err != nil {
		return client.CardKeys{}, fmt.Errorf("--key: %w", err)
	}
	keys, err := client.ParseCardKeys(text)
	if err != nil {
		return client.CardKeys{}, fmt.Errorf("--key: %w", err)
	}
	return keys, nil
}
