package client

import (
	"context"
	"iter"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
)

// SetWebhook registers or replaces a webhook of a task, and returns the saved webhook.
func (c *Client) SetWebhook(ctx context.Context, p a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	set, err := result[a2a.TaskPushNotificationConfig](ctx, c, a2a.MethodPushSet, p)
	codec, ok := c.binding.codec.(v03.ProtoCodec)
	if !ok || a2a.CodeOf(err) != a2a.CodeInvalid {
		return set, err
	}
	// Some servers of A2A 0.3 over HTTP+JSON accept only the other form of the request.
	codec.BareWebhooks = true
	raw, bareErr := codec.EncodeParams(&p)
	if bareErr != nil {
		return nil, err
	}
	if raw, bareErr = c.Call(ctx, a2a.MethodPushSet, raw); bareErr != nil {
		return nil, err
	}
	set = new(a2a.TaskPushNotificationConfig)
	if bareErr = codec.DecodeResult(raw, set); bareErr != nil {
		return nil, c.badResult(a2a.MethodPushSet, bareErr)
	}
	return set, nil
}

// GetWebhook returns a webhook of a task. Without an id, Holdfast returns the newest
// one.
func (c *Client) GetWebhook(ctx context.Context, p a2a.GetTaskPushNotificationConfigParams) (*a2a.TaskPushNotificationConfig, error) {
	return result[a2a.TaskPushNotificationConfig](ctx, c, a2a.MethodPushGet, p)
}

// ListWebhooks returns the webhooks of a task.
func (c *Client) ListWebhooks(ctx context.Context, taskID string) ([]a2a.TaskPushNotificationConfig, error) {
	var all []a2a.TaskPushNotificationConfig
	for p := (a2a.ListTaskPushNotificationConfigParams{TaskID: taskID}); ; {
		page, err := result[a2a.ListTaskPushNotificationConfigResult](ctx, c, a2a.MethodPushList, p)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Configs...)
		if page.NextPageToken == "" || page.NextPageToken == p.PageToken {
			return all, nil
		}
		p.PageToken = page.NextPageToken
	}
}

// DeleteWebhook deletes a webhook of a task.
func (c *Client) DeleteWebhook(ctx context.Context, taskID, id string) error {
	_, err := result[any](ctx, c, a2a.MethodPushDelete, a2a.DeleteTaskPushNotificationConfigParams{TaskID: taskID, ConfigID: id})
	return err
}

// ListDeadLetters returns a page of the events that could not be delivered to the caller's
// webhooks, newest first. The method is an extension of A2A.
func (c *Client) ListDeadLetters(ctx context.Context, p a2a.ListDeadLettersParams) (*a2a.ListDeadLettersResult, error) {
	return result[a2a.ListDeadLettersResult](ctx, c, a2a.MethodDeadLetters, p)
}

// DeadLetters yields the dead letters of all pages from p.PageToken or p.Offset on. It fetches a
// page after the previous one was consumed, and ends after the first error.
func (c *Client) DeadLetters(ctx context.Context, p a2a.ListDeadLettersParams) iter.Seq2[a2a.DeadLetter, error] {
	return pages(p.PageToken, func(token string) ([]a2a.DeadLetter, string, error) {
		p := p
		if token != p.PageToken {
			p.PageToken, p.Offset = token, 0
		}
		page, err := c.ListDeadLetters(ctx, p)
		if err != nil {
			return nil, "", err
		}
		return page.DeadLetters, page.NextPageToken, nil
	})
}

// Replay makes the agent resend the events of a webhook, from p.FromSequence or, if that is
// 0, from its first dead letter. The method is an extension of A2A.
func (c *Client) Replay(ctx context.Context, p a2a.ReplayParams) (*a2a.ReplayResult, error) {
	return result[a2a.ReplayResult](ctx, c, a2a.MethodPushReplay, p)
}

// ListAttempts returns a page of the delivery attempts of a task's webhooks, newest first.
// The method is an extension of A2A.
func (c *Client) ListAttempts(ctx context.Context, p a2a.ListAttemptsParams) (*a2a.ListAttemptsResult, error) {
	return result[a2a.ListAttemptsResult](ctx, c, a2a.MethodPushAttempts, p)
}
