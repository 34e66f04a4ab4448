package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
)

// webhooksCmd has the commands about webhooks.
type webhooksCmd struct {
	List     webhooksListCmd     `cmd:"" help:"List the webhooks of a task, or of all tasks in a store."`
	Get      webhooksGetCmd      `cmd:"" help:"Show a webhook and its delivery state."`
	Set      webhooksSetCmd      `cmd:"" help:"Register a webhook for a task."`
	Delete   webhooksDeleteCmd   `cmd:"" help:"Delete webhooks of a task."`
	Attempts webhooksAttemptsCmd `cmd:"" help:"List delivery attempts, newest first."`
	Dead     webhooksDeadCmd     `cmd:"" help:"List dead letters, newest first."`
	Replay   webhooksReplayCmd   `cmd:"" help:"Resend events to a webhook, from its first dead letter or from a given event."`
	Test     webhooksTestCmd     `cmd:"" help:"Send a sample event to a URL and report the result."`
}

type webhooksSetCmd struct {
	Task command.NonEmpty `arg:"" help:"Task id."`
	URL  string           `arg:"" help:"URL that receives the events, https or http."`

	ID           command.NonEmpty `placeholder:"ID" group:"Webhook:" help:"Webhook id; an existing webhook is replaced (default the id of the task's webhook with this URL, else generated)."`
	WebhookToken *string          `placeholder:"TOKEN" group:"Webhook:" help:"Token sent in X-A2A-Notification-Token, with format event also as bearer token, so that the receiver can authenticate the request (default the replaced webhook's)."`
	Format       string           `enum:"event,task,stream-response" default:"event" placeholder:"FORMAT" group:"Webhook:" help:"Payload format: event, task (as in A2A 0.3) or stream-response (as in A2A 1.0) (default the replaced webhook's, else ${default})."`
	Signature    []string         `enum:"v1,v1a" placeholder:"VERSION" group:"Webhook:" help:"Signature version: v1 (HMAC-SHA256) or v1a (Ed25519). Repeatable (default the replaced webhook's, else v1)."`
	RotateSecret bool             `group:"Webhook:" help:"Create new signing keys. For one day requests are also signed with the old keys."`
	LongRunning  bool             `negatable:"" group:"Webhook:" help:"Keep the webhook for 30 days instead of one after the task is final (default as for the replaced webhook, else off)."`

	connection
}

// Run sets a webhook.
func (c *webhooksSetCmd) Run(ctx context.Context, a *app) error {
	params, err := c.params(ctx, a)
	if err != nil {
		return err
	}
	err = show(ctx, a, &c.connection, a2a.MethodPushSet, params, func(set *a2a.TaskPushNotificationConfig) {
		a.Out.Line("set webhook %s", command.Clean(set.Config.ID))
		if set.Config.SigningSecret != "" {
			a.Out.Line("signing secret, not shown again after ten minutes: %s", command.Clean(set.Config.SigningSecret))
		}
		if set.Config.SigningKey != "" {
			a.Out.Line("public key of v1a: %s", command.Clean(set.Config.SigningKey))
		}
	})
	return c.explainSet(a, params, err)
}

// webhooksOf returns the webhooks of a task, raw and decoded.
func webhooksOf(ctx context.Context, a *app, c *connection, task command.NonEmpty) (json.RawMessage, []a2a.TaskPushNotificationConfig, error) {
	raw, list, err := call[a2a.ListTaskPushNotificationConfigResult](ctx, a, c, a2a.MethodPushList, a2a.ListTaskPushNotificationConfigParams{TaskID: string(task)})
	if err != nil {
		return nil, nil, err
	}
	return raw, list.Configs, nil
}

// params returns the webhook to register: the settings of the replaced webhook, if any, changed by
// the flags. Its secrets are masked; the server keeps a secret if it receives the mask.
func (c *webhooksSetCmd) params(ctx context.Context, a *app) (*a2a.TaskPushNotificationConfig, error) {
	_, list, err := webhooksOf(ctx, a, &c.connection, c.Task)
	if err != nil {
		return nil, err
	}
	params := &a2a.TaskPushNotificationConfig{TaskID: string(c.Task), Config: a2a.PushNotificationConfig{ID: string(c.ID)}}
	for _, w := range list {
		if c.ID != "" && w.Config.ID == string(c.ID) || c.ID == "" && w.Config.URL == c.URL {
			params.Config, params.LongRunning = w.Config, w.LongRunning
			params.Config.SigningKey, params.Config.Delivery = "", nil // read-only members
			break
		}
	}
	isSet := func(flag string) bool { return a.set.origins[flag].rank == byFlag }
	to := &params.Config
	to.URL, to.RotateSecret = c.URL, c.RotateSecret
	if c.WebhookToken != nil {
		to.Token = *c.WebhookToken
	}
	if to.PayloadFormat == "" || isSet("format") {
		to.PayloadFormat = a2a.PayloadFormat(c.Format)
	}
	if isSet("signature") {
		to.Signatures = c.Signature
	}
	if isSet("long-running") {
		params.LongRunning = c.LongRunning
	}
	return params, nil
}

// explainSet adds a hint to an error. The server does not keep a secret if the webhook moves to
// another endpoint.
func (c *webhooksSetCmd) explainSet(a *app, params *a2a.TaskPushNotificationConfig, err error) error {
	var coded *a2a.Error
	if !errors.As(err, &coded) {
		return err
	}
	auth, _ := params.Config.Authentication.(a2a.PushNotificationAuthenticationInfo)
	switch coded.Data["field"] {
	case "pushNotificationConfig.token":
		if c.WebhookToken == nil && params.Config.Token != "" {
			return command.WithHint(err, "set --webhook-token again, or --webhook-token '' for none")
		}
	case "pushNotificationConfig.authentication.credentials":
		if auth.Credentials != "" {
			return command.WithHint(err, "credentials have no flag: set them as JSON with `"+a.name+" call"+c.flags()+" "+a2a.MethodPushSet+"`")
		}
	}
	return explainURL(a, err, c.URL)
}

// explainURL adds a hint to an error about the host, port or address of a webhook URL.
func explainURL(a *app, err error, rawURL string) error {
	var coded *a2a.Error
	if !errors.As(err, &coded) {
		return err
	}
	rule, _ := coded.Data["rule"].(string)
	if flag := allowFlag(rule, rawURL); flag != "" {
		return command.WithHint(err, "the server delivers to public addresses only; its operator can allow this one: `"+a.name+" serve "+flag+"`")
	}
	return err
}

type webhooksGetCmd struct {
	Task command.NonEmpty `arg:"" help:"Task id."`
	ID   command.NonEmpty `arg:"" optional:"" help:"Webhook id (default the only webhook of the task)."`

	connection
}

// Run shows a webhook.
func (c *webhooksGetCmd) Run(ctx context.Context, a *app) error {
	params := a2a.GetTaskPushNotificationConfigParams{TaskID: string(c.Task), ConfigID: string(c.ID)}
	raw, got, err := call[a2a.TaskPushNotificationConfig](ctx, a, &c.connection, a2a.MethodPushGet, params)
	switch {
	case err != nil:
		return c.explainWebhook(a, c.Task, err)
	case a.JSON:
		a.Out.JSON(raw)
		return nil
	}
	dead, err := c.deadLetters(ctx, a, a2a.ListDeadLettersParams{TaskID: string(c.Task), ConfigID: got.Config.ID})
	if err == nil {
		showWebhook(a.Out, got, len(dead.DeadLetters))
	}
	return err
}

// deadLetters returns the first page of dead letters; with a next page if the agent does not list them.
func (c *connection) deadLetters(ctx context.Context, a *app, params a2a.ListDeadLettersParams) (*a2a.ListDeadLettersResult, error) {
	params.PageSize = command.MaxPage
	_, letters, err := call[a2a.ListDeadLettersResult](ctx, a, c, a2a.MethodDeadLetters, params)
	if a2a.CodeOf(err) == a2a.CodeMethodNotFound { // another A2A server
		return &a2a.ListDeadLettersResult{NextPageToken: "unknown"}, nil
	}
	return letters, err
}

// explainWebhook adds a hint to an error of a call about a webhook.
func (c *connection) explainWebhook(a *app, task command.NonEmpty, err error) error {
	if hint := webhookHint(err); hint != "" {
		return command.WithHint(err, "`"+a.name+" webhooks list"+c.flags()+" "+quoteShell(string(task))+"` "+hint)
	}
	return err
}

// webhookHint returns what the list of a task's webhooks shows to resolve an error, "" if nothing.
func webhookHint(err error) string {
	var coded *a2a.Error
	switch {
	case !errors.As(err, &coded):
	case coded.Code == a2a.CodePushConfigNotFound:
		return "shows the webhooks of the task"
	case coded.Data["field"] == "pushNotificationConfigId":
		return "shows their ids: add one after the task id"
	}
	return ""
}

// showWebhook prints a webhook and its number of dead letters.
func showWebhook(o *command.Output, w *a2a.TaskPushNotificationConfig, dead int) {
	row, c := o.Row, &w.Config
	o.Line("%s", o.Bold("webhook "+command.Clean(c.ID)))
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
	row("signature", signed)
	row("key", c.SigningKey)
	if w.LongRunning {
		row("retention", "30 days after the task is final")
	}
	d := c.Delivery
	if d == nil {
		return
	}
	row("state", stateOf(d))
	if d.LastDelivered != nil {
		row("delivered", fmt.Sprintf("%s, the last %s ago", command.Plural(d.Delivered, "event"), command.Age(*d.LastDelivered)))
	} else {
		row("delivered", "nothing yet")
	}
	switch {
	case dead >= command.MaxPage:
		row("dead", strconv.Itoa(dead)+" events or more")
	case dead > 0:
		row("dead", command.Plural(int64(dead), "event"))
	}
	if next := nextOf(d); next != "" && d.Attempts > 0 {
		row("next", fmt.Sprintf("%s, after %s", next, command.Plural(int64(d.Attempts), "failure")))
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

// nextOf returns when the next event is sent, "" if none is pending.
func nextOf(d *a2a.PushDelivery) string {
	switch {
	case !d.Pending:
		return ""
	case d.NextAttemptAt == nil || time.Until(*d.NextAttemptAt) < time.Second:
		return "now"
	}
	return "in " + formatDelay(time.Until(*d.NextAttemptAt))
}

// formatDelay formats a duration in its two largest units.
func formatDelay(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

type webhooksDeleteCmd struct {
	Task command.NonEmpty   `arg:"" help:"Task id."`
	IDs  []command.NonEmpty `arg:"" name:"id" help:"Webhook ids."`

	connection
}

// Run deletes webhooks. It continues after errors.
func (c *webhooksDeleteCmd) Run(ctx context.Context, a *app) error {
	_, list, err := webhooksOf(ctx, a, &c.connection, c.Task)
	if err != nil {
		return err
	}
	exists := map[string]bool{"default": len(list) == 1}
	for _, w := range list {
		exists[w.Config.ID] = true
	}
	ids := make([]string, len(c.IDs))
	for i, id := range c.IDs {
		ids[i] = string(id)
	}
	return a.Each(ctx, ids, func(id string) error {
		text := "deleted webhook " + id
		if !exists[id] {
			text = "webhook " + id + " not found"
		}
		return c.explainWebhook(a, c.Task, c.change(ctx, a, a2a.MethodPushDelete, a2a.DeleteTaskPushNotificationConfigParams{TaskID: string(c.Task), ConfigID: id}, text))
	})
}

// inlineWebhook has the flags that register a webhook with a message.
type inlineWebhook struct {
	Webhook      string `placeholder:"URL" group:"Webhook:" help:"Register this webhook for the task, starting with its first event."`
	WebhookToken string `placeholder:"TOKEN" group:"Webhook:" help:"Token sent in X-A2A-Notification-Token, with format event also as bearer token, so that the receiver can authenticate the request."`
	LongRunning  bool   `group:"Webhook:" help:"Keep the webhook for 30 days instead of one after the task is final."`
}

// configuration returns the webhook of the message, nil if there is none.
func (i *inlineWebhook) configuration() (*a2a.MessageSendConfiguration, error) {
	if i.Webhook == "" {
		if i.WebhookToken != "" || i.LongRunning {
			return nil, command.Usagef("--webhook-token and --long-running need --webhook")
		}
		return nil, nil
	}
	return &a2a.MessageSendConfiguration{
		PushNotificationConfig: &a2a.PushNotificationConfig{URL: i.Webhook, Token: i.WebhookToken}, LongRunning: i.LongRunning,
	}, nil
}
