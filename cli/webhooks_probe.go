package cli

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/webhook"
)

type webhooksTestCmd struct {
	URL string `arg:"" help:"URL to send the sample event to."`

	WebhookToken   string        `placeholder:"TOKEN" help:"Token sent in X-A2A-Notification-Token, with format event also as bearer token (default none)."`
	WebhookSecret  string        `placeholder:"SECRET" help:"Secret that signs the request: the whsec_... of the receiver (default a random one, which the receiver should reject)."`
	WebhookTimeout time.Duration `field:"Webhooks.Timeout" min:"100ms" max:"2m" envvar:"" also:"PUSH_TIMEOUT" group:"Webhooks:" help:"Timeout of the request."`

	egressFlags
	configFlag
}

// Exit codes of webhooks test.
const (
	exitNotAllowed  = 3
	exitRefused     = 5
	exitUnavailable = 7
)

// probeResult is the result of webhooks test.
type probeResult struct {
	URL string `json:"url"`
	// Outcome is delivered, refused (by the policy), rejected, gone, unavailable, dns, connect,
	// tls, timeout or protocol.
	Outcome string `json:"outcome"`
	Rule    string `json:"rule,omitempty"`
	Status  int    `json:"status,omitempty"`
	Address string `json:"address,omitempty"`
	Millis  int64  `json:"millis"`
	Detail  string `json:"detail,omitempty"`
	// Then is the outcome of a real event: delivered, retried, dead or disabled.
	Then string `json:"then"`
	code int
}

// Run sends a sample event.
func (c *webhooksTestCmd) Run(ctx context.Context, a *app) error {
	cfg := holdfast.Config{Name: "test"}
	a.set.bind("", &cfg)
	if err := errors.Join(append(a.set.checkBounds(false), a.set.problemsOf("", cfg.Check(), "")...)...); err != nil {
		return command.Usagef("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if err := webhook.CheckToken(c.WebhookToken); err != nil {
		return command.Usagef("--webhook-token %s", err)
	}
	if c.WebhookSecret == "" {
		secret := make([]byte, keySize)
		_, _ = rand.Read(secret) // never fails
		c.WebhookSecret = "whsec_" + base64.StdEncoding.EncodeToString(secret)
	}
	ctx, cancel := context.WithTimeout(ctx, c.WebhookTimeout)
	defer cancel()
	result, err := c.probe(ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		err = a.WriteResult(result)
	} else {
		result.show(a.Out)
	}
	if err == nil && result.code != exitOK {
		return exitStatus(result.code)
	}
	return err
}

func (c *webhooksTestCmd) probe(ctx context.Context) (probeResult, error) {
	result := probeResult{URL: c.URL, Outcome: safehttp.OutcomeRefused, Then: "dead", code: exitNotAllowed}
	cl, policy, err := c.client(c.WebhookTimeout)
	if err != nil {
		return result, err
	}
	defer cl.CloseIdleConnections()
	u, err := policy.CheckURL(c.URL)
	if refusal := (*safehttp.Refusal)(nil); errors.As(err, &refusal) {
		result.Rule, result.Detail = refusal.Rule, join(refusal.Text, refusal.Detail)
		return result, nil
	}
	if err != nil {
		return result, err
	}
	start := time.Now()
	r, err := webhook.Probe{
		URL: u, Token: c.WebhookToken, Secret: c.WebhookSecret, TaskID: uuid.NewString(), UserAgent: userAgent(), At: start,
	}.Send(ctx, cl)
	if err != nil {
		return result, command.Usagef("--webhook-secret %s", err)
	}
	result.Outcome, result.Rule, result.Status, result.Address, result.Detail = r.Outcome, r.Rule, r.Status, r.Address, r.Detail
	result.Millis = time.Since(start).Milliseconds()
	switch {
	case r.Delivered:
		result.Then, result.code = "delivered", exitOK
	case r.Retried:
		result.Then, result.code = "retried", exitUnavailable
	case r.Rule != "":
		result.Detail = join(r.Reason, r.Detail)
	case r.Disabled:
		result.Then, result.code = "disabled", exitRefused
	default:
		result.code = exitRefused
	}
	return result, nil
}

func join(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + " (" + detail + ")"
}

// show prints the result as text.
func (p *probeResult) show(o *command.Output) {
	o.Line("%s", o.Bold(command.Clean(p.URL)))
	row := func(name, value string) {
		if value != "" {
			o.Line("  %-8s %s", name, command.Clean(value))
		}
	}
	row("address", p.Address)
	after := fmt.Sprintf("after %dms", p.Millis)
	switch p.Outcome {
	case safehttp.OutcomeRefused:
		row("refused", fmt.Sprintf("%s; rule %q", p.Detail, p.Rule))
	case safehttp.OutcomeDNS:
		row("failed", "host name not resolved, "+after)
	case safehttp.OutcomeConnect:
		row("failed", "no connection, "+after)
	case safehttp.OutcomeTLS:
		row("failed", "TLS handshake failed, "+after)
	case safehttp.OutcomeTimeout:
		row("failed", "timeout, "+after)
	case safehttp.OutcomeProtocol, safehttp.OutcomeCanceled:
		row("failed", "no valid HTTP response, "+after)
	default:
		row("response", fmt.Sprintf("%d %s, %s", p.Status, http.StatusText(p.Status), after))
	}
	if p.Outcome != safehttp.OutcomeRefused {
		row("detail", strings.TrimPrefix(p.Detail, p.Outcome+": "))
	} else if hint := allowFlag(p.Rule, p.URL); hint != "" {
		row("allow", hint)
	}
	effect := p.Then
	if p.Outcome == safehttp.OutcomeRefused {
		effect = safehttp.OutcomeRefused
	}
	row("effect", map[string]string{
		"delivered": "the event is delivered",
		"retried":   "the event is retried with increasing backoff, and becomes a dead letter after three days",
		"dead":      "the event becomes a dead letter, and the next event is sent",
		"disabled":  "the webhook is disabled, and its remaining events become dead letters",
		"refused":   "the webhook cannot be registered; events for a webhook that already has this URL become dead letters",
	}[effect])
}
