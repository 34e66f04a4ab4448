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

	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/push"
)

type webhooksTestCmd struct {
	URL string `arg:"" help:"Where to post."`

	WebhookToken  string        `placeholder:"TOKEN" help:"What to send as bearer token. Default: none."`
	WebhookSecret string        `placeholder:"SECRET" help:"What to sign with: the whsec_... that the receiver has. Default: one made up for this, which it should refuse."`
	PushTimeout   time.Duration `name:"push-timeout" placeholder:"DURATION" envvar:"HOLDFAST_PUSH_TIMEOUT" also:"PUSH_TIMEOUT" default:"15s" group:"Webhooks:" help:"The longest that it may take to answer. Default: ${default}."`

	egressFlags
	configFlag
}

// Help has examples.
func (webhooksTestCmd) Help() string {
	return `Posts an event of a task that does not exist, from this machine and under the same rules as serve would: give it the same settings, by flags, variables or the config file. It ends with 0 if the event was taken (2xx), with 3 if the URL is not allowed, with 5 if the receiver refuses it, and with 7 if there is no answer or one that says to try again.

Examples:

    holdfast webhooks test https://example.com/tasks
    holdfast webhooks test http://localhost:8000/ --push-allow-hosts localhost:8000 --webhook-secret "$WHSEC"`
}

// The exit codes of webhooks test, those of errors that are like it.
const (
	exitNotAllowed  = 3
	exitRefused     = 5
	exitUnavailable = 7
)

// probed is what is told of a test.
type probed struct {
	URL string `json:"url"`
	// Outcome is delivered, refused (by the rules), rejected, gone, unavailable, dns, connect, tls,
	// timeout or protocol.
	Outcome string `json:"outcome"`
	Rule    string `json:"rule,omitempty"`
	Status  int    `json:"status,omitempty"`
	Address string `json:"address,omitempty"`
	Millis  int64  `json:"millis"`
	Detail  string `json:"detail,omitempty"`
	// Then is what would become of a real event: delivered, retried, dead or disabled.
	Then string `json:"then"`
	code int
}

// Run posts a sample.
func (c *webhooksTestCmd) Run(ctx context.Context, a *app) error {
	p, err := c.egress()
	if err != nil {
		return usagef("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if d := time.Duration(c.PushTimeout); d < shortestTimeout || d > longestTimeout {
		return usagef("--push-timeout is %s, want %s to %s", d, shortestTimeout, longestTimeout)
	}
	if err := push.CheckToken(c.WebhookToken); err != nil {
		return usagef("--webhook-token %s", err)
	}
	if c.WebhookSecret == "" {
		secret := make([]byte, keySize)
		_, _ = rand.Read(secret) // never fails
		c.WebhookSecret = "whsec_" + base64.StdEncoding.EncodeToString(secret)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.PushTimeout))
	defer cancel()
	told, err := c.probe(ctx, p)
	if err != nil {
		return err
	}
	if a.json {
		err = a.writeResult(told)
	} else {
		told.show(a.out)
	}
	if err == nil && told.code != exitOK {
		return exitStatus(told.code)
	}
	return err
}

func (c *webhooksTestCmd) probe(ctx context.Context, p pushes) (probed, error) {
	told := probed{URL: c.URL, Outcome: safehttp.OutcomeRefused, Then: "dead", code: exitNotAllowed}
	u, err := p.policy.CheckURL(c.URL)
	if refusal := (*safehttp.Refusal)(nil); errors.As(err, &refusal) {
		told.Rule, told.Detail = refusal.Rule, join(refusal.Text, refusal.Detail)
		return told, nil
	}
	if err != nil {
		return told, err
	}
	sender, err := p.sender(time.Duration(c.PushTimeout))
	if err != nil {
		return told, err
	}
	defer sender.CloseIdleConnections()
	begun := time.Now()
	r, err := push.Probe{
		URL: u, Token: c.WebhookToken, Secret: c.WebhookSecret, TaskID: uuid.NewString(), Agent: userAgent(), At: begun,
	}.Send(ctx, sender)
	if err != nil {
		return told, usagef("--webhook-secret %s", err)
	}
	told.Outcome, told.Rule, told.Status, told.Address, told.Detail = r.Outcome, r.Rule, r.Status, r.Address, r.Detail
	told.Millis = time.Since(begun).Milliseconds()
	switch {
	case r.Delivered:
		told.Then, told.code = "delivered", exitOK
	case r.Retried:
		told.Then, told.code = "retried", exitUnavailable
	case r.Rule != "":
		told.Detail = join(r.Reason, r.Detail)
	case r.Disabled:
		told.Then, told.code = "disabled", exitRefused
	default:
		told.code = exitRefused
	}
	return told, nil
}

func join(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + " (" + detail + ")"
}

// show tells people.
func (p *probed) show(o *output) {
	o.line("%s", o.bold(clean(p.URL)))
	row := func(name, value string) {
		if value != "" {
			o.line("  %-8s %s", name, clean(value))
		}
	}
	row("called", p.Address)
	took := fmt.Sprintf("after %dms", p.Millis)
	switch p.Outcome {
	case safehttp.OutcomeRefused:
		row("refused", fmt.Sprintf("%s; the rule is %q", p.Detail, p.Rule))
	case safehttp.OutcomeDNS:
		row("failed", "its name cannot be resolved, "+took)
	case safehttp.OutcomeConnect:
		row("failed", "no connection, "+took)
	case safehttp.OutcomeTLS:
		row("failed", "no trusted connection (TLS), "+took)
	case safehttp.OutcomeTimeout:
		row("failed", "no answer in time, "+took)
	case safehttp.OutcomeProtocol, safehttp.OutcomeCanceled:
		row("failed", "what came back is no answer that can be read, "+took)
	default:
		row("answered", fmt.Sprintf("%d %s, %s", p.Status, http.StatusText(p.Status), took))
	}
	if p.Outcome != safehttp.OutcomeRefused {
		row("detail", strings.TrimPrefix(p.Detail, p.Outcome+": "))
	} else if hint := allowHint(p.Rule, p.URL); hint != "" {
		row("allow", hint)
	}
	so := p.Then
	if p.Outcome == safehttp.OutcomeRefused {
		so = safehttp.OutcomeRefused
	}
	row("so", map[string]string{
		"delivered": "an event counts as delivered",
		"retried":   "Holdfast retries the event with growing pauses, from half a second on, and makes it a dead letter after three days",
		"dead":      "an event becomes a dead letter, and the next one is sent",
		"disabled":  "Holdfast disables the webhook and makes its remaining events dead letters",
		"refused":   "the webhook cannot be registered; events for a webhook that already has this URL become dead letters",
	}[so])
}
