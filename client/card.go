package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Card fetches the agent's card.
func (c *Client) Card(ctx context.Context) (*a2a.AgentCard, error) {
	raw, err := c.CardJSON(ctx)
	if err != nil {
		return nil, err
	}
	card := new(a2a.AgentCard)
	if err := c.codec.DecodeResult(raw, card); err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the agent card is not valid A2A 0.3")
	}
	return card, nil
}

// CardJSON fetches the agent's card and returns it unchanged. It tries the
// well-known paths relative to the client's URL first, and then at the root of
// its host.
func (c *Client) CardJSON(ctx context.Context) (json.RawMessage, error) {
	var first error
	for _, url := range c.cardURLs() {
		raw, err := c.fetchCard(ctx, url)
		if err == nil {
			return raw, nil
		}
		if first == nil {
			first = err
		}
		var e *a2a.Error
		if !errors.As(err, &e) || e.Data["httpStatus"] != float64(http.StatusNotFound) {
			return nil, err
		}
	}
	return nil, first
}

func (c *Client) cardURLs() []string {
	bases := []string{c.url.JoinPath("/").String()}
	root := *c.url
	root.Path, root.RawPath, root.RawQuery = "/", "", ""
	if r := root.String(); r != bases[0] {
		bases = append(bases, r)
	}
	var urls []string
	for _, base := range bases {
		for _, name := range []string{"agent-card.json", "agent.json"} {
			u, err := c.url.Parse(base)
			if err != nil {
				continue
			}
			u = u.JoinPath(".well-known", name)
			u.RawQuery = ""
			urls = append(urls, u.String())
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
