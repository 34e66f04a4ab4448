package server

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
)

// URIs of the extensions that the agent card declares.
const (
	extensionsDoc = "https://github.com/holdfast-dev/holdfast/blob/main/docs/extensions.md"

	ExtensionList       = extensionsDoc + "#list-tasks"
	ExtensionResume     = extensionsDoc + "#resume-streams"
	ExtensionRepeatable = extensionsDoc + "#repeatable-requests"
	ExtensionClientIDs  = extensionsDoc + "#ids-made-by-clients"
	ExtensionContexts   = extensionsDoc + "#contexts"
	ExtensionFeedback   = extensionsDoc + "#feedback"
	ExtensionWebhooks   = extensionsDoc + "#webhooks"
)

func extensions(hooks bool) []a2a.AgentExtension {
	all := []a2a.AgentExtension{
		{URI: ExtensionList, Description: "tasks/list pages through the caller's tasks, newest first, with filters by context, state and time."},
		{URI: ExtensionResume, Description: "Stream events have ids; tasks/resubscribe with Last-Event-ID replays exactly what was missed, also after a restart and for finished tasks."},
		{URI: ExtensionRepeatable, Description: "message/send, message/stream, tasks/cancel, tasks/feedback, contexts/create and contexts/update are safe to repeat with an Idempotency-Key header."},
		{URI: ExtensionClientIDs, Description: "A message may start a task with a taskId and contextId chosen by its client."},
		{URI: ExtensionContexts, Description: "contexts/list, get, create, update and clear manage the conversations that the caller's tasks belong to."},
		{URI: ExtensionFeedback, Description: "tasks/feedback stores a comment and a rating of a task; tasks/feedback/list returns them."},
	}
	if hooks {
		all = append(all, a2a.AgentExtension{URI: ExtensionWebhooks, Description: "Webhooks receive every update in order, signed, in the payload format of their configuration, with retries until it is delivered; webhooks/dead/list, webhooks/attempts and webhooks/replay list failed deliveries and repeat them."})
	}
	return all
}

// card is the agent card that the server returns.
type card struct {
	model a2a.AgentCard
	codec rpc.Codec
	fixed []byte // the encoded card if its URL does not depend on the request
	built time.Time
}

func newCard(cfg Config) (*card, error) {
	c := cfg.Card
	c.PreferredTransport = "JSONRPC"
	c.Description = cmp.Or(c.Description, c.Name)
	c.Version = cmp.Or(c.Version, "0.0.0")
	if len(c.DefaultInputModes) == 0 {
		c.DefaultInputModes = []string{"text/plain"}
	}
	if len(c.DefaultOutputModes) == 0 {
		c.DefaultOutputModes = []string{"text/plain"}
	}
	c.Capabilities.Streaming = true
	c.Capabilities.PushNotifications = cfg.Webhook != nil
	c.Capabilities.StateTransitionHistory = true
	c.Capabilities.Extensions = slices.Concat(c.Capabilities.Extensions, extensions(cfg.Webhook != nil))
	if cfg.Authenticator != nil {
		c.SecuritySchemes, c.Security = cfg.Authenticator.Security()
	}
	built := &card{model: c, codec: cfg.Codecs[0], built: time.Now()}
	raw, err := built.codec.AppendCard(nil, &c)
	if c.URL != "" {
		built.fixed = raw
	}
	return built, err
}

// serveCard returns the agent card.
func (x *exchange) serveCard() {
	body := x.s.card.fixed
	if body == nil {
		model := x.s.card.model
		model.URL = address(x.r)
		body, _ = x.s.card.codec.AppendCard(nil, &model) // newCard has encoded it without error
	}
	sum := sha256.Sum256(body)
	h := x.Header()
	h["Content-Type"] = jsonType
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	http.ServeContent(x, x.r, "", x.s.card.built, bytes.NewReader(body))
}

// address returns the URL to which a request was sent, as far as the server can know it.
func address(r *http.Request) string {
	host := r.Host
	if host == "" {
		if a, ok := r.Context().Value(http.LocalAddrContextKey).(interface{ String() string }); ok {
			host = a.String()
		}
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + host + "/"
}
