package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// webhooksCmd has the commands about webhooks.
type webhooksCmd struct {
	List     webhooksListCmd     `cmd:"" help:"List the webhooks of a task, or of all tasks in a store."`
	Get      webhooksGetCmd      `cmd:"" help:"Show a webhook and how it fares."`
	Set      webhooksSetCmd      `cmd:"" help:"Have a URL told what becomes of a task."`
	Delete   webhooksDeleteCmd   `cmd:"" help:"Delete webhooks of a task."`
	Attempts webhooksAttemptsCmd `cmd:"" help:"List the attempts to deliver, newest first."`
	Dead     webhooksDeadCmd     `cmd:"" help:"List what could not be delivered, newest first."`
	Replay   webhooksReplayCmd   `cmd:"" help:"Send a webhook again what it did not get, or all from an event on."`
	Test     webhooksTestCmd     `cmd:"" help:"Send a URL a sample event, and tell what happened."`
}

type webhooksSetCmd struct {
	Task given  `arg:"" help:"The task's id."`
	URL  string `arg:"" help:"Where to post what becomes of it: an https or http URL."`

	ID           given    `placeholder:"ID" group:"Webhook:" help:"Its id: an existing one is replaced. Default: that of the task's webhook with this URL, else one is made up."`
	WebhookToken *string  `placeholder:"TOKEN" group:"Webhook:" help:"What the receiver is sent as bearer token, and knows the sender by. Default: that of the webhook that is replaced."`
	Format       string   `enum:"event,task,stream-response" default:"event" placeholder:"FORMAT" group:"Webhook:" help:"What is posted: event, the task as in A2A 0.3, or the stream-response of A2A 1.0. Default: that of the webhook that is replaced, else ${default}."`
	Signature    []string `enum:"v1,v1a" placeholder:"VERSION" group:"Webhook:" help:"How it is signed: v1 (HMAC-SHA256), v1a (Ed25519); again for both. Default: that of the webhook that is replaced, else v1."`
	RotateSecret bool     `group:"Webhook:" help:"Make new keys. For a day everything is signed with the old ones, too."`
	LongRunning  bool     `negatable:"" group:"Webhook:" help:"Keep it for longer once the task is over: 30 days rather than one. Default: as with the webhook that is replaced, else no."`

	connection
}

// Help has examples.
func (webhooksSetCmd) Help() string {
	return `Shows the webhook's id, and the secret to verify signatures with: that is told when it is made, again for ten minutes, and never after. A new webhook is told what happens from now on; holdfast webhooks replay --from 1 sends what was before, too. One that is replaced keeps what no flag says otherwise, and goes on where it was, also if it had been given up. docs/webhooks.md tells how to receive, with receivers in Go, Python and Node.

Examples:

    holdfast webhooks set 01980a2e-... https://example.com/tasks --webhook-token "$SECRET"
    holdfast webhooks set 01980a2e-... https://example.com/tasks --id mine --rotate-secret
    holdfast send --no-wait --webhook https://example.com/tasks -f book.pdf`
}

// Run sets a webhook.
func (c *webhooksSetCmd) Run(ctx context.Context, a *app) error {
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	params, err := c.params(ctx, a, cl)
	if err != nil {
		return c.explain(ctx, a, err)
	}
	raw, set, err := ask[a2a.TaskPushNotificationConfig](ctx, cl, a2a.MethodPushSet, params)
	if err != nil {
		return c.explain(ctx, a, c.explainSet(a, params, err))
	}
	if a.json {
		a.out.raw(append(raw, '\n'))
		return nil
	}
	a.out.line("set webhook %s", clean(set.Config.ID))
	if set.Config.SigningSecret != "" {
		a.out.line("signing secret, not shown again after ten minutes: %s", clean(set.Config.SigningSecret))
	}
	if set.Config.SigningKey != "" {
		a.out.line("public key of v1a: %s", clean(set.Config.SigningKey))
	}
	return nil
}

// params are what the webhook is to be: what flags say, over what the one that is
// replaced is, else over the defaults. Secrets of that one are not told, and what stands
// for them keeps them.
func (c *webhooksSetCmd) params(ctx context.Context, a *app, cl *client.Client) (*a2a.TaskPushNotificationConfig, error) {
	_, list, err := ask[[]a2a.TaskPushNotificationConfig](ctx, cl, a2a.MethodPushList, a2a.ListTaskPushNotificationConfigParams{TaskID: string(c.Task)})
	if err != nil {
		return nil, err
	}
	params := &a2a.TaskPushNotificationConfig{TaskID: string(c.Task), Config: a2a.PushNotificationConfig{ID: string(c.ID)}}
	for _, w := range *list {
		if c.ID != "" && w.Config.ID == string(c.ID) || c.ID == "" && w.Config.URL == c.URL {
			params.Config, params.LongRunning = w.Config, w.LongRunning
			params.Config.SigningKey, params.Config.Delivery = "", nil // told, never taken
			break
		}
	}
	given := func(flag string) bool { return a.set.origins[flag].rank == byFlag }
	to := &params.Config
	to.URL, to.RotateSecret = c.URL, c.RotateSecret
	if c.WebhookToken != nil {
		to.Token = *c.WebhookToken
	}
	if to.PayloadFormat == "" || given("format") {
		to.PayloadFormat = a2a.PayloadFormat(c.Format)
	}
	if given("signature") {
		to.Signatures = c.Signature
	}
	if given("long-running") {
		params.LongRunning = c.LongRunning
	}
	return params, nil
}

// explainSet adds to an error what to do about it. A secret that was to be kept does not go
// along to another endpoint.
func (c *webhooksSetCmd) explainSet(a *app, params *a2a.TaskPushNotificationConfig, err error) error {
	var coded *a2a.Error
	if !errors.As(err, &coded) {
		return err
	}
	auth, _ := params.Config.Authentication.(a2a.PushNotificationAuthenticationInfo)
	switch coded.Data["field"] {
	case "pushNotificationConfig.token":
		if c.WebhookToken == nil && params.Config.Token != "" {
			return &hinted{err, "give --webhook-token again, or --webhook-token '' for none"}
		}
	case "pushNotificationConfig.authentication.credentials":
		if auth.Credentials != "" {
			return &hinted{err, "there is no flag for credentials: `" + a.name + " call" + c.flags() + " " + a2a.MethodPushSet + "` takes them as JSON"}
		}
	}
	return explainURL(a, err, c.URL)
}

// explainURL adds to an error about where a webhook's URL leads who can allow that.
func explainURL(a *app, err error, rawURL string) error {
	var coded *a2a.Error
	if !errors.As(err, &coded) {
		return err
	}
	rule, _ := coded.Data["rule"].(string)
	if flag := allowHint(rule, rawURL); flag != "" {
		return &hinted{err, "the server calls public addresses only; whoever runs it can allow this one: `" + a.name + " serve " + flag + "`"}
	}
	return err
}

type webhooksGetCmd struct {
	Task given `arg:"" help:"The task's id."`
	ID   given `arg:"" optional:"" help:"The webhook's id. Default: the only one of the task."`

	connection
}

// Help has examples.
func (webhooksGetCmd) Help() string {
	return `Secrets are not shown.

Examples:

    holdfast webhooks get 01980a2e-...
    holdfast webhooks get 01980a2e-... mine --json | jq .pushNotificationConfig.delivery`
}

// Run shows a webhook.
func (c *webhooksGetCmd) Run(ctx context.Context, a *app) error {
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	raw, got, err := ask[a2a.TaskPushNotificationConfig](ctx, cl, a2a.MethodPushGet, a2a.GetTaskPushNotificationConfigParams{TaskID: string(c.Task), ConfigID: string(c.ID)})
	if err != nil {
		return c.explainWebhook(ctx, a, c.Task, err)
	}
	if a.json {
		a.out.raw(append(raw, '\n'))
		return nil
	}
	_, dead, err := ask[a2a.ListDeadLettersResult](ctx, cl, a2a.MethodDeadLetters, a2a.ListDeadLettersParams{TaskID: string(c.Task), ConfigID: got.Config.ID, PageSize: maxPage})
	if err != nil && a2a.CodeOf(err) != a2a.CodeMethodNotFound { // as of some other A2A server
		return c.explainWebhook(ctx, a, c.Task, err)
	}
	count := 0
	if dead != nil {
		count = len(dead.DeadLetters)
	}
	showWebhook(a.out, got, count)
	return nil
}

// explainWebhook adds to an error of a call what to do about it.
func (c *connection) explainWebhook(ctx context.Context, a *app, task given, err error) error {
	if hint := whichWebhook(err); hint != "" {
		return &hinted{err, "`" + a.name + " webhooks list" + c.flags() + " " + quoteShell(string(task)) + "` " + hint}
	}
	return c.explain(ctx, a, err)
}

// whichWebhook says what the list of a task's webhooks is good for after an error, "" if
// for nothing.
func whichWebhook(err error) string {
	var coded *a2a.Error
	switch {
	case !errors.As(err, &coded):
	case coded.Code == a2a.CodePushConfigNotFound:
		return "shows the webhooks of the task"
	case coded.Data["field"] == "pushNotificationConfigId":
		return "shows their ids: give one after the task"
	}
	return ""
}

// showWebhook shows a webhook and how many dead letters it has.
func showWebhook(o *output, w *a2a.TaskPushNotificationConfig, dead int) {
	row := func(name, value string) {
		if value != "" {
			o.line("  %-9s %s", name, clean(value))
		}
	}
	c := &w.Config
	o.line("%s", o.bold("webhook "+clean(c.ID)))
	row("task", w.TaskID)
	row("url", c.URL)
	if c.Token != "" {
		row("token", "set")
	}
	format := c.PayloadFormat
	if format == "" {
		format = a2a.PayloadEvent
	}
	row("format", string(format))
	signed := strings.Join(c.Signatures, ", ")
	if signed == "" {
		signed = "v1"
	}
	row("signed", signed)
	row("key", c.SigningKey)
	if w.LongRunning {
		row("kept", "long-running")
	}
	d := c.Delivery
	if d == nil {
		return
	}
	row("state", stateOf(d))
	if d.LastDelivered != nil {
		row("delivered", fmt.Sprintf("%s, the last %s ago", several(d.Delivered, "event"), age(*d.LastDelivered)))
	} else {
		row("delivered", "nothing yet")
	}
	switch {
	case dead >= maxPage:
		row("dead", strconv.Itoa(dead)+" events or more")
	case dead > 0:
		row("dead", several(int64(dead), "event"))
	}
	if next := nextOf(d); next != "" && d.Attempts > 0 {
		row("next", fmt.Sprintf("%s, after %s", next, several(int64(d.Attempts), "failure")))
	} else {
		row("next", next)
	}
}

func stateOf(d *a2a.PushDelivery) string {
	if d.Reason == "" {
		return d.State
	}
	return d.State + ": " + d.Reason
}

// nextOf says when the next event is sent, "" when there is none to be sent.
func nextOf(d *a2a.PushDelivery) string {
	switch {
	case !d.Pending:
		return ""
	case d.NextAttemptAt == nil || time.Until(*d.NextAttemptAt) < time.Second:
		return "now"
	}
	return "in " + pause(time.Until(*d.NextAttemptAt))
}

// pause is a time to wait, in its two largest units.
func pause(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

type webhooksDeleteCmd struct {
	Task given   `arg:"" help:"The task's id."`
	IDs  []given `arg:"" name:"id" help:"The ids of the webhooks."`

	connection
}

// Help has examples.
func (webhooksDeleteCmd) Help() string {
	return `When it is done nothing more is sent. What was not delivered is gone, dead letters too. One that is not there is no error.

Examples:

    holdfast webhooks delete 01980a2e-... mine
    holdfast webhooks list 01980a2e-... --json | jq -r '.[].pushNotificationConfig.id' | xargs holdfast webhooks delete 01980a2e-...`
}

// Run deletes webhooks, all of them even if one is not there.
func (c *webhooksDeleteCmd) Run(ctx context.Context, a *app) error {
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	_, list, err := ask[[]a2a.TaskPushNotificationConfig](ctx, cl, a2a.MethodPushList, a2a.ListTaskPushNotificationConfigParams{TaskID: string(c.Task)})
	if err != nil {
		return c.explain(ctx, a, err)
	}
	there := make(map[string]bool)
	for _, w := range *list {
		there[w.Config.ID] = true
	}
	ids := make([]string, len(c.IDs))
	for i, id := range c.IDs {
		ids[i] = string(id)
	}
	return a.each(ctx, ids, func(id string) error {
		raw, _, err := ask[any](ctx, cl, a2a.MethodPushDelete, a2a.DeleteTaskPushNotificationConfigParams{TaskID: string(c.Task), ConfigID: id})
		switch {
		case err != nil:
			return c.explainWebhook(ctx, a, c.Task, err)
		case there[id] || id == "default" && len(*list) == 1:
			a.changed(raw, "deleted webhook "+id)
		default:
			a.changed(raw, "there was no webhook "+id)
		}
		return nil
	})
}

// inline are the flags that register a webhook with a message.
type inline struct {
	Webhook      string `placeholder:"URL" group:"Webhook:" help:"Have this URL told what becomes of the task, from its begin."`
	WebhookToken string `placeholder:"TOKEN" group:"Webhook:" help:"What it is sent as bearer token, and knows the sender by."`
	LongRunning  bool   `group:"Webhook:" help:"Keep the webhook for longer once the task is over."`
}

// configuration is nil when there is no webhook.
func (i *inline) configuration() (*a2a.MessageSendConfiguration, error) {
	if i.Webhook == "" {
		if i.WebhookToken != "" || i.LongRunning {
			return nil, usagef("--webhook-token and --long-running need --webhook")
		}
		return nil, nil
	}
	return &a2a.MessageSendConfiguration{
		PushNotificationConfig: &a2a.PushNotificationConfig{URL: i.Webhook, Token: i.WebhookToken}, LongRunning: i.LongRunning,
	}, nil
}
